"""Differences of nested values, and the refusal to resume a run that is no longer the same."""

import json
from typing import Any

from fedsim.errors import CheckpointError
from fedsim.installed import modules_with

MAX_CHARACTERS = 60  # of a value in a message


def demand_same(recorded: dict[str, Any], present: dict[str, Any], where: str) -> None:
    """Refuse to resume a run as anything but what it was.

    Args:
      where: what the messages name.
    """
    lines = []
    fields = []
    for field, old, new in differences(recorded, present):
        fields.append(field)
        lines.append(f"{where}: {field}: {old}, now {new}")
    for module in modules_with("GOES_ON"):
        why = module.resumed(fields, present)
        if why:
            lines.append(f"{where}: {why}")
    if lines:
        lines.append(
            f"{where}: belongs to another run; change it back, or start over with --force or --out"
        )
        raise CheckpointError("\n".join(lines))


def differences(old: Any, new: Any, path: str = "") -> list[tuple[str, str, str]]:
    """The fields in which two nested values differ: (dotted path, old text, new text)."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _differences_of_mappings(old, new, path)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        fields = []
        for index, (old_item, new_item) in enumerate(zip(old, new, strict=True)):
            fields += differences(old_item, new_item, f"{path}[{index}]")
        return fields
    if old == new:
        return []
    return [(path, _text(old), _text(new))]


def _differences_of_mappings(
    old: dict[str, Any], new: dict[str, Any], path: str
) -> list[tuple[str, str, str]]:
    """The differences of two mappings: keys of `old` first, then those that are new."""
    fields = []
    for key in old | new:
        inner_path = f"{path}.{key}" if path else str(key)
        fields += differences(old.get(key), new.get(key), inner_path)
    return fields


def _text(value: Any) -> str:
    """A value as JSON, its end cut off where it is long."""
    text = "nothing" if value is None else json.dumps(value)
    if len(text) <= MAX_CHARACTERS:
        return text
    return text[: MAX_CHARACTERS - 3] + "..."


def without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """A mapping without some of its entries."""
    return {name: value for name, value in values.items() if name not in names}
