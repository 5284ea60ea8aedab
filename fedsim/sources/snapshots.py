"""Folders of the package `datasets` and of its hub: which files hold which split."""

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

from fedsim.errors import DataError
from fedsim.sources.files import opened, require_few_lists

MOST_JSON_BYTES = 64 << 20
SHARD = re.compile(r"(?P<stem>.+?)(-\d{5}-of-\d{5}(-[0-9a-f]+)?)?")
WHERE = (
    "write such a folder with ds.save_to_disk(FOLDER) of the package datasets, or fetch one of parquet files with "
    "hf download ORG/NAME --repo-type dataset --local-dir FOLDER"
)


def splits_of(files: dict[str, Path]) -> dict[str, dict[str, Path]]:
    """Split -> its files by name, in order; of whichever of the known forms a folder has.

    They are: what `DatasetDict.save_to_disk` writes, what `Dataset.save_to_disk` writes (one split), a folder of the cache
    (`NAME-SPLIT.arrow`), and Parquet files (`SPLIT-00000-of-00001.parquet`, `SPLIT/0000.parquet`), in a snapshot of the
    hub's cache too.

    Args:
      files: of the folder, by their names from it.

    Raises:
      DataError: for a folder of none of these, or several configurations.
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
        if known := _split_of(PurePosixPath(name)):
            configuration, split = known
            configurations.setdefault(configuration, {}).setdefault(split, {})[name] = path
    if not configurations:
        raise DataError(f"no files of datasets; {WHERE}")
    if len(configurations) > 1:
        raise DataError(
            f"holds several sets; give the folder of one: {', '.join(sorted(configurations))[:200]}"
        )
    return next(iter(configurations.values()))


def declared(files: dict[str, Path], metadata: Any) -> dict[str, Any]:
    """What the writer of a set says about its columns: name -> `{_type: Image | ClassLabel | Value ...}`; or nothing.

    Args:
      files: of the folder, with `dataset_info.json` perhaps.
      metadata: of the schema of its tables.
    """
    texts = [metadata[b"huggingface"]] if metadata and b"huggingface" in metadata else []
    infos = [
        _parsed(text, "the schema").get("info") for text in texts if len(text) <= MOST_JSON_BYTES
    ]
    infos += [
        json_of(path)
        for name, path in files.items()
        if PurePosixPath(name).name == "dataset_info.json"
    ][:1]
    for info in infos:
        features = info.get("features") if isinstance(info, dict) else None
        if isinstance(features, dict):
            return {name: one for name, one in features.items() if isinstance(one, dict)}
    return {}


def json_of(path: Path) -> dict[str, Any]:
    """An object in a JSON file.

    Raises:
      DataError: for anything else.
    """
    with opened(str(path), most=MOST_JSON_BYTES) as file:
        return _parsed(file.read(), "it")


def _parsed(text: bytes, place: str) -> dict[str, Any]:
    require_few_lists(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} holds no JSON: {str(error)[:100]}") from None
    if not isinstance(value, dict):
        raise DataError(f"{place} holds no JSON object")
    return value


def _snapshot(files: dict[str, Path]) -> dict[str, Path]:
    """Of the hub's cache (`blobs`, `refs`, `snapshots`) the files of a snapshot: of `refs/main`, or the only one."""
    hashes = sorted({name.split("/")[1] for name in files if name.startswith("snapshots/")})
    if not hashes:
        return files
    chosen = hashes[0]
    if len(hashes) > 1:
        with opened(str(files.get("refs/main", "refs/main")), most=1000) as file:
            chosen = file.read().decode("ascii", "replace").strip()
        if chosen not in hashes:
            raise DataError(f"refs/main names no snapshot; there are {', '.join(hashes)[:200]}")
    front = f"snapshots/{chosen}/"
    return {
        name.removeprefix(front): path for name, path in files.items() if name.startswith(front)
    }


def _saved(files: dict[str, Path], front: str) -> dict[str, Path]:
    """The files that the `state.json` of a saved split names."""
    if f"{front}state.json" not in files:
        raise DataError(f"no {front}state.json, which save_to_disk writes; {WHERE}")
    listed = json_of(files[f"{front}state.json"]).get("_data_files")
    names = (
        [one.get("filename") for one in listed if isinstance(one, dict)]
        if isinstance(listed, list)
        else []
    )
    if not names:
        raise DataError(f"{front}state.json: names no files")
    shards = {}
    for name in names:
        if not isinstance(name, str) or f"{front}{name}" not in files:
            raise DataError(f"{front}state.json: names {name!a:.80}, and there is no such file")
        shards[f"{front}{name}"] = files[f"{front}{name}"]
    return shards


def _split_of(name: PurePosixPath) -> tuple[str, str] | None:
    """(folder of the set, split) of a file of the cache or of the hub; None for any other file."""
    if name.suffix not in (".arrow", ".parquet") or any(
        part.startswith(".") for part in name.parts
    ):
        return None
    shard, folder = SHARD.fullmatch(name.stem), name.parent
    assert shard is not None
    split = shard["stem"]
    if name.suffix == ".arrow":
        if split.startswith(("cache-", "tmp")) or "-" not in split:
            return None  # of a map that was computed once
        split = split.rpartition("-")[2]
    elif split.isdigit():
        split, folder = folder.name, folder.parent
    if folder.name == "data":
        folder = folder.parent
    return str(folder), split
