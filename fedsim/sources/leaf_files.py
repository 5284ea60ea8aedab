"""The files of LEAF: JSON with `users`, `num_samples` and `user_data`, read user by user."""

import io
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.limits import require_memory
from fedsim.sources.files import opened, require_few_lists
from fedsim.sources.names import fault_of_name, require_sound
from fedsim.sources.pictures import alike, as_bytes

MEMORY_PER_BYTE = 12  # bytes that Python needs for a byte of JSON that is numbers, at most
WHERE = (
    "LEAF's preprocess.sh writes data/train/*.json and data/test/*.json, each with `users`, "
    "`num_samples` and `user_data`; give the folder that holds train and test"
)


class SplitRows(NamedTuple):
    """The samples of a split, user by user."""

    x: np.ndarray  # numbers or bytes `[n, F]`, or objects `[n]` that are not numbers
    y: np.ndarray
    user: np.ndarray


def files_by_split(files: dict[str, Path]) -> dict[str, dict[str, Path]]:
    """Return the JSON files of `train` and, if it exists, of `test`, by their relative names."""
    json_files = {name: path for name, path in files.items() if name.endswith(".json")}
    for parent in (PurePosixPath(), PurePosixPath("data")):
        train = _directly_in(parent / "train", json_files)
        test = _directly_in(parent / "test", json_files)
        if train and test:
            return {"train": train, "test": test}
        if train:
            return {"train": train}
    unsplit = _directly_in(PurePosixPath(), json_files)
    if not unsplit:
        raise DataError(f"no such files; {WHERE}")
    return {"train": unsplit}


def read_split(files: dict[str, Path]) -> SplitRows:
    """Return the samples of some files; errors name file and user."""
    blocks: list[np.ndarray] = []  # of users whose samples are numbers
    texts: list[Any] = []  # samples of the others
    labels: list[Any] = []
    users: list[str] = []
    seen: set[str] = set()
    for name, path in files.items():
        for user, x, y in _users(name, path):
            if user in seen:
                raise DataError(
                    f"{name}: user {user[:40]!a} occurs twice; put a user's samples into one place"
                )
            seen.add(user)
            if not x:
                continue
            users += [user] * len(x)
            labels += y
            if _are_numbers(x):
                blocks.append(_numbers(name, user, x))
            else:
                texts += x

    if not labels:
        raise DataError("no samples")
    if texts and blocks:
        raise DataError("x is numbers for some users and text for others")
    x = _joined(blocks) if blocks else np.fromiter(texts, object, len(texts))
    label_types = {type(label) for label in labels}
    if not label_types <= {int, float} and label_types != {str}:
        raise DataError("y is not one number, or one text, for every sample")
    return SplitRows(x, np.array(labels), np.array(users))


def _directly_in(folder: PurePosixPath, files: dict[str, Path]) -> dict[str, Path]:
    return {name: path for name, path in files.items() if PurePosixPath(name).parent == folder}


def _are_numbers(x: list[Any]) -> bool:
    """Whether samples should be rows of numbers: lists whose first item is not a text."""
    first = x[0]
    if not isinstance(first, list):
        return False
    return not first or not isinstance(first[0], str)


def _users(name: str, path: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    with opened(str(path)) as file:
        content = _json_of(file)
        data = content.get("user_data") if isinstance(content, dict) else None
        if not isinstance(data, dict) or not isinstance(content.get("users"), list):
            raise DataError(f"no `users` and `user_data`; {WHERE}")
        users = content["users"]
        counts = content.get("num_samples")
        if not isinstance(counts, list) or len(counts) != len(users):
            raise DataError("`num_samples` does not have a number for every user")
        for user, count in zip(users, counts, strict=True):
            samples = data.pop(user, None) if isinstance(user, str) else None
            x, y = (samples.get(key) if isinstance(samples, dict) else None for key in "xy")
            if not isinstance(x, list) or not isinstance(y, list):
                problem = "has no lists x and y in `user_data`, or occurs twice"
                raise DataError(f"user {str(user)[:40]!a} {problem}")
            title = f"user {user[:40]!a}"
            if not len(x) == len(y) == count:
                promise = f"`num_samples` promises {str(count)[:20]}"
                raise DataError(f"{title}: {promise}, there are {len(x)} x, {len(y)} y")
            if fault := fault_of_name(user):
                raise DataError(f"user {fault}")
            require_sound(title, y, "label")
            yield user, x, y


def _json_of(file: Any) -> Any:
    """The content of a JSON file, without the constants that JSON may have."""
    require_memory(json=MEMORY_PER_BYTE * file.seek(0, io.SEEK_END))
    file.seek(0)
    content = file.read()
    require_few_lists(content)
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except RecursionError:
        raise DataError("not JSON as LEAF writes it: nested too deeply") from None
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text: {error.reason}") from None
    except ValueError as error:
        raise DataError(f"not sound JSON: {str(error)[:200]}") from None


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} cannot be learned from")


def _numbers(name: str, user: str, x: list[Any]) -> np.ndarray:
    """Rows of numbers `[n, F]`, as bytes if all are whole multiples of 1/255."""
    try:
        values = np.array(x)
    except (ValueError, OverflowError):
        values = np.zeros(0)
    if values.ndim != 2 or values.size == 0 or values.dtype.kind not in "iuf":
        raise DataError(f"{name}: user {user[:40]!a}: x is not rows of equally many numbers")
    return as_bytes(values.astype(np.float64))


def _joined(blocks: list[np.ndarray]) -> np.ndarray:
    shapes = {block.shape[1:] for block in blocks}
    if len(shapes) > 1:
        listed = ", ".join(str(shape) for shape in sorted(shapes)[:3])
        raise DataError(f"x has rows of different shapes: {listed}")
    return np.concatenate(alike(blocks))
