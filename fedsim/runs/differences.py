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


def demand_same(before: dict[str, Any], now: dict[str, Any], where: str) -> None:
    """Refuse to resume a run as anything but what it was.

    Args:
      before: the identity of the recorded run.
      now: the identity of the run that would resume it.
      where: what the messages name.

    Raises:
      CheckpointError: naming every field that differs.
    """
    lines = []
    fields = []
    for field, old, new in differences(before, now):
        fields.append(field)
        lines.append(f"{where}: {field}: {old}, now {new}")
    if fields and all(field.startswith(PLANNED) for field in fields) and _is_planned(now):
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


def differences(before: Any, now: Any, path: str = "") -> list[tuple[str, str, str]]:
    """The fields in which two nested values differ: (dotted path, old text, new text)."""
    if isinstance(before, dict) and isinstance(now, dict):
        return _differences_of_mappings(before, now, path)
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        fields = []
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            fields += differences(old, new, f"{path}[{index}]")
        return fields
    if before == now:
        return []
    return [(path, _text(before), _text(now))]


def _differences_of_mappings(
    before: dict[str, Any], now: dict[str, Any], path: str
) -> list[tuple[str, str, str]]:
    """The differences of two mappings: keys of `before` first, then those that are new."""
    fields = []
    for key in before | now:
        inner_path = f"{path}.{key}" if path else str(key)
        fields += differences(before.get(key), now.get(key), inner_path)
    return fields


def _text(value: Any) -> str:
    """A value as JSON, its end cut off where it is long."""
    text = "nothing" if value is None else json.dumps(value)
    if len(text) <= MAX_CHARACTERS:
        return text
    return text[: MAX_CHARACTERS - 3] + "..."
