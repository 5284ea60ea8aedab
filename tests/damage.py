"""Damage to the files of a killed run: flipped bits, lost ends, moved blocks, missing files."""

import shutil
import warnings
from pathlib import Path

import numpy as np
from directories import bits, tiny, whole
from faulty import Disk, Killed

import fedsim
from fedsim.errors import CheckpointError

SCENARIO = tiny(0.0, rounds=4, seeds=[0])  # client memory lies in a file


def killed_run(folder: Path) -> dict[str, str]:
    """Kill a run in its third commit, so that two are left; return an undisturbed run's bits."""
    with Disk(folder.with_name("undisturbed")) as disk:
        fedsim.run(SCENARIO, out=folder.with_name("undisturbed"))
    is_commit = [step.name == "replace" and "/state-" in step.path for step in disk.trace]
    third = np.flatnonzero(is_commit)[2]
    try:
        with Disk(folder, at=int(third)):
            fedsim.run(SCENARIO, out=folder)
    except Killed:
        return bits(folder.with_name("undisturbed"))
    raise AssertionError("the run was not killed")


def targets(folder: Path) -> list[Path]:
    """The files that a run resumes from."""
    return sorted(path for path in folder.glob("checkpoints/*/*") if not path.name.endswith(".tmp"))


def flip(data: bytearray, rng: np.random.Generator, other: bytes) -> bytearray:
    for at in rng.integers(0, 8 * len(data), rng.integers(1, 5)):
        data[at // 8] ^= 1 << (at % 8)
    return data


def cut(data: bytearray, rng: np.random.Generator, other: bytes) -> bytearray:
    return data[: rng.integers(0, len(data))]


def lengthen(data: bytearray, rng: np.random.Generator, other: bytes) -> bytearray:
    return data + rng.bytes(int(rng.integers(1, 200)))


def blank(data: bytearray, rng: np.random.Generator, other: bytes) -> bytearray:
    at, size = _block(data, rng)
    return data[:at] + bytes(size) + data[at + size :]


def splice(data: bytearray, rng: np.random.Generator, other: bytes) -> bytearray:
    """Replace a block by one of the same size, of another file or of this one."""
    at, size = _block(data, rng)
    source = other if rng.random() < 0.5 else bytes(data)
    start = int(rng.integers(0, max(1, len(source) - size)))
    block = source[start : start + size]
    return data[:at] + block + data[at + len(block) :]


def leave_out(data: bytearray, rng: np.random.Generator, other: bytes) -> bytearray:
    at, size = _block(data, rng)
    return data[:at] + data[at + size :]


def exchange(data: bytearray, rng: np.random.Generator, other: bytes) -> bytearray:
    return bytearray(other)


DAMAGES = (flip, flip, flip, cut, lengthen, blank, splice, splice, leave_out, exchange)


def _block(data: bytes | bytearray, rng: np.random.Generator) -> tuple[int, int]:
    at = int(rng.integers(0, len(data)))
    return at, int(rng.integers(1, min(400, len(data) - at) + 1))


def damage(folder: Path, rng: np.random.Generator) -> str:
    """Damage one file; return what was done to which."""
    files = targets(folder)
    target, other = (files[i] for i in rng.permutation(len(files))[:2])
    if rng.random() < 0.02:
        target.unlink()
        return f"delete {target.name}"
    what = DAMAGES[rng.integers(len(DAMAGES))]
    target.write_bytes(what(bytearray(target.read_bytes()), rng, other.read_bytes()))
    return f"{what.__name__} {target.name}"


def trials(template: Path, expected: dict[str, str], scratch: Path, seed: int, count: int):
    """Damage and resume copies of a killed run; yield each damage and its outcome, or raise."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        shutil.copytree(template, scratch)
        done = damage(scratch, rng)
        try:
            yield done, outcome(scratch, expected)
        except BaseException as error:
            raise AssertionError(f"{done}: {error!r}") from error
        shutil.rmtree(scratch)


def outcome(folder: Path, expected: dict[str, str]) -> str:
    """Resume a run; return `refused`, `equal`, or `equal, warned`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fedsim.run(SCENARIO, out=folder, resume=True)
        except CheckpointError as error:
            assert str(folder) in str(error)
            return "refused"
    whole(folder, expected)
    if caught:
        assert all("resuming from the commit before" in str(warning.message) for warning in caught)
    return "equal, warned" if caught else "equal"
