"""DP-SGD of clients: what must hold for ε of a sample to be true, and how much of it is spent.

ε counts what leaves a client as sums of clipped gradients with noise on them, and whatever is
computed from these: updates, control variates, the state of optimisers. What a client would tell of
its samples besides is refused. Public is how many samples a client has, because the chance of a
sample to be in a batch depends on it.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from fedsim import tree
from fedsim.assemble.facts import Facts
from fedsim.assemble.hooks import training_shapes
from fedsim.assemble.problems import UNKNOWN, Findings
from fedsim.assemble.traits import SILENT, Reason, Voice
from fedsim.compose.shapes import ContractError
from fedsim.data import Federation
from fedsim.engine.frozen import bound, without_frozen
from fedsim.errors import PrivacyError
from fedsim.fields.privacy.counting.accountant import least_noise
from fedsim.fields.privacy.counting.extra import dp_accounting
from fedsim.fields.privacy.counting.refusals import require_noise
from fedsim.fields.privacy.counting.samples import sample_epsilon_after
from fedsim.fleet import Local
from fedsim.fleet.local import planned_steps
from fedsim.scenario.scenario import Scenario
from fedsim.types import Batch

PATH = ("client", "dp_sgd")


def samples_spent(scenario: Scenario, local: Local) -> Callable[[int, int], float] | None:
    """Return (steps, samples) of a client -> ε of its samples; None without `client.dp_sgd`."""
    section = scenario.spec.client.dp_sgd
    if section is None:
        return None

    @functools.cache
    def spent(steps: int, samples: int) -> float:
        return _spent(section, local, section.noise_multiplier, steps, samples)

    return spent


def _spent(section: Any, local: Local, z: float, steps: int, samples: int) -> float:
    """Return ε of the samples of a client after steps with noise multiplier z."""
    if samples == 0:
        return 0.0
    return sample_epsilon_after(
        steps,
        noise_multiplier=z,
        samples=samples,
        rate=local.chance(samples),
        cap=samples if local.cap is None else local.cap,
        delta=section.delta,
    )


def solve_noise(facts: Facts) -> None:
    """Put the noise into the scenario that the ε of `client.dp_sgd` asks for."""
    known = (facts.maybe("local"), facts.maybe("federations"))
    reads = [("client",), ("rounds",)]
    solved = facts.attempt(with_noise, facts.scenario, *known, reads=reads)
    if solved is not UNKNOWN:
        facts.scenario = solved


def with_noise(scenario: Scenario, local: Local, federations: Mapping[int, Federation]) -> Scenario:
    """Return the scenario with z of `client.dp_sgd` solved for its ε, where it has one."""
    section = scenario.spec.client.dp_sgd
    if section is None:
        return scenario
    try:
        z = _noise_of(scenario, local, federations)
    except PrivacyError as error:
        raise scenario.error((*PATH, *filter(None, (error.where,))), str(error)) from None
    client = scenario.spec.client.model_copy(
        update={"dp_sgd": section.model_copy(update={"noise_multiplier": z})}
    )
    return scenario._replace(spec=scenario.spec.model_copy(update={"client": client}))


def _noise_of(scenario: Scenario, local: Local, federations: Mapping[int, Federation]) -> float:
    """Return z of `client.dp_sgd`: as given, or such that every sample keeps its ε."""
    section = scenario.spec.client.dp_sgd
    z = section.noise_multiplier
    target = section.epsilon
    if target is None:
        if z is None:
            text = "is missing, and so is an epsilon that it is solved for; write one of them"
            raise PrivacyError("noise_multiplier", text)
        return z
    if scenario.spec.schedule.kind != "sync":
        text = f"under {scenario.spec.schedule.kind}, a client may train more often than once a"
        raise PrivacyError("epsilon", f"{text} round; write noise_multiplier in its place")

    sizes = np.unique(np.concatenate([each.sizes for each in federations.values()]))
    sizes = sizes[sizes > 0]
    all_steps = scenario.spec.rounds * planned_steps(sizes, local)
    kinds = list(zip(all_steps.tolist(), sizes.tolist(), strict=True))

    def spent(z: float, kind: tuple[int, int]) -> float:
        return _spent(section, local, z, *kind)

    if z is not None:  # of a resolved scenario, which has both
        largest = max(spent(z, kind) for kind in kinds)
        if largest > target:
            text = f"is {z:g}, which spends {largest:.4g}, and epsilon is {target:g}"
            raise PrivacyError("noise_multiplier", f"{text}; remove one of the two")
        return z
    # Nearly always the fewest samples; where others spend more, z rises until none does.
    worst = kinds[0]
    while True:
        z = least_noise(lambda z, kind=worst: spent(z, kind), target)
        worst = max(kinds, key=functools.partial(spent, z))
        if spent(z, worst) <= target:
            return z


def unreached_cap(facts: Facts) -> Findings:
    """A cap that no batch reaches, or that is below the batch."""
    section = facts.spec.client
    if section.dp_sgd is None or section.dp_sgd.cap is None:
        return
    path = (*PATH, "cap")
    if section.batch == "full":
        yield path, "client.batch is full, and no batch is cut; remove it"
    elif section.dp_sgd.cap < section.batch:
        text = f"is {section.dp_sgd.cap}, and client.batch expects {section.batch} samples"
        yield path, f"{text}; write more, or a smaller batch"


def private_batches(facts: Facts) -> Findings:
    """Batches of another kind than the accountant supposes, and an accountant that is missing."""
    section = facts.spec.client
    if section.dp_sgd is None:
        return
    if section.shuffle != "poisson":
        text = "epsilon is that of Poisson batches, and these are cut from the epochs of a client"
        yield ("client", "shuffle"), f"{text}; write poisson, or remove it"
    try:
        dp_accounting()
        if section.dp_sgd.noise_multiplier is not None:
            require_noise(section.dp_sgd.noise_multiplier)
    except PrivacyError as error:
        yield (*PATH, *filter(None, (error.where,))), str(error)


def noise_voice(facts: Facts) -> Voice:
    """Noise on the gradients of clients."""
    if facts.spec.client.dp_sgd is None:
        return SILENT
    return voice_of_noise()


def voice_of_noise() -> Voice:
    """Noise on the gradients of clients, however much."""
    noised = "dp_sgd counts the noised gradients of a client's own steps alone"
    one_server = "dp_sgd is for clients of one server"
    needs = [
        Reason("noised_gradients", noised, at_taker=True),
        Reason("sample_gradients", "dp_sgd clips the gradient of every sample", at_taker=True),
        Reason("server", one_server),
        Reason("one_model", one_server),
    ]
    text = "dp_sgd is for clients that train the whole model"
    return Voice(PATH, "remove client.dp_sgd", needs, [Reason("plain_steps", text)])


def private_gradient(facts: Facts) -> Findings:
    """A gradient hook that takes more than one gradient of a batch, or looks at the batch itself.

    It is traced on a batch without samples: what it takes of them, it takes by `value_and_grad`,
    where an objective sees one sample at a time.
    """
    if facts.spec.client.dp_sgd is None or facts.client.probe is not None:
        return
    path = ("client", "kind")
    kind = facts.spec.client.kind
    remedy = "use one such as sgd, fedprox or scaffold"
    trained = facts.trained
    one_sample, work = training_shapes(facts.scenario, trained, facts.federation, rows=1)
    gradients = 0

    def look(*arguments: Any, **keys: Any) -> Any:
        del arguments, keys
        raise ContractError("looks at the samples of a batch")

    def step(start: Any, work: Any, sample: Batch) -> Any:
        shared, frozen = without_frozen(start)
        plain_task = bound(trained.task, frozen, shared)

        def value_and_grad(variables: Any, batch: Batch, objective: Any = None) -> Any:
            del batch
            nonlocal gradients
            gradients += 1
            return plain_task.value_and_grad(variables, sample, objective)

        task = plain_task._replace(
            value_and_grad=value_and_grad, per_sample=look, apply=look, features=look
        )
        hidden: Any = sample._replace(x=None, y=None, mask=None)
        row = trained.client.memory(shared, sample.key)
        variables, local = trained.client.start(task, shared, row, work)
        return trained.client.gradient(task, variables, hidden, local, shared, work)

    try:
        jax.eval_shape(step, facts.shapes, work, one_sample)
    except Exception:  # whatever a hook makes of samples that are not there
        text = f"{kind} looks at the samples of a batch besides its gradient"
        yield path, f"{text}, which has no noise; {remedy}"
        return
    if gradients > 1:
        text = f"{kind} takes {gradients} gradients of a batch in a step, and epsilon counts one"
        yield path, f"{text}; {remedy}"


def count_gradients(facts: Facts) -> None:
    """Count the gradients of samples among the largest values on a lane."""
    known = (facts.maybe("activation_bytes"), facts.maybe("shapes"))
    activations = facts.attempt(with_gradients, facts.scenario, *known)
    facts.learn(activation_bytes=activations)


def with_gradients(
    scenario: Scenario, activations: Mapping[int, int], shapes: Any
) -> Mapping[int, int]:
    """Return bytes of the largest value on a lane, which may be the gradients of many samples.

    Args:
      activations: bytes of the largest value that the model makes of a batch, by its rows.
    """
    section = scenario.spec.client.dp_sgd
    if section is None:
        return activations
    params = tree.nbytes(shapes["params"])
    largest = {}
    for rows, activation in activations.items():
        held = min(section.microbatch or rows, rows)
        largest[rows] = max(activation, held * params)
    return largest
