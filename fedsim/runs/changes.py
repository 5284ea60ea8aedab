"""What computes other values than it did in an earlier version: a run of before that names it cannot go on.

Whoever changes values adds a line to `CHANGES`. Runs of earlier versions that name no such kind go on, and are verified.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fedsim._version import __version__
from fedsim.errors import CheckpointError


class Change(NamedTuple):
    """A change of values.

    Attributes:
      since: the first version that has the new ones.
      section: of a scenario, at its top: `model`, `server`, `wire`, `client`, `data` ...
      kind: that is named there, or somewhere inside.
      reason: in words, after "since VERSION,".
    """

    since: str
    section: str
    kind: str
    reason: str


CHANGES = (
    Change(
        "0.6.0", "model", "resnet", "resnet pads as torchvision's blocks do, (1, 1) at stride 2"
    ),
    Change("0.6.0", "server", "foolsgold", "foolsgold weighs by the authors' code"),
    Change("0.6.0", "wire", "mimic", "mimic learns from clients on both sides of their mean"),
    Change(
        "0.6.0",
        "wire",
        "fang",
        "fang with knowledge: own draws three to four deviations from the mean",
    ),
)
OLDEST = (
    "0.5.0"  # what changed before stands in no such line, so runs of earlier versions never go on
)


def changes_between(scenario: Mapping[str, Any], before: str, now: str) -> list[Change]:
    """Changes of what a scenario names, behind one version and up to another.

    Args:
      scenario: resolved, as plain values.
      before: the version that a run was made with.
      now: the other one.

    >>> [change.since for change in changes_between({"model": {"kind": "resnet"}}, "0.5.0", "0.6.0")]
    ['0.6.0']
    >>> changes_between({"model": {"kind": "cnn"}}, "0.5.0", "0.6.0")
    []
    """
    if not (_is_version(before) and _is_version(now)):
        return []
    behind = (
        change for change in CHANGES if _number(before) < _number(change.since) <= _number(now)
    )
    return [change for change in behind if change.kind in _kinds(scenario.get(change.section))]


def version_of_values(scenario: Mapping[str, Any], version: str) -> str:
    """The version since which a scenario has had the values that it has in this one.

    Two runs of one scenario can be compared, or go on from one another, where it is the same. Of versions of which that
    is not known, those before `OLDEST` and those to come, each has its own.

    Args:
      scenario: resolved, as plain values.
      version: of fedsim.

    >>> version_of_values({"model": {"kind": "cnn"}}, "0.6.0"), version_of_values({"model": {"kind": "resnet"}}, "0.6.0")
    ('0.5.0', '0.6.0')
    """
    if not _is_version(version) or not _number(OLDEST) <= _number(version) <= _number(__version__):
        return version
    return max(
        [OLDEST, *(change.since for change in changes_between(scenario, OLDEST, version))],
        key=_number,
    )


def same_values(scenario: Mapping[str, Any], version: str) -> bool:
    """Whether a scenario has the same values in another version as in this one, as far as is known."""
    return version_of_values(scenario, version) == version_of_values(scenario, __version__)


def reasons(scenario: Mapping[str, Any], environment: Mapping[str, Any]) -> list[str]:
    """Why this version computes other values than a run has; empty where no line says so.

    Args:
      scenario: of the run, resolved, as plain values.
      environment: of its record.
    """
    before = str(environment.get("fedsim"))
    changes = changes_between(scenario, before, __version__)
    return [
        f"was made by fedsim {before}; since {change.since}, {change.reason}" for change in changes
    ]


def demand_unchanged(
    scenario: Mapping[str, Any], environment: Mapping[str, Any], where: str
) -> None:
    """A run goes on only where this version computes what it has so far.

    Args:
      scenario: of the run, resolved, as plain values.
      environment: of its record.
      where: the run directory, to name it by.

    Raises:
      CheckpointError: naming every change.
    """
    version = str(environment.get("fedsim"))
    lines = reasons(scenario, environment)
    if not lines and not same_values(scenario, version):
        lines = [
            f"was made by fedsim {version}; what fedsim {__version__} computes otherwise is not known"
        ]
    if lines:
        lines.append(f"end it with fedsim {version}, or start anew with --force or --out")
        raise CheckpointError("\n".join(f"{where}: {line}" for line in lines))


def _kinds(value: Any) -> Iterator[str]:
    """Kinds that are named in a value, or somewhere inside."""
    if isinstance(value, dict):
        if isinstance(value.get("kind"), str):
            yield value["kind"]
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from _kinds(entry)


def _is_version(text: str) -> bool:
    return re.fullmatch(r"\d{1,6}\.\d{1,6}\.\d{1,6}", text, re.ASCII) is not None


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
