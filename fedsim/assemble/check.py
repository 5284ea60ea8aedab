"""A scenario's links, samples and model, made and checked; all problems are raised at once."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedsim.assemble.components import make_components
from fedsim.assemble.facts import Facts, NotKnownError
from fedsim.assemble.learning import choose_model, make_model, make_training, trace_links
from fedsim.assemble.loading import check_augmentations, load_samples
from fedsim.assemble.message_bytes import message_bytes
from fedsim.assemble.model import Supplied
from fedsim.assemble.plans import PlanInputs, count_messages, draw_cohort, plan_shares
from fedsim.assemble.problems import UNKNOWN, Problems
from fedsim.assemble.programs import Training, TrainingInputs
from fedsim.assemble.voices import calculations, misfits, solve_before_model, solve_last
from fedsim.data import Federation
from fedsim.scenario.scenario import Scenario

# What is made, in order. A step that needs what is not known is left out, and so are its problems.
STEPS: list[Callable[[Facts], None]] = [
    make_components,
    load_samples,
    check_augmentations,
    choose_model,
    solve_before_model,
    count_messages,
    draw_cohort,
    make_model,
    make_training,
    trace_links,
    plan_shares,
    solve_last,
]


class CheckedScenario(NamedTuple):
    """What a scenario is made of, once it is known that it can run."""

    scenario: Scenario  # with everything filled in that the check solved for
    federations: dict[int, Federation]  # by seed
    plan_inputs: PlanInputs
    # the most bytes that a client sends in a round, and receives; a node of a graph: per neighbour
    bytes_up: int
    bytes_down: int
    training_inputs: TrainingInputs
    trained: Training  # what `programs.training` makes of `training_inputs`
    # Start variables by seed where a model or parameters were supplied. Otherwise empty: they are
    # made once it is known that they fit into memory.
    shared: dict[int, Any]
    shapes: Any  # of the start variables
    # of the largest value in a pass of a batch through the model, by the rows of the batch
    activation_bytes: Mapping[int, int]


def check_scenario(
    scenario: Scenario,
    data: Any,
    model: Any,
    params: Any,
    loss: Any,
    make_federations: Callable[..., dict[int, Federation]],
) -> CheckedScenario:
    """Return what a scenario is made of; the arguments are those of `build`.

    For a scenario whose wrong sections were left out it returns UNKNOWN: there is nothing to run,
    and its other problems are raised.
    """
    problems = Problems(scenario)
    supplied = Supplied(model, params, loss)
    facts = Facts(problems, data=data, supplied=supplied, make_federations=make_federations)
    open_questions = calculations()
    for step in STEPS:
        with contextlib.suppress(NotKnownError):
            step(facts)
        problems.check(misfits, facts)
        open_questions = [find for find in open_questions if not _asked(find, facts)]

    problems.raise_all()
    return UNKNOWN if problems.broken else _checked(facts)


def _asked(find: Callable[[Facts], Any], facts: Facts) -> bool:
    """Record what a calculation finds -> whether all that it reads is known."""
    try:
        findings = list(find(facts))
    except NotKnownError:
        return False
    facts.problems.record(findings)
    return True


def _checked(facts: Facts) -> CheckedScenario:
    up, down = message_bytes(facts)
    return CheckedScenario(
        scenario=facts.scenario,
        federations=facts.federations,
        plan_inputs=facts.plan_inputs,
        bytes_up=up,
        bytes_down=down,
        training_inputs=facts.training_inputs,
        trained=facts.trained,
        shared=facts.shared,
        shapes=facts.shapes,
        activation_bytes=facts.activation_bytes,
    )
