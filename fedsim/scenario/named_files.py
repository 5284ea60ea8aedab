"""The sections of a scenario that may name a file by their key `path`."""

import itertools
from collections.abc import Iterator
from typing import Any

from fedsim.installed import offered

SectionKey = tuple[str, ...]  # keys from the top of a scenario

DATA = ("data",)
PARTITION = ("data", "partition")
TOKENIZER = ("data", "tokenizer")
COHORT = ("cohort",)
MODEL = ("model",)
WEIGHTS = ("model", "weights")
# Those of fields, where their keys' module has `FILES`.
ADDED: list[SectionKey] = list(itertools.chain(*offered("KEYS", "FILES")))
FILES: tuple[SectionKey, ...] = (DATA, PARTITION, TOKENIZER, *ADDED, COHORT, MODEL, WEIGHTS)


def naming_files(values: dict[str, Any]) -> Iterator[tuple[SectionKey, dict[str, Any]]]:
    """Yield (section key, section) of the sections among plain values that name a file."""
    for section_key in FILES:
        section: Any = values
        for key in section_key:
            section = section.get(key) if isinstance(section, dict) else None
        if isinstance(section, dict) and section.get("path") is not None:
            yield section_key, section


def without_hashed_paths(resolved: dict[str, Any]) -> dict[str, Any]:
    """Return resolved values without the paths of files whose SHA-256 they hold.

    A file that is moved is the same file.
    """
    return _drop_paths(resolved, only_hashed=True)


def without_paths(resolved: dict[str, Any]) -> dict[str, Any]:
    """Return resolved values without the paths of files, which depend on the folder."""
    return _drop_paths(resolved, only_hashed=False)


def _drop_paths(values: dict[str, Any], only_hashed: bool) -> dict[str, Any]:
    for section_key, section in list(naming_files(values)):
        if only_hashed and not section.get("sha256"):
            continue
        other_keys = {name: value for name, value in section.items() if name != "path"}
        values = _put(values, section_key, other_keys)
    return values


def with_paths_of(values: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Return values with the paths of other values, which may be seen from another folder."""
    paths = {key: section["path"] for key, section in naming_files(others)}
    for section_key, section in list(naming_files(values)):
        path = paths.get(section_key, section["path"])
        values = _put(values, section_key, {**section, "path": path})
    return values


def _put(values: dict[str, Any], section_key: SectionKey, section: dict[str, Any]) -> dict:
    """Return values with another section at a section key."""
    key, *rest = section_key
    inner = _put(values[key], tuple(rest), section) if rest else section
    return {**values, key: inner}
