"""The files of LEAF: JSON with `users`, `num_samples` and `user_data`, user after user."""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.limits import require_memory
from fedsim.sources.files import opened, require_few_lists
from fedsim.sources.names import fault_of, require_sound
from fedsim.sources.pictures import SCALE, as_bytes

HELD = 12  # bytes that Python holds of a byte of JSON that is numbers, at most
WHERE = (
    "LEAF's preprocess.sh writes data/train/*.json and data/test/*.json, each with `users`, `num_samples` and `user_data`; "
    "give the folder that holds train and test"
)


class Part(NamedTuple):
    """The samples of the files of a part, user after user."""

    x: np.ndarray  # numbers or bytes `[n, F]`, or objects `[n]` that are no numbers
    y: np.ndarray
    user: np.ndarray


def files_of(files: dict[str, Path]) -> dict[str, dict[str, Path]]:
    """`train` and, where it is there, `test` -> the JSON files of that part, by name."""
    named = {name: path for name, path in files.items() if name.endswith(".json")}
    for front in ("", "data/"):
        parts = {
            part: {
                n: p
                for n, p in named.items()
                if PurePosixPath(n).parent == PurePosixPath(front + part)
            }
            for part in ("train", "test")
        }
        if parts["train"]:
            return {part: found for part, found in parts.items() if found}
    alone = {name: path for name, path in named.items() if "/" not in name}
    if not alone:
        raise DataError(f"no such files; {WHERE}")
    return {"train": alone}


def part_of(files: dict[str, Path]) -> Part:
    """The samples of some files.

    Raises:
      DataError: naming file and user.
    """
    rows: list[list[Any]] = []
    labels: list[Any] = []
    users: list[str] = []
    seen: set[str] = set()
    blocks: list[np.ndarray] = []
    for name, path in files.items():
        for user, x, y in _users(name, path):
            if user in seen:
                raise DataError(
                    f"{name}: user {user[:40]!a} stands there twice; a user's samples are in one place"
                )
            seen.add(user)
            if not x:
                continue
            users += [user] * len(x)
            labels += y
            if isinstance(x[0], list) and not isinstance(x[0][0] if x[0] else None, str):
                blocks.append(_numbers(name, user, x))
            else:
                rows += x
    if not labels:
        raise DataError("no samples")
    if bool(rows) and bool(blocks):
        raise DataError("x is numbers for some users and text for others")
    x = _joined(blocks) if blocks else np.fromiter(rows, object, len(rows))
    kinds = {type(label) for label in labels}
    if not (kinds <= {int, float} or kinds == {str}):
        raise DataError("y is not one number, or one text, for every sample")
    return Part(x, np.array(labels), np.array(users))


def _users(name: str, path: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """User after user of a file: name, x, y."""
    with opened(str(path)) as file:
        require_memory(json=HELD * file.seek(0, 2))
        file.seek(0)
        content = file.read()
        require_few_lists(content)
        try:
            held = json.loads(content, parse_constant=_refused, parse_int=_whole)
        except RecursionError:
            raise DataError("not JSON as LEAF writes it: nested too deeply") from None
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 text: {error.reason}") from None
        except ValueError as error:
            raise DataError(f"not sound JSON: {str(error)[:200]}") from None
        data = held.get("user_data") if isinstance(held, dict) else None
        if not isinstance(data, dict) or not isinstance(held.get("users"), list):
            raise DataError(f"no `users` and `user_data`; {WHERE}")
        counts = held.get("num_samples")
        if not isinstance(counts, list) or len(counts) != len(held["users"]):
            raise DataError("`num_samples` has no number for every user")
        for user, count in zip(held["users"], counts, strict=True):
            samples = data.pop(user, None) if isinstance(user, str) else None
            if not isinstance(samples, dict) or not all(
                isinstance(samples.get(part), list) for part in "xy"
            ):
                raise DataError(
                    f"user {str(user)[:40]!a} has no lists x and y in `user_data`, or stands there twice"
                )
            if not len(samples["x"]) == len(samples["y"]) == count:
                sizes = f"{len(samples['x'])} x, {len(samples['y'])} y"
                raise DataError(
                    f"user {user[:40]!a}: `num_samples` promises {str(count)[:20]}, there are {sizes}"
                )
            if (fault := fault_of(user)) is not None:
                raise DataError(f"user {fault}")
            require_sound(f"user {user[:40]!a}", samples["y"], "label")
            yield user, samples["x"], samples["y"]


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no number to learn from")


def _whole(digits: str) -> int:
    if len(digits) > 18:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _numbers(name: str, user: str, x: list[Any]) -> np.ndarray:
    """Rows of numbers `[n, F]`, as bytes where all are whole multiples of 1/255."""
    try:
        values = np.array(x)
    except (ValueError, OverflowError):
        values = np.zeros(0)
    if values.ndim != 2 or values.size == 0 or values.dtype.kind not in "iuf":
        raise DataError(f"{name}: user {user[:40]!a}: x is not rows of equally many numbers")
    return as_bytes(values.astype(np.float64))


def _joined(blocks: list[np.ndarray]) -> np.ndarray:
    widths = {block.shape[1:] for block in blocks}
    if len(widths) > 1:
        listed = ", ".join(str(shape) for shape in sorted(widths)[:3])
        raise DataError(f"x has rows of different shapes: {listed}")
    if len({block.dtype for block in blocks}) > 1:
        blocks = [block * SCALE if block.dtype == np.uint8 else block for block in blocks]
    return np.concatenate(blocks)
