"""Why a private run cannot go on as another one."""

from collections.abc import Sequence
from typing import Any

# Fields that differ where a private run gets other rounds, and why it then cannot go on.
PLANNED = ("scenario.privacy.noise_multiplier", "scenario.privacy.mechanism.")
MORE_ROUNDS = (
    "the noise was solved for all rounds that were planned, and for another number of them, rounds "
    "that are over would have needed other noise"
)


def forked(before: Any, after: Any) -> str:
    """Return why a run cannot go on with other sections; empty where it can.

    ε composes over all rounds, and is counted as if all were like those of the fork.
    """
    is_private = any(spec.privacy or spec.client.dp_sgd for spec in (before, after))
    spent = lambda spec: (spec.privacy, spec.client.dp_sgd, spec.cohort, spec.rounds)
    if not is_private or spent(before) == spent(after):
        return ""
    text = "ε of a private run is counted for one privacy, cohort and number of rounds"
    return f"{text}; a fork cannot change them"


def resumed(fields: Sequence[str], present: dict[str, Any]) -> str:
    """Return why other rounds need other noise; empty where something else differs."""
    is_of_noise = bool(fields) and all(field.startswith(PLANNED) for field in fields)
    return MORE_ROUNDS if is_of_noise and _is_planned(present) else ""


def _is_planned(identity: dict[str, Any]) -> bool:
    """Whether the noise of a private run depends on the number of its rounds."""
    privacy = identity["scenario"].get("privacy") or {}
    return privacy.get("epsilon") is not None or privacy["mechanism"]["kind"] == "blt"
