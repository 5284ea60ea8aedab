"""`fedsim.epsilon` and `fedsim.noise_multiplier`: what privacy costs, before anything runs."""

from collections.abc import Iterable
from typing import Annotated, Any, overload

from fedsim.assemble.links import factory_of
from fedsim.assemble.stack_inputs import argument_error, checked, require_whole
from fedsim.errors import LinkError, PrivacyError, ScenarioError
from fedsim.fields.privacy.counting.accountant import solve_noise_multiplier, spending
from fedsim.fields.privacy.keys import Privacy
from fedsim.fleet import Cohort
from fedsim.scenario.schema import AllowedKinds

COHORT = Annotated[Any, AllowedKinds("cohort")]


@overload
def epsilon(privacy: Any, cohort: Any = "all", *, clients: int, rounds: int) -> float: ...
@overload
def epsilon(
    privacy: Any, cohort: Any = "all", *, clients: int, rounds: Iterable[int]
) -> list[float]: ...
def epsilon(
    privacy: Any, cohort: Any = "all", *, clients: int, rounds: int | Iterable[int]
) -> float | list[float]:
    """Return ε that a run spends in so many rounds, without running it.

    Args:
      privacy: the section `privacy` of a scenario, a mapping with a `noise_multiplier`; ε does not
        depend on `clip`, which may be left out. Noise of clients needs `mechanism.dimension`.
      cohort: the section `cohort`: a kind, `"poisson(rate=0.01)"`, or a mapping.
      clients: how many clients can be drawn: those with samples.
      rounds: a number of rounds, or several; `blt` is optimised for the largest.

    Returns:
      ε at `privacy.delta`, or a list of one for each number of rounds: 0 for no rounds, ∞ without
      noise.

    Raises:
      ScenarioError: for what is wrong or cannot be accounted for, and where the extra `privacy` is
        not installed; names the key and the remedy.
    """
    section = _privacy("epsilon", privacy)
    if section.noise_multiplier is None:
        text = "is needed; fedsim.noise_multiplier finds the one that an epsilon asks for"
        raise argument_error("epsilon", "privacy.noise_multiplier", text)
    sampling = _cohort("epsilon", cohort).sampling
    require_whole("epsilon", "clients", clients, least=1)
    several = list(rounds) if isinstance(rounds, Iterable) else [rounds]
    for number in several:
        require_whole("epsilon", "rounds", number, least=0)
    try:
        spent = spending(section, sampling, clients=clients, rounds=max(several, default=0))
        epsilons = [spent(number) for number in several]
    except PrivacyError as error:
        raise _refused("epsilon", error) from None
    return epsilons if isinstance(rounds, Iterable) else epsilons[0]


def noise_multiplier(privacy: Any, cohort: Any = "all", *, clients: int, rounds: int) -> float:
    """Return the smallest noise multiplier z of six digits whose ε is at most `privacy.epsilon`.

    Args:
      privacy: the section `privacy` of a scenario, a mapping with an `epsilon`.
      cohort: the section `cohort`, as of `epsilon`.
      clients: how many clients can be drawn: those with samples.
      rounds: how many rounds the run has.

    Returns:
      z; 0 for no rounds.

    Raises:
      ScenarioError: as of `epsilon`, and where no noise reaches the ε.
    """
    section = _privacy("noise_multiplier", privacy)
    if section.epsilon is None:
        text = "is not there; write the epsilon to solve for, and no noise_multiplier"
        raise argument_error("noise_multiplier", "privacy.epsilon", text)
    sampling = _cohort("noise_multiplier", cohort).sampling
    require_whole("noise_multiplier", "clients", clients, least=1)
    require_whole("noise_multiplier", "rounds", rounds, least=0)
    try:
        return solve_noise_multiplier(section, sampling, clients=clients, rounds=rounds)
    except PrivacyError as error:
        raise _refused("noise_multiplier", error) from None


def _privacy(command: str, privacy: Any) -> Any:
    """Return the section `privacy`, whose clip may be left out."""
    if isinstance(privacy, dict):
        privacy = {"clip": 1.0, **privacy}
    section = checked(command, "privacy", privacy, Privacy)
    if section.noise_multiplier is not None and section.epsilon is not None:
        text = "is given, and epsilon, which decides it, is given as well; remove one of them"
        raise argument_error(command, "privacy.noise_multiplier", text)
    return section


def _cohort(command: str, cohort: Any) -> Cohort:
    section = checked(command, "cohort", cohort, COHORT)
    try:
        return factory_of(section)()
    except LinkError as error:
        raise argument_error(command, "cohort", str(error)) from None


def _refused(command: str, error: PrivacyError) -> ScenarioError:
    """Return what cannot be accounted for as an error that names the key."""
    where = error.where
    if where != "cohort":
        where = f"privacy.{where}".rstrip(".")
    return argument_error(command, where, str(error))
