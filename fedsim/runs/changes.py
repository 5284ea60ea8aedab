"""Kinds that compute other values than in an earlier version, so that older runs cannot resume.

Whoever changes values adds a line to `CHANGES`. Runs of earlier versions that use no such kind
resume, and can be verified.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fedsim._version import __version__
from fedsim.errors import CheckpointError


class Change(NamedTuple):
    """A change of values.

    Attributes:
      since: the first version that computes the new ones.
      section: a section at the top of a scenario: `model`, `server`, `wire`, `client`, `data` ...
      kind: a kind, or another word, that stands in it, at any depth.
      reason: in words, after "since VERSION,".
    """

    since: str
    section: str
    kind: str
    reason: str


CHANGES = (
    Change(
        since="0.6.0",
        section="model",
        kind="resnet",
        reason="resnet pads as torchvision's blocks do, (1, 1) at stride 2",
    ),
    Change(
        since="0.6.0",
        section="server",
        kind="foolsgold",
        reason="foolsgold weighs by the authors' code",
    ),
    Change(
        since="0.6.0",
        section="wire",
        kind="mimic",
        reason="mimic learns from clients on both sides of their mean",
    ),
    Change(
        since="0.6.0",
        section="wire",
        kind="fang",
        reason="fang with knowledge: own draws three to four deviations from the mean",
    ),
    Change(
        since="0.7.0",
        section="server",
        kind="covariance_filter",
        reason="covariance_filter finds its direction by fewer products",
    ),
    Change(
        since="0.7.0",
        section="server",
        kind="divide_and_conquer",
        reason="divide_and_conquer draws its coordinates another way",
    ),
    Change(
        since="0.7.0",
        section="server",
        kind="flame",
        reason="flame takes angles and lengths from the products of rows",
    ),
    Change(
        since="0.7.0",
        section="server",
        kind="sign_guard",
        reason="sign_guard clips by the weights of its mean",
    ),
    Change(
        since="0.7.0",
        section="server",
        kind="centered_clipping",
        reason="centered_clipping adds up in another order",
    ),
    Change(
        since="0.7.0",
        section="server",
        kind="mix_neighbours",
        reason="mix_neighbours adds up in another order",
    ),
    Change(
        since="0.7.0",
        section="wire",
        kind="rand_k",
        reason="rand_k draws its coordinates another way",
    ),
    Change(
        since="0.7.0",
        section="model",
        kind="resnet",
        reason="resnet adds up what its normalisation needs in another order",
    ),
    Change(
        since="0.7.0",
        section="model",
        kind="transformer",
        reason="transformer adds up the gradients of attention and normalisation in another order",
    ),
    Change(
        since="0.7.0",
        section="wire",
        kind="low_rank",
        reason="low_rank multiplies by the matrix as it is stored",
    ),
    Change(
        since="0.7.0",
        section="server",
        kind="monna",
        reason="monna squares distances as they are, which orders almost equal ones otherwise",
    ),
    Change(
        since="0.7.0",
        section="client",
        kind="local_only",
        reason="local_only has the scores of its clients' models in summary.csv",
    ),
    Change(
        since="0.7.0",
        section="client",
        kind="full",
        reason="batch: full is as wide as the largest client of its own seed",
    ),
    Change(
        since="0.7.0",
        section="compare",
        kind="client.batch",
        reason="methods are not padded to the largest client.batch of a comparison",
    ),
)

# Earlier changes have no line above, so runs of earlier versions never resume.
OLDEST = "0.5.0"


def changes_between(scenario: Mapping[str, Any], earlier: str, later: str) -> list[Change]:
    """The changes that concern a scenario, after one version and up to another.

    Args:
      scenario: resolved, as plain values.
      earlier: the version that a run was made with.
      later: the later version.

    >>> cnn, resnet = {"model": {"kind": "cnn"}}, {"model": {"kind": "resnet"}}
    >>> [change.since for change in changes_between(resnet, "0.5.0", "0.6.0")]
    ['0.6.0']
    >>> changes_between(cnn, "0.5.0", "0.6.0")
    []
    """
    if not (_is_version(earlier) and _is_version(later)):
        return []
    changes = []
    for change in CHANGES:
        is_between = _numbers(earlier) < _numbers(change.since) <= _numbers(later)
        if is_between and change.kind in _words(scenario.get(change.section)):
            changes.append(change)
    return changes


def version_of_values(scenario: Mapping[str, Any], version: str) -> str:
    """The first version in which a scenario had the values that it has in a given one.

    Runs of a scenario can be compared, and resume each other, where this version is the same. For
    versions before `OLDEST` and after this one it is not known, and each counts as a separate one.

    Args:
      scenario: resolved, as plain values.
      version: a version of fedsim.

    >>> cnn, resnet = {"model": {"kind": "cnn"}}, {"model": {"kind": "resnet"}}
    >>> version_of_values(cnn, "0.6.0"), version_of_values(resnet, "0.6.0")
    ('0.5.0', '0.6.0')
    """
    if not _is_version(version):
        return version
    if not _numbers(OLDEST) <= _numbers(version) <= _numbers(__version__):
        return version
    versions = [change.since for change in changes_between(scenario, OLDEST, version)]
    return max([OLDEST, *versions], key=_numbers)


def same_values(scenario: Mapping[str, Any], version: str) -> bool:
    """Whether a scenario is known to have the same values in another version as in this one."""
    return version_of_values(scenario, version) == version_of_values(scenario, __version__)


def reasons(scenario: Mapping[str, Any], environment: Mapping[str, Any]) -> list[str]:
    """Why this version computes other values than a run has; empty where no change is known.

    Args:
      scenario: the run's, resolved, as plain values.
      environment: the entry of its record.
    """
    before = str(environment.get("fedsim"))
    lines = []
    for change in changes_between(scenario, before, __version__):
        lines.append(f"was made by fedsim {before}; since {change.since}, {change.reason}")
    return lines


def demand_unchanged(
    scenario: Mapping[str, Any], environment: Mapping[str, Any], where: str
) -> None:
    """Refuse to resume a run of which this version computes other values.

    Args:
      scenario: the run's, resolved, as plain values.
      environment: the entry of its record.
      where: the run directory, which the messages name.

    Raises:
      CheckpointError: naming every change.
    """
    version = str(environment.get("fedsim"))
    lines = reasons(scenario, environment)
    if not lines and not same_values(scenario, version):
        unknown = f"what fedsim {__version__} computes differently is not known"
        lines.append(f"was made by fedsim {version}; {unknown}")
    if lines:
        lines.append(f"finish it with fedsim {version}, or start over with --force or --out")
        raise CheckpointError("\n".join(f"{where}: {line}" for line in lines))


def _words(value: Any) -> Iterator[str]:
    """The keys and texts of a value, kinds among them, at any depth."""
    if isinstance(value, str):
        yield value
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for entry in value:
            yield from _words(entry)


def _is_version(text: str) -> bool:
    """Whether a text is a released version: three numbers."""
    return re.fullmatch(r"\d{1,6}\.\d{1,6}\.\d{1,6}", text, re.ASCII) is not None


def _numbers(version: str) -> tuple[int, ...]:
    """A version as numbers, which compare in order."""
    return tuple(map(int, version.split(".")))
