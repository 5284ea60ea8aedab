"""The budget of a private scenario: z, where it is solved for an ε, and ε of any rounds."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim.assemble.facts import Facts
from fedsim.assemble.problems import UNKNOWN
from fedsim.codecs.hadamard import padded
from fedsim.errors import PrivacyError
from fedsim.fields.privacy.counting.accountant import (
    by_dp_accounting,
    solve_noise_multiplier,
    spending,
)
from fedsim.fields.privacy.counting.auditing import auditor
from fedsim.fields.privacy.counting.distributed import cohort_size
from fedsim.fields.privacy.counting.gaussian import adaptive_noise_split
from fedsim.fields.privacy.counting.records import DISTRIBUTED
from fedsim.fields.privacy.counting.refusals import require_accountable
from fedsim.fields.privacy.counting.strategies import Buffers, optimised_buffers, pattern_of
from fedsim.fields.privacy.keys import AdaptiveClip
from fedsim.fields.privacy.private_mean import COUNTS_PER_STD
from fedsim.fields.privacy.samples import samples_spent
from fedsim.fleet import Cohort
from fedsim.fleet.selection import Population
from fedsim.limits import LEAST_NOISE
from fedsim.scenario.reader import KeyPath
from fedsim.scenario.scenario import Scenario

PACKAGE = __name__.rpartition(".")[0]  # by which plans have the budget

# Relative precision to which z is solved for an ε: six digits.
PRECISION = 2e-5

# Sections by which ε is counted: nothing is counted where one of them was refused.
COUNTED = (
    "privacy",
    "cohort",
    "schedule",
    "fleet",
    "client",
    "model",
    "wire",
    "server",
    "on_nonfinite",
)


class Budget(NamedTuple):
    """What the clients of a run and their samples may spend.

    Attributes:
      spent: rounds -> ε that they spend; None: not known yet, or clients are not private.
      counted_again: rounds -> the same by dp-accounting; None: it counts anyway, or cannot.
      samples_spent: (steps, samples) of a client -> ε of its samples; None without `client.dp_sgd`.
    """

    of_clients: bool
    canaries: int
    samples_spent: Callable[[int, int], float] | None
    spent: Callable[[int], float] | None = None
    counted_again: Callable[[int], float] | None = None


def solve_privacy(facts: Facts) -> None:
    """Fill in what the section `privacy` leaves open, and plan what its rounds spend."""
    if facts.spec.privacy is None or facts.refused(*COUNTED):
        return
    known = (facts.maybe("cohort"), facts.maybe("eligible"), facts.maybe("travelling"))
    reads = [("privacy",), ("cohort",), ("schedule",), ("rounds",)]
    section = facts.attempt(resolved_privacy, facts.scenario, *known, reads=reads)
    if section is UNKNOWN:
        return
    spec = facts.spec.model_copy(update={"privacy": section})
    facts.scenario = facts.scenario._replace(spec=spec)
    cohort = facts.cohort.sampling
    spent = spending(section, cohort, clients=facts.eligible, rounds=spec.rounds)
    counted_again = None
    if section.noise_multiplier > 0 and spec.rounds > 0:
        counted_again = by_dp_accounting(
            section, cohort, clients=facts.eligible, rounds=spec.rounds
        )
    inputs = facts.plan_inputs
    if inputs.of_fields is not UNKNOWN:
        budget = inputs.of_fields[PACKAGE]._replace(spent=spent, counted_again=counted_again)
        of_fields = {**inputs.of_fields, PACKAGE: budget}
        facts.learn(plan_inputs=inputs._replace(of_fields=of_fields))


def planned_budget(facts: Facts) -> Budget | None:
    """Return the budget of a scenario before its noise is solved for; None: nothing is private."""
    privacy = facts.spec.privacy
    if privacy is None and facts.spec.client.dp_sgd is None:
        return None
    audit = None if privacy is None else privacy.audit
    return Budget(
        of_clients=privacy is not None,
        canaries=0 if audit is None else audit.canaries,
        samples_spent=samples_spent(facts.scenario, facts.maybe("local")),
    )


def resolved_privacy(scenario: Scenario, cohort: Cohort, eligible: int, travelling: Any) -> Any:
    """Return the section `privacy` with everything filled in, and z solved where it has an ε.

    Args:
      eligible: clients that can be drawn, under the seed that has the fewest.
      travelling: shapes of the variables that a client sends.
    """
    parameters = sum(leaf.size for leaf in jax.tree.leaves(travelling["params"]))
    section = scenario.spec.privacy
    if section.noise_multiplier is None and section.epsilon is None:
        text = "needs noise_multiplier, or an epsilon that it is solved for"
        raise scenario.error(("privacy",), f"{text}; write one of them")
    try:
        require_accountable(section, cohort.sampling)
        _require_audit(section, cohort, eligible)
        section = _with_counts(section, cohort, eligible, parameters)
        section = _with_matrix(scenario, section, cohort, eligible)
        section = _solved(scenario, section, cohort, eligible)
        _require_room_for_count(section, cohort, eligible)
        _spent(section, cohort, eligible, scenario.spec.rounds)
    except PrivacyError as error:
        raise scenario.error(_path_of(error), str(error)) from error
    return section


def _require_audit(section: Any, cohort: Cohort, eligible: int) -> None:
    """Refuse an audit that knows too much, that has no clients, or that nothing counts."""
    if section.audit is None:
        return
    auditor()
    canaries = section.audit.canaries
    if canaries > eligible:
        text = f"is {canaries}, and {eligible} clients can take part; write at most {eligible}"
        raise PrivacyError("audit.canaries", text)
    if section.mechanism.kind in DISTRIBUTED:
        text = "canaries send their updates to a rule that sees rows, and here the server sees sums"
        raise PrivacyError("audit", f"{text}; use the mechanism gaussian, or remove audit")
    assert cohort.sampling is not None
    if cohort.sampling.kind == "uniform":
        # The audit knows who else came, and would know how many canaries did.
        text = "a sample of fixed size tells by its other clients how many canaries it has"
        raise PrivacyError("audit", f"{text}; use the cohort poisson, or remove audit")


def _path_of(error: PrivacyError) -> KeyPath:
    """Return the path of the key that an accountant blames."""
    if error.where == "cohort":
        return ("cohort",)
    return ("privacy", *filter(None, error.where.split(".")))


def _with_counts(section: Any, cohort: Cohort, eligible: int, parameters: int) -> Any:
    """Return the section with the shares of its noise and their dimension, if clients add it."""
    mechanism = section.mechanism
    if mechanism.kind not in DISTRIBUTED:
        return section
    assert cohort.sampling is not None
    dimension = padded(parameters)
    if mechanism.dimension not in (None, dimension):
        text = f"is {mechanism.dimension}, and the model has {parameters} parameters that travel"
        raise PrivacyError("mechanism.dimension", f"{text}, padded to {dimension}; remove it")
    shares = mechanism.shares or cohort_size(cohort.sampling, eligible)
    counts = {"dimension": dimension, "shares": shares}
    return section.model_copy(update={"mechanism": mechanism.model_copy(update=counts)})


def _with_matrix(scenario: Scenario, section: Any, cohort: Cohort, eligible: int) -> Any:
    """Return the section with the matrix of its mechanism `blt`, optimised for the planned rounds.

    A matrix that is given, as a resolved scenario has it, is taken as it is.
    """
    mechanism = section.mechanism
    rounds = scenario.spec.rounds
    if mechanism.kind != "blt" or mechanism.decay is not None or mechanism.scale is not None:
        return section
    if rounds > 0:
        assert cohort.sampling is not None
        gap, most = pattern_of(cohort.sampling, eligible)
        buffers = optimised_buffers(mechanism.buffers, rounds, gap, most)
    else:
        nothing = (0.0,) * mechanism.buffers
        buffers = Buffers(decay=nothing, scale=nothing)
    matrix = {"decay": list(buffers.decay), "scale": list(buffers.scale)}
    return section.model_copy(update={"mechanism": mechanism.model_copy(update=matrix)})


def _solved(scenario: Scenario, section: Any, cohort: Cohort, eligible: int) -> Any:
    """Return the section with the noise multiplier that its ε asks for."""
    if section.epsilon is None:
        return section
    rounds = scenario.spec.rounds
    z = section.noise_multiplier
    if z is None:
        z = solve_noise_multiplier(section, cohort.sampling, clients=eligible, rounds=rounds)
        return section.model_copy(update={"noise_multiplier": z})

    # A resolved scenario has both, and is a scenario as well.
    enough = _spent(section, cohort, eligible, rounds)
    too_much = math.inf
    if z * (1 - PRECISION) >= LEAST_NOISE:
        less = section.model_copy(update={"noise_multiplier": z * (1 - PRECISION)})
        too_much = _spent(less, cohort, eligible, rounds)
    if rounds > 0 and not enough <= section.epsilon < too_much:
        text = f"is {z:g}, and epsilon {section.epsilon:g} asks for another over {rounds} rounds"
        path = ("privacy", "noise_multiplier")
        raise scenario.error(path, f"{text}; remove one of the two")
    return section


def _require_room_for_count(section: Any, cohort: Cohort, eligible: int) -> None:
    """Refuse an adaptive clip whose count alone spends more than z allows for all."""
    clip = section.clip
    if isinstance(clip, AdaptiveClip):
        count_std = clip.count_std or _expected(cohort, eligible) / COUNTS_PER_STD
        adaptive_noise_split(section.noise_multiplier, count_std)


def _expected(cohort: Cohort, eligible: int) -> float:
    """Return how many of the clients that can be drawn a round draws on average."""
    assert cohort.share is not None
    population = Population(np.arange(eligible), np.ones(eligible))
    return float(np.broadcast_to(cohort.share(population), eligible).sum())


def _spent(section: Any, cohort: Cohort, eligible: int, rounds: int) -> float:
    return spending(section, cohort.sampling, clients=eligible, rounds=rounds)(rounds)
