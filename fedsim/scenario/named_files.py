"""Sections of a scenario that may name a file by their key `path`: where they stand, and what resolved values are without."""

from collections.abc import Iterator
from typing import Any

SectionKey = tuple[str, ...]  # keys from the top of a scenario
DATA, PARTITION = ("data",), ("data", "partition")
FLEET = tuple(("fleet", key) for key in ("speed", "links", "availability"))
COHORT = ("cohort",)
FILES: tuple[SectionKey, ...] = (DATA, PARTITION, *FLEET, COHORT)


def naming_files(values: dict[str, Any]) -> Iterator[tuple[SectionKey, dict[str, Any]]]:
    """The sections among plain values that name a file, with their places."""
    for place in FILES:
        section: Any = values
        for key in place:
            section = section.get(key) if isinstance(section, dict) else None
        if isinstance(section, dict) and section.get("path") is not None:
            yield place, section


def without_hashed_paths(resolved: dict[str, Any]) -> dict[str, Any]:
    """Resolved values without paths of files whose SHA-256 they hold: moved, they are the same files."""
    return _without_paths(resolved, hashed=True)


def without_paths(resolved: dict[str, Any]) -> dict[str, Any]:
    """Resolved values without paths of files, which depend on where they are looked at from."""
    return _without_paths(resolved, hashed=False)


def with_paths_of(values: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Values that name their files as others, which may be seen from another folder, do at the same places."""
    paths = {place: section["path"] for place, section in naming_files(others)}
    for place, section in list(naming_files(values)):
        values = _put(values, place, {**section, "path": paths.get(place, section["path"])})
    return values


def _without_paths(values: dict[str, Any], hashed: bool) -> dict[str, Any]:
    """Plain values without any `path` of a file; of `hashed`, only without those beside a SHA-256."""
    for place in FILES:
        known = dict(naming_files(values)).get(place)
        if known is not None and (known.get("sha256") or not hashed):
            values = _put(
                values, place, {name: value for name, value in known.items() if name != "path"}
            )
    return values


def _put(values: dict[str, Any], place: SectionKey, section: dict[str, Any]) -> dict[str, Any]:
    """Values with another section at a place."""
    key, *rest = place
    return {**values, key: _put(values[key], tuple(rest), section) if rest else section}
