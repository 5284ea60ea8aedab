"""What a power cut may leave of a folder: every state that the recorded operations allow.

    with Tape(folder) as tape: ...                       # the operations of a run, with their bytes
    for cut in cuts(tape.steps, rng): cut.make(folder)   # distinct states, at every moment

Only an fsync of a file makes its bytes last, and only an fsync of a folder makes its names last.
Until then an operation has reached the disk, or has not, or a write has in part. `ordered`: names
reach the disk in the order of their changes, as in file systems with a journal; otherwise in any.
"""

import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DATA = ("write", "truncate")
NAMES = ("create", "mkdir", "rename", "unlink")
PATCHED = (
    "open",
    "write",
    "pwrite",
    "lseek",
    "ftruncate",
    "fsync",
    "replace",
    "unlink",
    "mkdir",
    "rmdir",
    "close",
)
# Up to so many pending operations every subset is tried; of more, all prefixes, all but one, and
# each one alone.
MAX_SUBSETS = 6
TEARS = ("half", "zeros", "end")


class Step(NamedTuple):
    """An operation: `inode` is the file or folder whose flush makes it last."""

    name: str  # write, truncate, create, mkdir, rename, unlink, fsync
    inode: int
    entry: str = ""  # name in the folder
    other: int | str = 0  # the inode that gets the name; in a rename, `entry` is the old name
    at: int = 0
    data: bytes = b""


class Cut(NamedTuple):
    """Files by relative name (None: a folder), and the number of operations before the cut."""

    moment: int
    files: dict[str, bytes | None]

    def make(self, folder: Path) -> None:
        """Write the state to a folder."""
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            if content is None:
                (folder / name).mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            if content is not None:
                (folder / name).write_bytes(content)

    def key(self) -> str:
        """Return a hash that is equal for equal states."""
        digest = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            digest.update(f"{name}\0{content is None}\0".encode())
            digest.update(hashlib.sha256(content or b"").digest())
        return digest.hexdigest()


class Tape:
    """Records the operations of `os` below a folder, which is empty at first (inode 0)."""

    def __init__(self, folder: Path):
        self.folder, self.steps = os.fspath(folder), list[Step]()
        self.names: dict[str, int] = {self.folder: 0}
        self.files: dict[int, tuple[str, int]] = {}  # descriptor -> (path, inode)
        self.offsets: dict[int, int] = {}
        self.count = 0
        self.real: dict[str, Any] = {}

    def __enter__(self) -> "Tape":
        self.real = {name: getattr(os, name) for name in PATCHED}
        for name in PATCHED:
            setattr(os, name, getattr(self, f"_{name}"))
        return self

    def __exit__(self, *_: Any) -> None:
        for name, real in self.real.items():
            setattr(os, name, real)

    def _at(self, path: Any, folder: int | None = None) -> str | None:
        """The path; None if it is outside the folder."""
        if isinstance(path, int):
            return None
        text = os.fspath(path)
        if folder is not None:
            text = os.path.join(self.files.get(folder, ("", 0))[0], text)
        return text if text == self.folder or text.startswith(self.folder + os.sep) else None

    def _made(self, name: str, path: str) -> None:
        above, entry = os.path.split(path)
        self.count += 1
        self.names[path] = self.count
        self.steps.append(Step(name, self.names[above], entry, self.count))

    def _open(self, path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        where = self._at(path, options.get("dir_fd"))
        file = self.real["open"](path, flags, *arguments, **options)
        if where is not None:
            if flags & os.O_CREAT and where not in self.names:
                self._made("create", where)
            elif flags & os.O_TRUNC:
                self.steps.append(Step("truncate", self.names[where]))
            self.files[file], self.offsets[file] = (where, self.names[where]), 0
        return file

    def _write(self, file: int, data: Any) -> int:
        done = self.real["write"](file, data)
        if file in self.files:
            at = self.offsets[file]
            self.steps.append(Step("write", self.files[file][1], at=at, data=bytes(data)[:done]))
            self.offsets[file] = at + done
        return done

    def _pwrite(self, file: int, data: Any, at: int) -> int:
        done = self.real["pwrite"](file, data, at)
        if file in self.files:
            self.steps.append(Step("write", self.files[file][1], at=at, data=bytes(data)[:done]))
        return done

    def _lseek(self, file: int, at: int, how: int) -> int:
        self.offsets[file] = self.real["lseek"](file, at, how)
        return self.offsets[file]

    def _ftruncate(self, file: int, length: int) -> None:
        self.real["ftruncate"](file, length)
        if file in self.files:
            self.steps.append(Step("truncate", self.files[file][1], at=length))

    def _fsync(self, file: int) -> None:
        if file in self.files:  # which is quick: nothing here has to survive a power cut
            self.steps.append(Step("fsync", self.files[file][1]))
        else:
            self.real["fsync"](file)

    def _replace(self, old: Any, new: Any, **options: Any) -> None:
        self.real["replace"](old, new, **options)
        before, after = self._at(old), self._at(new)
        if before is not None and after is not None:
            above, entry = os.path.split(after)
            assert os.path.dirname(before) == above
            self.names[after] = self.names.pop(before)
            self.steps += [
                Step(
                    "rename",
                    self.names[above],
                    os.path.basename(before),
                    self.names[after],
                    0,
                    entry.encode(),
                )
            ]

    def _gone(self, path: str | None) -> None:
        if path is not None:
            above, entry = os.path.split(path)
            self.names.pop(path)
            if above in self.names:
                self.steps.append(Step("unlink", self.names[above], entry))

    def _unlink(self, path: Any, **options: Any) -> None:
        where = self._at(path, options.get("dir_fd"))
        self.real["unlink"](path, **options)
        self._gone(where)

    def _mkdir(self, path: Any, *arguments: Any, **options: Any) -> None:
        self.real["mkdir"](path, *arguments, **options)
        if (where := self._at(path, options.get("dir_fd"))) is not None:
            self._made("mkdir", where)

    def _rmdir(self, path: Any, **options: Any) -> None:
        where = self._at(path, options.get("dir_fd"))
        self.real["rmdir"](path, **options)
        self._gone(where)

    def _close(self, file: int) -> None:
        self.files.pop(file, None)
        self.real["close"](file)


def state(steps: Sequence[Step], torn: dict[int, str] | None = None) -> dict[str, bytes | None]:
    """What a folder holds after these operations; `torn`: how a write, by its index, was cut."""
    folders: dict[int, dict[str, int]] = {0: {}}
    contents: dict[int, bytearray] = {}
    for i, step in enumerate(steps):
        if step.name == "create":
            folders.setdefault(step.inode, {})[step.entry] = int(step.other)
            contents.setdefault(int(step.other), bytearray())
        elif step.name == "mkdir":
            folders.setdefault(step.inode, {})[step.entry] = int(step.other)
            folders.setdefault(int(step.other), {})
        elif step.name == "rename":
            entries = folders.setdefault(step.inode, {})
            if entries.get(step.entry) == step.other:
                del entries[step.entry]
            entries[step.data.decode()] = int(step.other)
        elif step.name == "unlink":
            folders.setdefault(step.inode, {}).pop(step.entry, None)
        elif step.name == "truncate":
            content = contents.setdefault(step.inode, bytearray())
            del content[step.at :]
            content.extend(bytes(step.at - len(content)))
        elif step.name == "write":
            _put(contents.setdefault(step.inode, bytearray()), step, (torn or {}).get(i, ""))
    return _reached(0, "", folders, contents)


def _put(content: bytearray, step: Step, how: str) -> None:
    """Apply a write, or half of it, only its length, or only its second half."""
    data = step.data[: len(step.data) // 2] if how == "half" else step.data
    content.extend(bytes(max(0, step.at + len(data) - len(content))))
    written = {"zeros": 0, "end": len(data) - len(data) // 2}.get(how, len(data))
    first = len(data) - written
    content[step.at + first : step.at + len(data)] = data[first:]


def _reached(inode: int, above: str, folders: dict, contents: dict) -> dict[str, bytes | None]:
    files: dict[str, bytes | None] = {}
    for entry, other in sorted(folders[inode].items()):
        name = f"{above}{entry}"
        if other in folders:
            files[name] = None
            files |= _reached(other, f"{name}/", folders, contents)
        else:
            files[name] = bytes(contents.get(other, b""))
    return files


def pending(steps: Sequence[Step]) -> list[int]:
    """The indices of the operations that no fsync has made last."""
    left: list[int] = []
    for i, step in enumerate(steps):
        if step.name == "fsync":
            left = [j for j in left if steps[j].inode != step.inode]
        else:
            left.append(i)
    return left


def subsets(steps: Sequence[Step], left: list[int], ordered: bool) -> Iterator[frozenset[int]]:
    """Yield the sets of pending operations that may have reached the disk."""
    if ordered:
        names = [i for i in left if steps[i].name in NAMES]
        data = [i for i in left if steps[i].name in DATA]
        for n in range(len(names) + 1):
            yield from (frozenset(names[:n]) | writes for writes in _subsets(data))
    else:
        yield from _subsets(left)


def _subsets(left: list[int]) -> Iterator[frozenset[int]]:
    if len(left) <= MAX_SUBSETS:
        for n in range(len(left) + 1):
            yield from map(frozenset, itertools.combinations(left, n))
        return
    yield from (frozenset(left[:n]) for n in range(len(left) + 1))
    yield from (frozenset(left) - {i} for i in left)
    yield from (frozenset({i}) for i in left)


def cuts(
    steps: Sequence[Step], ordered: bool = True, moments: Sequence[int] | None = None
) -> Iterator[Cut]:
    """Yield every state that a power cut after any operation may leave, once each.

    Args:
      steps: the operations of a tape.
      ordered: whether names arrive in order.
      moments: the numbers of operations before the cut; None: any.
    """
    seen: set[str] = set()
    for moment in range(len(steps) + 1) if moments is None else moments:
        past = steps[:moment]
        left = pending(past)
        for arrived in subsets(past, left, ordered):
            missing = set(left) - arrived
            done = [i for i in range(moment) if i not in missing]
            writes = [i for i in sorted(arrived) if past[i].name == "write"]
            for torn in ({}, *({done.index(i): how} for i in writes for how in TEARS)):
                cut = Cut(moment, state([past[i] for i in done], torn))
                if (key := cut.key()) not in seen:
                    seen.add(key)
                    yield cut


def thinned(found: Sequence[Cut], most: int, seed: int = 0) -> list[Cut]:
    """Return at most `most` of the cuts, evenly from all moments."""
    rng, moments = np.random.default_rng(seed), dict[int, list[Cut]]()
    for i in rng.permutation(len(found)):
        moments.setdefault(found[i].moment, []).append(found[i])
    turns = itertools.chain.from_iterable(
        itertools.zip_longest(*(moments[m] for m in sorted(moments)))
    )
    return list(itertools.islice((cut for cut in turns if cut is not None), most))


def allowed(steps: Sequence[Step], moment: int) -> dict[int, tuple[int, int]]:
    """By folder: the newest commit that must survive a cut at this moment, and the newest that may.

    0: none must. A commit must survive once the folder was flushed after its file got its name.
    """
    commits: dict[int, tuple[int, int]] = {}
    for step in steps[:moment]:
        lasting, newest = commits.get(step.inode, (0, 0))
        if step.name == "rename" and (name := step.data.decode()).endswith(".ckpt"):
            commits[step.inode] = (lasting, int(name[6:-5]))
        elif step.name == "fsync" and newest:
            commits[step.inode] = (newest, newest)
    return commits


def resumed_commit(folder: Path, rounds: int) -> int:
    """The number of the commit in a seed's folder that a run would resume from; 0: none."""
    from fedsim.disk.checkpoint import decode
    from fedsim.errors import CorruptError
    from fedsim.runs.commits import commit_files
    from fedsim.runs.journal import Journal

    for path in commit_files(folder) if folder.is_dir() else ():
        try:
            identity = decode(path.read_bytes()).values["identity"]
        except CorruptError:
            continue
        journal = Journal(folder, identity)
        journal.resume(rounds)
        return max(int(name[6:-5]) for name in journal.retained)
    return 0
