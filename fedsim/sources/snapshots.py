"""Folders of the package `datasets` and of its hub: which files hold which split."""

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

from fedsim.errors import DataError
from fedsim.sources.files import opened, require_few_lists

MAX_JSON_BYTES = 64 << 20
SHARD = re.compile(r"(?P<stem>.+?)(-\d{5}-of-\d{5}(-[0-9a-f]+)?)?")
WHERE = (
    "write such a folder with ds.save_to_disk(FOLDER) of the package datasets, or fetch one of "
    "parquet files with hf download ORG/NAME --repo-type dataset --local-dir FOLDER"
)


def splits_of(files: dict[str, Path]) -> dict[str, dict[str, Path]]:
    """Return the splits of a folder: name of the split -> its files by name, in order.

    The folder is one that `DatasetDict.save_to_disk` or `Dataset.save_to_disk` (one split) writes,
    a folder of the cache (`NAME-SPLIT.arrow`), or one of Parquet files
    (`SPLIT-00000-of-00001.parquet`, `SPLIT/0000.parquet`), also in a snapshot of the hub's cache.

    Raises:
      DataError: for a folder of none of these forms, or of several configurations.
    """
    files = _snapshot(files)
    if "dataset_dict.json" in files:
        splits = json_of(files["dataset_dict.json"]).get("splits")
        if not isinstance(splits, list) or not all(isinstance(name, str) for name in splits):
            raise DataError("dataset_dict.json: names no splits")
        return {name: _saved(files, f"{name}/") for name in splits}
    if "state.json" in files:
        return {"train": _saved(files, "")}

    configurations: dict[str, dict[str, dict[str, Path]]] = {}
    for name, path in files.items():
        location = _split_of(PurePosixPath(name))
        if location is not None:
            configuration, split = location
            configurations.setdefault(configuration, {}).setdefault(split, {})[name] = path
    if not configurations:
        raise DataError(f"no files of datasets; {WHERE}")
    if len(configurations) > 1:
        listed = ", ".join(sorted(configurations))[:200]
        raise DataError(f"holds several sets; give the folder of one: {listed}")
    return next(iter(configurations.values()))


def declared_columns(files: dict[str, Path], metadata: Any) -> dict[str, Any]:
    """Return what the writer of a set declared about its columns, by name; may be empty.

    A declaration is a mapping such as `{_type: ClassLabel, names: [...]}`, in the metadata of the
    schema or in `dataset_info.json`.
    """
    infos = []
    if metadata and b"huggingface" in metadata:
        text = metadata[b"huggingface"]
        if len(text) <= MAX_JSON_BYTES:
            infos.append(_parsed(text, "the schema").get("info"))
    info_files = [f for name, f in files.items() if PurePosixPath(name).name == "dataset_info.json"]
    infos += [json_of(path) for path in info_files][:1]  # all of them must be sound

    for info in infos:
        features = info.get("features") if isinstance(info, dict) else None
        if isinstance(features, dict):
            return {name: item for name, item in features.items() if isinstance(item, dict)}
    return {}


def json_of(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file."""
    with opened(str(path), max_bytes=MAX_JSON_BYTES) as file:
        return _parsed(file.read(), "it")


def _parsed(text: bytes, subject: str) -> dict[str, Any]:
    """The JSON object in a text; errors say that the subject holds none."""
    require_few_lists(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{subject} holds no JSON: {str(error)[:100]}") from None
    if not isinstance(value, dict):
        raise DataError(f"{subject} holds no JSON object")
    return value


def _snapshot(files: dict[str, Path]) -> dict[str, Path]:
    """The files of a snapshot in the hub's cache; all files where the folder is not of the cache.

    The snapshot (of the folders `blobs`, `refs`, `snapshots`) is the only one, or that of
    `refs/main`.
    """
    hashes = sorted({name.split("/")[1] for name in files if name.startswith("snapshots/")})
    if not hashes:
        return files
    chosen = hashes[0]
    if len(hashes) > 1:
        with opened(str(files.get("refs/main", "refs/main")), max_bytes=1000) as file:
            chosen = file.read().decode("ascii", "replace").strip()
        if chosen not in hashes:
            raise DataError(f"refs/main names no snapshot; there are {', '.join(hashes)[:200]}")
    prefix = f"snapshots/{chosen}/"
    return {
        name.removeprefix(prefix): path for name, path in files.items() if name.startswith(prefix)
    }


def _saved(files: dict[str, Path], prefix: str) -> dict[str, Path]:
    """The files of a saved split, which `state.json` in its subfolder names.

    The prefix is the subfolder with a slash; empty for the folder itself.
    """
    state = f"{prefix}state.json"
    if state not in files:
        raise DataError(f"no {state}, which save_to_disk writes; {WHERE}")
    data_files = json_of(files[state]).get("_data_files")
    if not isinstance(data_files, list):
        data_files = []
    names = [item.get("filename") for item in data_files if isinstance(item, dict)]
    if not names:
        raise DataError(f"{state}: names no files")

    shards = {}
    for name in names:
        shard = f"{prefix}{name}"
        if not isinstance(name, str) or shard not in files:
            raise DataError(f"{state}: names {name!a:.80}, but there is no such file")
        shards[shard] = files[shard]
    return shards


def _split_of(name: PurePosixPath) -> tuple[str, str] | None:
    """(folder of the set, split) of a file of the cache or of the hub; None for any other file."""
    is_hidden = any(part.startswith(".") for part in name.parts)
    if name.suffix not in (".arrow", ".parquet") or is_hidden:
        return None
    shard = SHARD.fullmatch(name.stem)
    assert shard is not None
    folder = name.parent
    split = shard["stem"]
    if name.suffix == ".arrow":
        if split.startswith(("cache-", "tmp")) or "-" not in split:
            return None  # the result of a map that was computed once
        split = split.rpartition("-")[2]
    elif split.isdigit():
        split = folder.name
        folder = folder.parent
    if folder.name == "data":
        folder = folder.parent
    return str(folder), split
