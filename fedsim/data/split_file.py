"""Splits in files: who holds which sample, as other tools write it down, and as `fedsim partition --split` does."""

import csv
import gzip
import io
import itertools
import json
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fedsim.compose import partition
from fedsim.data.partition import Assign, Parts, parts_of
from fedsim.errors import DataError, PartitionError
from fedsim.limits import require_memory
from fedsim.sources.arrays import numbered
from fedsim.sources.cells import ids
from fedsim.sources.delimited import lines_of, unpacked
from fedsim.sources.faults import LISTED, Faults
from fedsim.sources.files import Name, opened, require_few_lists
from fedsim.sources.names import fault_of

MOST_BYTES = 1 << 30  # of a file
HELD = 20  # bytes that Python holds of a byte of JSON that is numbers, at most
NOBODY, NOTHING = (
    -1,
    -1,
)  # the owner of a sample that is not listed, the sample of a line that names a client alone
COLUMNS = ("sample", "client")


class Split(NamedTuple):
    """Who holds what, in the order of a file."""

    samples: np.ndarray  # [m] int64; NOTHING: the entry names a client and no sample
    owner: np.ndarray  # client of every entry [m] int32
    names: list[Any]  # of the clients, rising
    where: Callable[[int], str]  # an entry's place in the file, in words


@partition
def file(path: Name, sha256: str | None = None) -> Assign:
    """From a file: a CSV with the columns `sample` and `client`, or JSON `{client: [samples]}`.

    A sample is the number of a row of the data set as it is read, from 0, before anything is set apart for testing (rows
    that `missing: drop` leaves out do not count). Samples that are set apart are not trained on, those that the file does
    not list are nobody's. Clients have the names in the file, in sorted order (numbers as numbers), and their samples in
    its order; a line without a sample names a client that has none. `clients` does not matter. `fedsim partition --split`
    writes such files. So do other tools' splits come in: the dictionary `client_dict` of FedLab's partitioners,
    `partition_id_to_indices` of Flower Datasets', each as JSON.

    Args:
      path: of the file, plain or gzipped, from the scenario's folder, the working directory or a `--data-root`; elsewhere
        none is read.
      sha256: of the file; another file is refused (filled in by the resolved scenario).

    Raises:
      DataError: for a file that is no such split, or another data set's, naming file and lines.
    """
    with opened(path, sha256, MOST_BYTES) as source:
        split = _read(source)

    def assign(pool, clients, rng):
        read = pool.read or len(pool.y)
        beyond = np.flatnonzero(split.samples >= read)
        if len(beyond):
            text = f"there are {read} samples, 0 to {read - 1}"
            raise _error(
                [f"{split.where(i)}: sample {split.samples[i]}: {text}" for i in beyond[:LISTED]],
                len(beyond),
            ).within(path)
        row = np.full(read + 1, NOBODY)  # the last is what NOTHING indexes
        row[np.arange(read) if pool.rows is None else pool.rows] = np.arange(len(pool.y))
        held = row[split.samples]
        if (held < 0).all():
            raise PartitionError("none of the samples that the file lists is left to train on")
        rows, owner = held[held >= 0], split.owner[held >= 0]
        names = None if split.names == list(range(len(split.names))) else tuple(split.names)
        return parts_of(rows, owner, len(split.names))._replace(names=names)

    return assign


def split_text(parts: Parts, rows: np.ndarray | None, json_form: bool = False) -> str:
    """A partition as the text of such a file, from which `file` makes the same again.

    Args:
      parts: who holds what.
      rows: number of every sample as it was read; None: as they stand.
      json_form: whether JSON, else CSV.
    """
    N = len(parts.offsets) - 1
    names = list(range(N)) if parts.names is None else list(parts.names)
    samples = parts.indices if rows is None else rows[parts.indices]
    lists = [part.tolist() for part in np.split(samples, parts.offsets[1:-1])]
    if json_form:
        return json.dumps({str(name): held for name, held in zip(names, lists, strict=True)}) + "\n"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, held in zip(names, lists, strict=True):
        writer.writerows((sample, name) for sample in held or [""])
    return text.getvalue()


def _read(source: BinaryIO) -> Split:
    """The entries of a file, and every fault in them that can be told without the samples."""
    with unpacked(source) as (text, most):
        most = min(most, MOST_BYTES)
        try:
            head = text.read(100).lstrip()
            text.seek(0)
            if head[:1] not in ("{", "["):
                return _of_csv(csv.reader(lines_of(text, most), skipinitialspace=True, strict=True))
            if len(whole := text.read(most + 1)) > most:
                raise DataError(f"unpacks to more than {most} bytes")
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 text: {error.reason}; save the split as UTF-8") from None
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise DataError(f"not a sound gzip file: {error}") from None
        return _of_json(whole)


def _of_csv(reader: Any) -> Split:
    numbers, samples, clients = array("q"), array("q"), []
    try:
        header = [name.strip() for name in next(reader, [])]
        if sorted(name for name in header if name in COLUMNS) != sorted(COLUMNS):
            listed = ", ".join(ascii(name[:40]) for name in header[:6]) or "nothing"
            raise DataError(
                f"line 1: the columns sample and client are needed, found {listed}; write 'sample,client'"
            )
        faults, places = Faults("line", header), [header.index(name) for name in COLUMNS]
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                faults.add(
                    reader.line_num, -1, f"{len(row)} cells, the header names {len(header)} columns"
                )
                continue
            sample, client = (row[place].strip() for place in places)
            number = _number(sample)
            if number is None:
                faults.add(
                    reader.line_num,
                    places[0],
                    f"{sample[:40]!a} is no sample; samples are 0, 1, 2, ...",
                )
            numbers.append(reader.line_num)
            samples.append(NOTHING if number is None else number)
            clients.append(client)
    except csv.Error as error:
        raise DataError(f"line {reader.line_num}: {error}") from None
    named = ids(clients, numbers, places[1], faults)
    faults.raise_any()
    return _checked(samples, named, lambda i: f"line {numbers[i]}")


def _number(cell: str) -> int | None:
    """A sample; NOTHING where the cell is empty, None where it is no number of one."""
    if not cell:
        return NOTHING
    return int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 19 else None


def _of_json(text: str) -> Split:
    require_few_lists(text.encode())
    require_memory(json=HELD * len(text))
    try:
        lists = json.loads(text, object_pairs_hook=_without_doubles)
    except json.JSONDecodeError as error:
        raise DataError(f"line {error.lineno}: not JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise DataError(f"not JSON: {error}") from None
    if not isinstance(lists, dict):
        raise DataError('a mapping from clients to their samples is needed, {"0": [0, 5, 7], ...}')
    bad = [_unlisted(client, held) for client, held in lists.items()]
    if any(bad):
        raise _error(list(filter(None, bad))[:LISTED], len([*filter(None, bad)]))
    faults = Faults("entry", COLUMNS)
    named = ids(list(lists), range(1, len(lists) + 1), 1, faults)
    faults.raise_any()
    entries = [held or [NOTHING] for held in lists.values()]
    ends = np.cumsum([*map(len, entries)])
    client = np.repeat(np.arange(len(entries)), [*map(len, entries)])
    samples = np.fromiter(
        itertools.chain.from_iterable(entries), np.int64, int(ends[-1]) if len(ends) else 0
    )
    begins = ends - [*map(len, entries)]
    return _checked(
        samples,
        named[client],
        lambda i: f"client {named[client[i]]!s:.40}, place {i - begins[client[i]] + 1}",
    )


def _without_doubles(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        known: set[str] = set()
        twice = next(name for name, _ in pairs if name in known or known.add(name))
        raise ValueError(f"client {twice[:40]!a} stands there twice")
    return mapping


def _unlisted(client: str, held: Any) -> str | None:
    """What is wrong with the name or the samples of a client in JSON."""
    if (fault := fault_of(client)) is not None:
        return f"client {fault}"
    if not isinstance(held, list):
        return f"client {client[:40]!a}: a list of its samples is needed"
    for place, sample in enumerate(held, 1):
        if type(sample) is not int or not 0 <= sample < 10**18:
            return f"client {client[:40]!a}, place {place}: {str(sample)[:40]!a} is no sample; samples are 0, 1, 2, ..."
    return None


def _checked(
    samples: Sequence[int] | np.ndarray, clients: np.ndarray, where: Callable[[int], str]
) -> Split:
    """Entries in which no sample stands twice."""
    samples = np.asarray(samples, np.int64)
    if not len(samples):
        raise DataError("no samples")
    order = np.argsort(samples, kind="stable")
    again = np.flatnonzero((np.diff(samples[order]) == 0) & (samples[order[1:]] != NOTHING))
    if len(again):
        pairs: Iterator[tuple[int, int]] = zip(
            order[again[:LISTED]].tolist(), order[again[:LISTED] + 1].tolist(), strict=True
        )
        raise _error(
            [
                f"{where(two)}: sample {samples[two]} stands in {where(one)} already"
                for one, two in pairs
            ],
            len(again),
        )
    owner, names = numbered(clients)
    return Split(samples, owner, names, where)


def _error(lines: list[str], count: int) -> DataError:
    return DataError(
        *lines, *([f"and {count - len(lines):,} more problems"] if count > len(lines) else [])
    )
