"""`fedsim bundle`: everything that repeats runs, as one zip; the same runs give the same bytes."""

import hashlib
import io
import os
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.disk import files
from fedsim.errors import CheckpointError, DirectoryError, printable
from fedsim.runs import checks, directory
from fedsim.runs.filenames import COMMITS, UPDATES
from fedsim.scenario.reader import parse
from fedsim.tools.bundle.crate import CRATE, LeftOut, Packed, PackedRun, crate_of, fault_in_name
from fedsim.tools.bundle.data import data_of
from fedsim.tools.bundle.readme import readme_of, requirements_of

LIMIT = 10.0  # MB of a file that is taken along
RUNS = "runs"
EARLIEST = (1980, 1, 1, 0, 0, 0)  # the time of every file: a zip cannot have an earlier one
UNIX = 3  # the system that every zip says it comes from
MODE = 0o100644  # a regular file that its owner may write


class Bundle(NamedTuple):
    """What a bundle has, and what it has not.

    Attributes:
      content: the zip.
      packed: its files.
      left_out: what belongs to the runs and is not in it.
    """

    content: bytes
    packed: list[Packed]
    left_out: list[LeftOut]


class Request(NamedTuple):
    """What is packed; see `bundle`."""

    limit: int
    commits: bool
    roots: Sequence[Path]


def bundle(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    plugins: Sequence[str | os.PathLike[str]] = (),
    license: str | None = None,
    limit_mb: float = LIMIT,
    commits: bool = False,
    data_roots: Iterable[str | os.PathLike[str]] = (),
) -> Bundle:
    """Pack runs or comparisons that have ended, with what repeats them, into a zip.

    Of every run it has tables, page, record and scenario, resolved and as written; the files of its
    data up to a size, else their hashes; the plug-ins as text; versions; a README with the command;
    and `ro-crate-metadata.json` (RO-Crate 1.1). The zip is not compressed and has no dates, so that
    the same directories give the same bytes.

    Args:
      paths: the run directories.
      out: the zip.
      plugins: the files of the user's own links in these runs, which are not executed.
      license: under which the bundle may be used: a text, or an address.
      limit_mb: the most megabytes of a data set, and of any other file of a run than its scenario
        and its tables, that are taken along.
      commits: also take logs and commits along, from which a run resumes, forks and is verified.
      data_roots: folders that may hold the data, besides the working directory.

    Returns:
      The content of the zip, its files, and what is left out, with sizes and reasons.

    Raises:
      DirectoryError: where there is no run, or one that has not ended; for a link in it, and for a
        name that no bundle can hold.
      CheckpointError: for a file that was changed after it was written, and for a plug-in that none
        of the runs has used.
    """
    request = Request(int(limit_mb * 1e6), commits, [Path(root) for root in data_roots])
    runs: list[PackedRun] = []
    packed: list[Packed] = []
    left_out: list[LeftOut] = []
    for path, name in zip(map(Path, paths), _names(paths), strict=True):
        record = _ended_record(path)
        runs.append(PackedRun(name, record))
        for part in (_files_of_run(path, name, record, request), _inputs(path, name, request)):
            packed += part[0]
            left_out += part[1]
        packed += _written(name, record)
    with_code, without_code = _plugins(runs, plugins)
    packed += with_code
    left_out += without_code

    for name, what, text in (
        ("README.md", "how to repeat the runs", readme_of(runs, packed, left_out)),
        ("requirements.txt", "versions that the runs were made with", requirements_of(runs)),
    ):
        packed.append(_packed(name, what, text.encode()))
    packed = sorted({file.name: file for file in packed}.values())
    crate = crate_of(runs, packed, left_out, license)
    everything = [*packed, _packed(CRATE, "what this is", crate.encode())]
    _require_names(everything)
    content = _zipped(sorted(everything))
    files.write_output(Path(out), content)
    return Bundle(content, everything, left_out)


def _names(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """A distinct name for every run directory: its own, with a number where that is taken.

    A character that no name in a bundle has becomes an underscore.
    """
    names: list[str] = []
    for path in paths:
        letters = Path(path).resolve().name
        stem = "".join(c if c.isprintable() and c != "\\" else "_" for c in letters)
        name = stem
        number = 2
        while name in names:
            name = f"{stem}-{number}"
            number += 1
        names.append(name)
    return names


def _require_names(packed: Sequence[Packed]) -> None:
    """Refuse a file, such as one of the data, that nobody could unpack.

    Raises:
      DirectoryError: naming it.
    """
    for file in packed:
        if fault_in_name(file.name):
            reason = "has a name that no bundle can hold; rename it, and run again"
            raise DirectoryError(f"{printable(file.name)}: {reason}")


def _ended_record(path: Path) -> dict[str, Any]:
    """The record of a run that has ended.

    Raises:
      DirectoryError: where there is none.
    """
    record = directory.sound_record(path)
    if record["status"] in checks.UNDER_WAY:
        raise DirectoryError(f"{path}: has not ended; continue it with --resume first")
    return record


def _packed(name: str, what: str, content: bytes) -> Packed:
    """A file of the bundle."""
    return Packed(name, what, content, hashlib.sha256(content).hexdigest())


def _files_of_run(
    path: Path, name: str, record: dict[str, Any], request: Request
) -> tuple[list[Packed], list[LeftOut]]:
    """The files of a run directory, which have to be those of its record -> packed, left out."""
    hashes = directory.hashes(path)
    listed = record.get("files", {})
    changed = [file for file in listed if hashes.get(file) != listed[file]]
    if changed:
        reason = f"{changed[0]} is missing, or was changed after it was written"
        raise CheckpointError(f"{path}: {reason}; fedsim verify tells what is wrong")

    content = (path / directory.RECORD).read_bytes()
    packed = [_packed(f"{RUNS}/{name}/{directory.RECORD}", f"the record of {name}", content)]
    left_out = []
    skipped_commits = 0
    for file in hashes:
        size = (path / file).stat().st_size
        full_name = f"{RUNS}/{name}/{file}"
        if file not in listed:
            left_out.append(LeftOut(full_name, size, "", "not a file of the run"))
        elif file.startswith((f"{COMMITS}/", f"{UPDATES}/")) and not request.commits:
            skipped_commits += size
        elif size > request.limit and not _is_needed(file):
            why = "a file above the limit (--limit MB)"
            left_out.append(LeftOut(full_name, size, hashes[file], why))
        else:
            content = (path / file).read_bytes()
            packed.append(Packed(full_name, f"{file} of {name}", content, hashes[file]))
    if skipped_commits:
        why = "logs, commits and updates, which fork, verify and --resume read (--commits)"
        left_out.append(LeftOut(f"{RUNS}/{name}/{COMMITS}", skipped_commits, "", why))
    return packed, left_out


def _is_needed(file: str) -> bool:
    """Whether a file of a run is packed however large it is: its scenario and its tables are."""
    return file == directory.SCENARIO or ("/" not in file and file.endswith(".csv"))


def _inputs(path: Path, name: str, request: Request) -> tuple[list[Packed], list[LeftOut]]:
    """The resolved scenario of a run, which names the data of the bundle, and its data."""
    text = (path / directory.SCENARIO).read_text(encoding="utf-8")
    values = parse(text, directory.SCENARIO).values
    data = data_of(values, path, request.roots, request.limit)
    what = f"the scenario of {name}, every default filled in"
    scenario = _packed(f"scenarios/{name}.yaml", what, directory.yaml_of(data.values).encode())
    return [scenario, *data.packed], data.left_out


def _written(name: str, record: dict[str, Any]) -> list[Packed]:
    """The scenario of a run as it was written, and the files that it extends."""
    packed = []
    for number, (file, text) in enumerate(record.get("written", [])):
        inner = os.path.basename(file) or f"{number}.yaml"
        folder = f"scenarios/{name}-as-written"
        what = f"{'a base of the' if number else 'the'} scenario of {name} as it was written"
        packed.append(_packed(f"{folder}/{inner}", what, text.encode()))
    return packed


def _plugins(
    runs: Sequence[PackedRun], plugins: Sequence[str | os.PathLike[str]]
) -> tuple[list[Packed], list[LeftOut]]:
    """The files of the user's own links -> those that were given, links whose file was not.

    Raises:
      CheckpointError: for a file that none of the runs has used.
    """
    links: dict[str, list[str]] = {}
    for run in runs:
        for link, sha256 in run.record["own_links"].items():
            links.setdefault(sha256, []).append(link)

    packed = []
    for plugin in plugins:
        with files.reporting_os_errors(Path(plugin)):
            content = Path(plugin).read_bytes()
        file = _packed(f"plugins/{Path(plugin).name}", "", content)
        if file.sha256 not in links:
            reason = "no link of these runs comes from this file, or it was changed since"
            raise CheckpointError(f"{plugin}: {reason}")
        defined = ", ".join(dict.fromkeys(links.pop(file.sha256)))
        packed.append(file._replace(what=f"a plug-in: {defined}"))

    left_out = []
    for sha256, names in links.items():
        why = "a plug-in (give its file with --plugin)"
        left_out.append(LeftOut(", ".join(dict.fromkeys(names)), None, sha256, why))
    return packed, left_out


def _zipped(packed: Sequence[Packed]) -> bytes:
    """A zip of files in this order, with nothing in it that depends on when and where."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for file in packed:
            info = zipfile.ZipInfo(file.name, EARLIEST)
            info.create_system = UNIX
            info.external_attr = MODE << 16
            archive.writestr(info, file.content)
    return out.getvalue()
