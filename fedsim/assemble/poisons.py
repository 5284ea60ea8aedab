"""`data.attack` -> a federation in which the samples of malicious clients are poisoned."""

from collections.abc import Iterator

import numpy as np

from fedsim.assemble.adversary import adversary_of
from fedsim.assemble.hooks import located_hooks, make_link
from fedsim.assemble.memory import check_memory
from fedsim.assemble.problems import UNKNOWN, Problems
from fedsim.compose import named
from fedsim.compose.shapes import ContractError
from fedsim.data import Federation, Poison, poisoned, unfit, with_triggered
from fedsim.errors import PartitionError
from fedsim.fleet import Adversary
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario.reader import Path
from fedsim.scenario.scenario import Scenario

METRIC = "attack_success"


def poisoned_as_written(scenario: Scenario, federation: Federation, seed: int) -> Federation:
    """The federation with the training samples of malicious clients changed by `data.attack`; the same one without it.

    Raises:
      ScenarioError: for samples that cannot be attacked so, with a line for every link.
      TooLargeError: when there is no room for a copy of the samples.
    """
    sections = scenario.spec.data.attack
    if not sections:
        if scenario.spec.evaluate.metric == METRIC:
            raise scenario.error(
                ("evaluate", "metric"),
                f"{METRIC} is of data.attack, and there is none; write test_accuracy",
            )
        return federation
    problems, adversary = (
        Problems(scenario),
        adversary_of(scenario.spec.fleet.malicious, federation.N),
    )
    make = lambda i, section: problems.attempt(make_link, scenario, ("data", "attack", i), section)
    poisons = [make(i, section) for i, section in enumerate(sections)]
    for i, section in enumerate(sections):
        problems.check(_unfit, i, section.kind, poisons[i], federation)
    problems.check(_aims, poisons)
    problems.check(_aimless, scenario, poisons)
    problems.check(_redrawn, adversary)
    problems.raise_all()
    _check_room(scenario, poisons, federation)
    known = adversary._replace(
        ids=tuple(id for id in adversary.ids if id < federation.N)
    )  # others have a line elsewhere
    malicious, f = known.mask(federation.N, seed, 1), federation
    for i, name in enumerate(named([section.kind for section in sections])):
        f = _poisoned(scenario, i, name, poisons[i], malicious, f, federation, seed)
    return f


def _poisoned(
    scenario: Scenario,
    i: int,
    name: str,
    poison: Poison,
    malicious: np.ndarray,
    f: Federation,
    given: Federation,
    seed: int,
) -> Federation:
    """The federation after its i-th attack."""
    place, section = ("data", "attack", i), scenario.spec.data.attack[i]
    of_client = lambda tag, client: generator(seed, Stream.POISON, tag, client)
    dtype = np.dtype(scenario.spec.numerics.dtype)
    try:
        with located_hooks(scenario, place, section):
            return with_triggered(
                poisoned(f, name, poison, malicious, of_client, dtype, given), poison, dtype
            )
    except (PartitionError, ContractError) as error:
        raise scenario.error(place, f"{section.kind}: {error}") from None


def _unfit(i: int, kind: str, poison: Poison, federation: Federation) -> Iterator[tuple[Path, str]]:
    """An attack on samples that cannot be attacked so."""
    if poison.trigger is not None and poison.target is None:
        yield ("data", "attack", i), f"{kind} has a trigger, and no target"
    elif text := unfit(poison, federation):
        yield ("data", "attack", i), f"{kind} {text}"


def _aims(poisons: list[Poison]) -> Iterator[tuple[Path, str]]:
    """Several attacks with a target: there is one `attack_success`."""
    aimed = [
        i for i, poison in enumerate(poisons) if poison is not UNKNOWN and poison.target is not None
    ]
    for i in aimed[1:]:
        text = f"has a target, and so has data.attack[{aimed[0]}]; the success of one is measured, take one out"
        yield ("data", "attack", i), text


def _aimless(scenario: Scenario, poisons: list[Poison]) -> Iterator[tuple[Path, str]]:
    """A success that no attack aims at."""
    if scenario.spec.evaluate.metric == METRIC and all(
        p is not UNKNOWN and p.target is None for p in poisons
    ):
        yield (
            ("evaluate", "metric"),
            f"no attack of data.attack has a target, so there is no {METRIC}; write test_accuracy",
        )


def _redrawn(adversary: Adversary) -> Iterator[tuple[Path, str]]:
    """Malicious clients that change from round to round."""
    if adversary.redrawn:
        text = "is round, and data.attack changes samples before the first one; write per: run, or attack on the wire"
        yield ("fleet", "malicious", "per"), text


def _check_room(scenario: Scenario, poisons: list[Poison], f: Federation) -> None:
    """Refuse copies of the samples that do not fit, before any is made."""
    changes = any(poison.features == "changes" for poison in poisons)
    aims = any(poison.target is not None for poison in poisons)
    if changes or aims:
        check_memory(scenario, {"attack": changes * f.train.x.nbytes + 2 * aims * f.test.x.nbytes})
