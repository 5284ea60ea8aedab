"""What to say of a private run whose noise is longer than all that its clients could teach."""

import math
from typing import Any

import jax

from fedsim.assemble.experiment import Experiment
from fedsim.assemble.plans import of_first_seed
from fedsim.engine.frozen import without_frozen
from fedsim.engine.shared_leaves import shared_leaves
from fedsim.fields.privacy.counting.records import DISTRIBUTED
from fedsim.fleet import Plan

# Mechanisms whose noise of one round is independent of that of the others.
INDEPENDENT = ("gaussian", *DISTRIBUTED)

MUCH = 3.0  # times as far as all that it hides

LINE = (
    "{where}: over the run, noise takes the model about {times:.2g} times as far as {what} of the "
    "length clip that all point one way (its deviation on a mean of them is {std:.2g} clip in each "
    "of {parameters:,} parameters); {remedy}"
)


def noise_notes(experiment: Experiment) -> list[str]:
    """Return a line for the noise of clients, and one for that of samples, where it drowns them."""
    plan = of_first_seed(experiment.plans)
    spec = experiment.scenario.spec
    shared, _ = without_frozen(of_first_seed(experiment.shared))
    sent = shared_leaves(experiment.client, shared["params"])
    parameters = sum(leaf.size for leaf in jax.tree.leaves(sent))
    return [*_of_clients(spec, plan, parameters), *_of_samples(spec, plan, parameters)]


def _of_clients(spec: Any, plan: Plan, parameters: int) -> list[str]:
    """The noise on the means of all rounds."""
    section = spec.privacy
    if section is None or section.mechanism.kind not in INDEPENDENT:
        return []
    std = section.noise_multiplier / _clients(plan)
    times = std * math.sqrt(parameters / max(spec.rounds, 1))
    remedy = "take more clients a round, or allow a larger epsilon"
    return _line("privacy", times, "updates", std, parameters, remedy)


def _of_samples(spec: Any, plan: Plan, parameters: int) -> list[str]:
    """The noise on the gradients of all steps, which the mean over clients makes less of."""
    section = spec.client.dp_sgd
    if section is None:
        return []
    samples = float(plan.sizes[plan.eligible].mean())
    batch = samples if spec.client.batch == "full" else min(spec.client.batch, samples)
    steps = spec.rounds * float(plan.steps[plan.eligible].mean())
    std = section.noise_multiplier / (batch * math.sqrt(_clients(plan)))
    times = std * math.sqrt(parameters / max(steps, 1))
    remedy = "take larger batches or more clients a round, or allow a larger epsilon"
    return _line("client.dp_sgd", times, "gradients", std, parameters, remedy)


def _clients(plan: Plan) -> int:
    return max(min(plan.nominal, len(plan.eligible)), 1)


def _line(
    where: str, times: float, what: str, std: float, parameters: int, remedy: str
) -> list[str]:
    """The line, where noise goes much further than all that it hides.

    Independent noise of T rounds goes √T times as far as that of one, and they at most T times.
    """
    if times < MUCH:
        return []
    text = LINE.format(
        where=where, times=times, what=what, std=std, parameters=parameters, remedy=remedy
    )
    return [text]
