"""Differences of nested values, and the refusal to resume a run that is no longer the same."""

import json
from typing import Any

from fedsim.errors import CheckpointError

MAX_CHARACTERS = 60  # of a value in a message

# Fields that differ where a private run gets other rounds, and why it then cannot go on.
PLANNED = ("scenario.privacy.noise_multiplier", "scenario.privacy.mechanism.")
MORE_ROUNDS = (
    "the noise was solved for all rounds that were planned, and for another number of them, rounds "
    "that are over would have needed other noise"
)


def demand_same(recorded: dict[str, Any], present: dict[str, Any], where: str) -> None:
    """Refuse to resume a run as anything but what it was.

    Args:
      recorded: the identity of the recorded run.
      present: the identity of the run that would resume it.
      where: what the messages name.

    Raises:
      CheckpointError: naming every field that differs.
    """
    lines = []
    fields = []
    for field, old, new in differences(recorded, present):
        fields.append(field)
        lines.append(f"{where}: {field}: {old}, now {new}")
    if fields and all(field.startswith(PLANNED) for field in fields) and _is_planned(present):
        lines.append(f"{where}: {MORE_ROUNDS}")
    if lines:
        lines.append(
            f"{where}: belongs to another run; change it back, or start over with --force or --out"
        )
        raise CheckpointError("\n".join(lines))


def _is_planned(identity: dict[str, Any]) -> bool:
    """Whether the noise of a private run depends on the number of its rounds."""
    privacy = identity["scenario"].get("privacy") or {}
    return privacy.get("epsilon") is not None or privacy["mechanism"]["kind"] == "blt"


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
