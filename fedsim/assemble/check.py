"""A scenario's links, samples and model, made and checked; all problems are raised at once."""

import contextlib
from collections.abc import Callable
from typing import Any

from fedsim.assemble.components import make_components
from fedsim.assemble.facts import Facts, NotKnownError
from fedsim.assemble.learning import choose_model, make_model, make_training, trace_links
from fedsim.assemble.loading import check_augmentations, load_samples
from fedsim.assemble.message_bytes import message_bytes
from fedsim.assemble.model import Supplied
from fedsim.assemble.plans import count_messages, draw_cohort, plan_shares
from fedsim.assemble.problems import UNKNOWN
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


def check_scenario(
    scenario: Scenario,
    data: Any,
    model: Any,
    params: Any,
    loss: Any,
    make_federations: Callable[..., dict[int, Federation]],
) -> Facts:
    """Return what a scenario is made of; the arguments are those of `build`.

    For a scenario whose wrong sections were left out it returns UNKNOWN: there is nothing to run,
    and its other problems are raised.

    Raises:
      ScenarioError: with a line for every problem that can be known.
      DataError: for samples that cannot be learned from.
    """
    supplied = Supplied(model, params, loss)
    facts = Facts(scenario, data=data, supplied=supplied, make_federations=make_federations)
    open_questions = calculations()
    for step in STEPS:
        with contextlib.suppress(NotKnownError):
            step(facts)
        facts.check(misfits, facts)
        open_questions = [find for find in open_questions if not _asked(find, facts)]

    facts.raise_all()
    if facts.broken:
        return UNKNOWN
    bytes_up, bytes_down = message_bytes(facts)
    facts.learn(bytes_up=bytes_up, bytes_down=bytes_down)
    return facts


def _asked(find: Callable[[Facts], Any], facts: Facts) -> bool:
    """Record what a calculation finds -> whether all that it reads is known."""
    try:
        findings = list(find(facts))
    except NotKnownError:
        return False
    facts.record(findings)
    return True
