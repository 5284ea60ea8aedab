"""`fedsim.epsilon` and `fedsim.noise_multiplier`: what privacy costs, before anything runs."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, overload

from annotated_types import Ge, Gt, Lt, MinLen
from pydantic import BeforeValidator

from fedsim.assemble.links import factory_of
from fedsim.assemble.stack_inputs import checked
from fedsim.errors import LinkError, PrivacyError, Problem, ScenarioError
from fedsim.fleet import Cohort
from fedsim.privacy import epsilon_after, solve_noise_multiplier
from fedsim.scenario.schema import AllowedKinds, ByForm, Section
from fedsim.scenario.shorthand import call_of

COHORT = Annotated[Any, AllowedKinds("cohort")]


def _as_mapping(value: Any) -> Any:
    return call_of(value) if isinstance(value, str) else value


class AdaptiveClip(Section):
    kind: Literal["adaptive"] = "adaptive"
    initial: Annotated[float, Gt(0)] = 0.1
    quantile: float = 0.5
    lr: float = 0.2
    count_std: Annotated[float, Gt(0)] | None = None


class Mechanism(Section):
    kind: Literal["gaussian", "tree", "banded", "blt"] = "gaussian"
    restart: Annotated[int, Ge(1)] | None = None
    bands: Annotated[int, Ge(1)] = 4
    buffers: Annotated[int, Ge(1)] = 4


class Privacy(Section):
    unit: Literal["client"] = "client"
    mechanism: Annotated[Mechanism, BeforeValidator(_as_mapping)] = Mechanism()
    clip: Annotated[Annotated[float, Gt(0)] | AdaptiveClip, ByForm()] = 1.0
    noise_multiplier: Annotated[float, Ge(0)] | None = None
    epsilon: Annotated[float, Gt(0)] | None = None
    delta: Annotated[float, Gt(0), Lt(1)]
    accountant: Literal["pld", "rdp"] = "pld"
    conversion: Literal["improved", "classic"] = "improved"
    orders: Annotated[list[Annotated[float, Gt(1)]], MinLen(1)] | None = None


@overload
def epsilon(privacy: Any, cohort: Any = "all", *, clients: int, rounds: int) -> float: ...
@overload
def epsilon(
    privacy: Any, cohort: Any = "all", *, clients: int, rounds: Sequence[int]
) -> list[float]: ...
def epsilon(
    privacy: Any, cohort: Any = "all", *, clients: int, rounds: int | Sequence[int]
) -> float | list[float]:
    """Return ε that a run spends in so many rounds, without running it.

    Args:
      privacy: the section `privacy` of a scenario, a mapping with a `noise_multiplier`.
      cohort: the section `cohort`: a kind, `poisson(rate=0.01)`, or a mapping.
      clients: how many clients can be drawn: those with samples.
      rounds: a number of rounds, or a list of them.

    Returns:
      ε at `privacy.delta`, or one for each number of rounds: 0 for no rounds, ∞ without noise.

    Raises:
      ScenarioError: for what is wrong, or cannot be accounted for; names the key and the remedy.

    >>> section = {"clip": 1.0, "noise_multiplier": 4.0, "delta": 1e-5}
    >>> round(epsilon(section, clients=100, rounds=1), 4)
    0.9323
    """
    with_z = _privacy("epsilon", privacy)
    how = _cohort("epsilon", cohort)
    try:
        return epsilon_after(with_z, how.sampling, clients=clients, rounds=rounds)
    except PrivacyError as error:
        raise _refused("epsilon", error) from None


def noise_multiplier(privacy: Any, cohort: Any = "all", *, clients: int, rounds: int) -> float:
    """Return the smallest noise multiplier z of six digits whose ε is at most `privacy.epsilon`.

    Args:
      privacy: the section `privacy` of a scenario, a mapping with an `epsilon`.
      cohort: as of `epsilon`.
      clients: likewise.
      rounds: how many rounds the run has.

    Raises:
      ScenarioError: as `epsilon` does.

    >>> section = {"clip": 1.0, "epsilon": 1.0, "delta": 1e-5}
    >>> noise_multiplier(section, clients=100, rounds=1)
    3.73064
    """
    with_target = _privacy("noise_multiplier", privacy)
    how = _cohort("noise_multiplier", cohort)
    try:
        return solve_noise_multiplier(with_target, how.sampling, clients=clients, rounds=rounds)
    except PrivacyError as error:
        raise _refused("noise_multiplier", error) from None


def _privacy(command: str, privacy: Any) -> Any:
    return checked(command, "privacy", privacy, Privacy)


def _cohort(command: str, cohort: Any) -> Cohort:
    section = checked(command, "cohort", cohort, COHORT)
    try:
        return factory_of(section)()
    except LinkError as error:
        raise ScenarioError([Problem("cohort", str(error))], command) from None


def _refused(command: str, error: PrivacyError) -> ScenarioError:
    """Return what cannot be accounted for as an error that names the key."""
    where = error.where
    if where not in ("cohort", "clients", "rounds"):
        where = f"privacy.{where}".rstrip(".")
    return ScenarioError([Problem(where, str(error))], command)
