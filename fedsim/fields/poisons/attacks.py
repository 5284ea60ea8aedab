"""`data.attack` -> a federation in which the samples of malicious clients are poisoned."""

import numpy as np

from fedsim.assemble.adversary import adversary_of
from fedsim.assemble.hooks import located_hooks, make_link
from fedsim.assemble.problems import UNKNOWN, Findings, Problems
from fedsim.compose import unique_names
from fedsim.compose.shapes import ContractError
from fedsim.data import Federation, Poison
from fedsim.errors import OutOfMemoryError, PartitionError
from fedsim.fields.poisons.poisoning import METRIC, poison_refusal, poisoned, with_triggered
from fedsim.fleet import Adversary
from fedsim.fleet.streams import Stream, generator
from fedsim.limits import require_memory
from fedsim.machine import memory_now
from fedsim.scenario.scenario import Scenario

PATH = ("data", "attack")


def with_attacks(scenario: Scenario, federation: Federation, seed: int) -> Federation:
    """Return the federation after the attacks of `data.attack`; without any, the same one.

    The training samples of malicious clients change.

    Raises:
      ScenarioError: for samples that cannot be attacked as asked, with a line for every attack.
      ScenarioTooLargeError: when a copy of the samples does not fit into memory.
    """
    spec = scenario.spec
    sections = spec.data.attack
    if not sections:
        if spec.evaluate.metric == METRIC:
            text = f"{METRIC} measures data.attack, and there is none; write test_accuracy"
            raise scenario.error(("evaluate", "metric"), text)
        return federation

    adversary = adversary_of(spec.fleet.malicious, federation.N)
    poisons = _made_and_checked(scenario, federation, adversary)
    _check_memory(scenario, poisons, federation)

    def of_client(tag: int, client: int) -> np.random.Generator:
        return generator(seed, Stream.POISON, tag, client)

    dtype = np.dtype(spec.numerics.dtype)
    malicious = _malicious_clients(adversary, federation.N, seed)
    names = unique_names([section.kind for section in sections])
    result = federation
    for i, (section, name, poison) in enumerate(zip(sections, names, poisons, strict=True)):
        path = (*PATH, i)
        try:
            with located_hooks(scenario, path, section):
                result = poisoned(
                    result,
                    name,
                    poison,
                    malicious=malicious,
                    generator=of_client,
                    dtype=dtype,
                    given=federation,
                )
                result = with_triggered(result, poison, dtype)
        except (PartitionError, ContractError) as error:
            raise scenario.error(path, f"{section.kind}: {error}") from None
    return result


def _made_and_checked(
    scenario: Scenario, federation: Federation, adversary: Adversary
) -> list[Poison]:
    """What the sections of `data.attack` make, once all of them suit samples and adversary."""
    problems = Problems(scenario)
    sections = scenario.spec.data.attack
    poisons = [
        problems.attempt(make_link, scenario, (*PATH, i), section)
        for i, section in enumerate(sections)
    ]
    for i, (section, poison) in enumerate(zip(sections, poisons, strict=True)):
        problems.check(_unfit, i, section.kind, poison, federation)
    problems.check(_several_targets, poisons)
    problems.check(_no_target, scenario, poisons)
    problems.check(_redrawn, adversary)
    problems.raise_all()
    return poisons


def _malicious_clients(adversary: Adversary, N: int, seed: int) -> np.ndarray:
    """The malicious clients of the first round `[N]`.

    Ids beyond the last client are left out: `feasibility.unknown_clients` refuses them.
    """
    existing = tuple(id for id in adversary.ids if id < N)
    return adversary._replace(ids=existing).mask(N, seed, 1)


def _unfit(i: int, kind: str, poison: Poison, federation: Federation) -> Findings:
    """An attack that these samples do not allow."""
    path = (*PATH, i)
    if poison.trigger is not None and poison.target is None:
        yield path, f"{kind} has a trigger, and no target"
        return
    text = poison_refusal(poison, federation)
    if text:
        yield path, f"{kind} {text}"


def _several_targets(poisons: list[Poison]) -> Findings:
    """A second attack with a target: there is one `attack_success`."""
    aimed = [i for i, poison in enumerate(poisons) if _has_target(poison)]
    for i in aimed[1:]:
        text = f"has a target, and so has data.attack[{aimed[0]}]"
        reason = "the success of one attack is measured"
        yield (*PATH, i), f"{text}; {reason}, remove one"


def _has_target(poison: Poison) -> bool:
    return poison is not UNKNOWN and poison.target is not None


def _no_target(scenario: Scenario, poisons: list[Poison]) -> Findings:
    """The metric `attack_success`, where no attack has a target."""
    if scenario.spec.evaluate.metric != METRIC:
        return
    if UNKNOWN in poisons or any(map(_has_target, poisons)):
        return
    text = f"no attack of data.attack has a target, so there is no {METRIC}"
    yield ("evaluate", "metric"), f"{text}; write test_accuracy"


def _redrawn(adversary: Adversary) -> Findings:
    """Malicious clients that change from round to round."""
    if adversary.redrawn:
        text = "is round, and data.attack changes samples before the first one"
        remedy = "write per: run, or attack messages in wire"
        yield ("fleet", "malicious", "per"), f"{text}; {remedy}"


def _check_memory(scenario: Scenario, poisons: list[Poison], f: Federation) -> None:
    """Refuse copies of the samples that do not fit, before any is made."""
    copied_bytes = 0
    if any(poison.features == "changes" for poison in poisons):
        copied_bytes += f.train.x.nbytes
    if any(poison.target is not None for poison in poisons):
        copied_bytes += 2 * f.test.x.nbytes
    if not copied_bytes:
        return
    try:
        require_memory(process=memory_now(), attack=copied_bytes)
    except OutOfMemoryError as error:
        remedy = "use fewer seeds or samples, or attacks on labels alone"
        raise scenario.too_large(PATH, f"{error}; {remedy}") from None
