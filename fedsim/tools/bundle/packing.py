"""Everything that repeats runs, as one zip; the same runs give the same bytes."""

import hashlib
import io
import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.disk import files
from fedsim.errors import CheckpointError
from fedsim.runs import directory
from fedsim.runs.ended import ended_record
from fedsim.runs.filenames import COMMITS, UPDATES
from fedsim.scenario.reader import parse
from fedsim.tools.bundle.crate import CRATE, Contents, LeftOut, Packed, crate_of
from fedsim.tools.bundle.data import pack_data
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
    limit = int(limit_mb * 1e6)
    roots = [Path(root) for root in data_roots]
    records: dict[str, dict[str, Any]] = {}
    contents = Contents()
    for path, name in zip(map(Path, paths), _names(paths), strict=True):
        records[name] = ended_record(path)
        _pack_files(contents, path, name, records[name], limit, commits)
        _pack_scenario(contents, path, name, records[name], roots, limit)
    _pack_plugins(contents, records, plugins)
    first = next(iter(records.values()))
    contents.pack("README.md", "how to repeat the runs", readme_of(records, contents))
    contents.pack(
        "requirements.txt", "versions that the runs were made with", requirements_of(first)
    )
    crate = crate_of(records, sorted(contents.files.values()), license)
    contents.pack(CRATE, "what this is", crate)
    packed = sorted(contents.files.values())
    content = _zipped(packed)
    files.write_output(Path(out), content)
    return Bundle(content, packed, contents.left_out)


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


def _pack_files(
    contents: Contents, path: Path, name: str, record: dict[str, Any], limit: int, commits: bool
) -> None:
    """Pack the files of a run directory, which have to be those of its record."""
    hashes = directory.hashes(path)
    listed = record["files"]
    changed = [file for file in listed if hashes.get(file) != listed[file]]
    if changed:
        reason = f"{changed[0]} is missing, or was changed after it was written"
        raise CheckpointError(f"{path}: {reason}; fedsim verify tells what is wrong")

    folder = f"{RUNS}/{name}"
    content = (path / directory.RECORD).read_bytes()
    contents.pack(f"{folder}/{directory.RECORD}", f"the record of {name}", content)
    skipped_commits = 0
    for file in hashes:
        size = (path / file).stat().st_size
        is_table = "/" not in file and file.endswith(".csv")
        if file not in listed:
            contents.leave_out(f"{folder}/{file}", "not a file of the run", size)
        elif file.startswith((f"{COMMITS}/", f"{UPDATES}/")) and not commits:
            skipped_commits += size
        elif size > limit and file != directory.SCENARIO and not is_table:
            why = "a file above the limit (--limit MB)"
            contents.leave_out(f"{folder}/{file}", why, size, hashes[file])
        else:
            contents.pack(f"{folder}/{file}", f"{file} of {name}", (path / file).read_bytes())
    if skipped_commits:
        why = "logs, commits and updates, which fork, verify and --resume read (--commits)"
        contents.leave_out(f"{folder}/{COMMITS}", why, skipped_commits)


def _pack_scenario(
    contents: Contents,
    path: Path,
    name: str,
    record: dict[str, Any],
    roots: Sequence[Path],
    limit: int,
) -> None:
    """Pack the scenario of a run, resolved and as it was written, and its data."""
    text = (path / directory.SCENARIO).read_text(encoding="utf-8")
    values = parse(text, directory.SCENARIO).values
    pack_data(contents, values, path, roots, limit)
    what = f"the scenario of {name}, every default filled in"
    contents.pack(f"scenarios/{name}.yaml", what, directory.yaml_of(values))
    for number, (file, written) in enumerate(record.get("written", [])):
        inner = os.path.basename(file) or f"{number}.yaml"
        what = f"{'a base of the' if number else 'the'} scenario of {name} as it was written"
        contents.pack(f"scenarios/{name}-as-written/{inner}", what, written)


def _pack_plugins(
    contents: Contents,
    records: Mapping[str, dict[str, Any]],
    plugins: Sequence[str | os.PathLike[str]],
) -> None:
    """Pack the files of the user's own links."""
    links: dict[str, dict[str, None]] = {}
    for record in records.values():
        for link, sha256 in record["own_links"].items():
            links.setdefault(sha256, {})[link] = None
    for plugin in map(Path, plugins):
        with files.reporting_os_errors(plugin):
            content = plugin.read_bytes()
        defined = links.pop(hashlib.sha256(content).hexdigest(), None)
        if defined is None:
            reason = "no kind of these runs comes from this file, or it was changed since"
            raise CheckpointError(f"{plugin}: {reason}")
        contents.pack(f"plugins/{plugin.name}", f"a plug-in: {', '.join(defined)}", content)
    for sha256, names in links.items():
        why = "a plug-in (give its file with --plugin)"
        contents.leave_out(", ".join(names), why, None, sha256)


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
