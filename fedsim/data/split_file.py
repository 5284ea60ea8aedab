"""Partitions in files, as other tools write them, and as `fedsim data partition --split` does."""

import csv
import io
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fedsim.compose import partition
from fedsim.data.partition import Assign, Parts, parts_of
from fedsim.errors import DataError, PartitionError
from fedsim.limits import require_memory
from fedsim.sources.cells import parse_ids
from fedsim.sources.columns import column_in
from fedsim.sources.delimited import Dialect, table_of, text_in
from fedsim.sources.faults import MAX_LISTED, Faults
from fedsim.sources.files import Name, opened, require_few_lists
from fedsim.sources.ids import BLANK, number_ids, sortable
from fedsim.sources.names import fault_of_name

MAX_SAMPLE = 10**18  # samples are below it
BYTES_PER_CHARACTER = 20  # that Python needs at most for JSON that consists of numbers

NOBODY = -1  # the client of a sample that is not listed
NOTHING = -1  # the sample of an entry that only names a client
COLUMNS = ("sample", "client")


class Split(NamedTuple):
    """Who has which samples, in the order of a file."""

    samples: np.ndarray  # of every entry `[m]` int64; NOTHING if it only names a client
    owner: np.ndarray  # client number of every entry `[m]` int32
    names: list[Any]  # names of the clients, rising
    where: Callable[[int], str]  # number of an entry -> its position in the file, in words


@partition
def file(path: Name, sha256: str | None = None) -> Assign:
    """From a file: a CSV with the columns `sample` and `client`, or JSON `{client: [samples]}`.

    A sample is the number of a row of the data set as it is read, from 0, before anything is set
    apart for testing (rows that `missing: drop` leaves out are not counted). Samples that are set
    apart are not trained on, and samples that the file does not list belong to no client. Clients
    have the names in the file, sorted (numbers as numbers), and their samples in the order of the
    file; a line without a sample names a client that has none. `clients` is ignored.

    `fedsim data partition --split` writes such files. Splits of other tools can be used as well:
    the dictionary `client_dict` of FedLab's partitioners, and `partition_id_to_indices` of Flower
    Datasets, each as JSON.

    Args:
      path: the file, plain or gzipped, in the scenario's folder, the working directory or a
        `--data-root`; files elsewhere are not read.
      sha256: hash of the file; any other file is refused (filled in by the resolved scenario).

    Raises:
      DataError: if the file is not such a split, or belongs to another data set; names the file and
        the rows.
    """
    with opened(path, sha256) as source:
        split = _read(source)

    def assign(pool, clients, rng):
        total = pool.rows_read or len(pool.y)
        beyond = np.flatnonzero(split.samples >= total)
        if len(beyond):
            lines = [
                f"{split.where(i)}: sample {split.samples[i]}: "
                f"there are {total} samples, 0 to {total - 1}"
                for i in beyond[:MAX_LISTED]
            ]
            raise _error(lines, len(beyond)).with_prefix(path)

        # The training row of every sample that was read; NOTHING indexes the last entry.
        row_of = np.full(total + 1, NOBODY)
        rows_read = np.arange(total) if pool.rows is None else pool.rows
        row_of[rows_read] = np.arange(len(pool.y))

        rows = row_of[split.samples]
        trained_on = rows >= 0
        if not trained_on.any():
            raise PartitionError("none of the samples that the file lists is left to train on")
        N = len(split.names)
        parts = parts_of(rows[trained_on], split.owner[trained_on], N)
        names = None if split.names == list(range(N)) else tuple(split.names)
        return parts._replace(names=names)

    return assign


def split_text(parts: Parts, rows: np.ndarray | None, json_form: bool = False) -> str:
    """Return a partition as the text of such a file, CSV or JSON, from which `file` makes it again.

    Samples are numbered by their rows among all that were read; None: they are the same.
    """
    N = len(parts.offsets) - 1
    names = list(range(N)) if parts.names is None else list(parts.names)
    samples = parts.indices if rows is None else rows[parts.indices]
    lists = [part.tolist() for part in np.split(samples, parts.offsets[1:-1])]
    if json_form:
        by_name = {str(name): listed for name, listed in zip(names, lists, strict=True)}
        return json.dumps(by_name) + "\n"

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, listed in zip(names, lists, strict=True):
        writer.writerows((sample, name) for sample in listed or [""])
    return text.getvalue()


def _read(source: BinaryIO) -> Split:
    text = text_in(source)
    if text.lstrip()[:1] in ("{", "["):
        return _read_json(text)
    return _of_table(table_of(text, Dialect(",")))


def _of_table(frame: Any) -> Split:
    role = "the columns sample and client are needed"
    faults = Faults(list(frame.columns), lambda row: f"row {frame.index[row]}")
    column, clients = (column_in(frame, name, faults, role) for name in COLUMNS)
    samples: list[Any] = [_sample_of(cell) for cell in column.cells]
    wrong = np.array([sample is None for sample in samples], bool)
    column.add(wrong, "{} is not a sample; samples are 0, 1, 2, ...")
    client_ids = parse_ids(clients)
    faults.raise_any()
    return _checked(samples, client_ids, lambda i: f"row {frame.index[i]}")


def _sample_of(cell: str) -> int | None:
    """Return the sample in a cell; NOTHING if the cell is empty, None if it is not a sample."""
    if not cell:
        return NOTHING
    is_number = cell.isascii() and cell.isdigit() and len(cell) < len(str(MAX_SAMPLE))
    return int(cell) if is_number else None


def _read_json(text: str) -> Split:
    require_few_lists(text.encode())
    require_memory(json=BYTES_PER_CHARACTER * len(text))
    try:
        mapping = json.loads(text, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        raise DataError(f"line {error.lineno}: not JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise DataError(f"not JSON: {error}") from None
    if not isinstance(mapping, dict):
        raise DataError('expected a mapping from clients to their samples, {"0": [0, 5, 7], ...}')

    problems = [_fault_of_entry(client, listed) for client, listed in mapping.items()]
    problems = [problem for problem in problems if problem is not None]
    if problems:
        raise _error(problems[:MAX_LISTED], len(problems))
    client_ids = sortable([client.strip() for client in mapping])

    # One list of samples after another; a client without samples has one entry.
    lists = [listed or [NOTHING] for listed in mapping.values()]
    lengths = [len(listed) for listed in lists]
    begins = np.cumsum(lengths) - lengths
    client = np.repeat(np.arange(len(lists)), lengths)
    samples = np.fromiter(itertools.chain.from_iterable(lists), np.int64, sum(lengths))

    def where(i: int) -> str:
        name = client_ids[client[i]]
        return f"client {name!s:.40}, position {i - begins[client[i]] + 1}"

    return _checked(samples, client_ids[client], where)


def _without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Make a mapping from its pairs, and refuse a key that appears twice."""
    mapping: dict[str, Any] = {}
    for name, value in pairs:
        if name in mapping:
            raise ValueError(f"client {name[:40]!a} appears twice")
        mapping[name] = value
    return mapping


def _fault_of_entry(client: str, listed: Any) -> str | None:
    """Return what is wrong with the name or the samples of a client in JSON; None: nothing."""
    if client.strip() in BLANK:
        return f"client {client[:40]!a}: a blank; give every client a name"
    fault = fault_of_name(client)
    if fault is not None:
        return f"client {fault}"
    if not isinstance(listed, list):
        return f"client {client[:40]!a}: expected a list of its samples"
    for position, sample in enumerate(listed, 1):
        if type(sample) is not int or not 0 <= sample < MAX_SAMPLE:
            return (
                f"client {client[:40]!a}, position {position}: "
                f"{str(sample)[:40]!a} is not a sample; samples are 0, 1, 2, ..."
            )
    return None


def _checked(
    samples: Sequence[int] | np.ndarray, clients: np.ndarray, where: Callable[[int], str]
) -> Split:
    """Return the entries of a file, in which no sample may be listed twice.

    They are a sample, and the id of a client, each `[m]`.
    """
    samples = np.asarray(samples, np.int64)
    if not len(samples):
        raise DataError("no samples")

    order = np.argsort(samples, kind="stable")
    is_repeated = (np.diff(samples[order]) == 0) & (samples[order[1:]] != NOTHING)
    repeated = np.flatnonzero(is_repeated)
    if len(repeated):
        lines = []
        for i in repeated[:MAX_LISTED].tolist():
            first, second = order[i : i + 2].tolist()
            lines.append(f"{where(second)}: sample {samples[second]} is already in {where(first)}")
        raise _error(lines, len(repeated))

    owner, names = number_ids(clients)
    return Split(samples, owner, names, where)


def _error(lines: list[str], count: int) -> DataError:
    unlisted = count - len(lines)
    if unlisted > 0:
        return DataError(*lines, f"and {unlisted:,} more problems")
    return DataError(*lines)
