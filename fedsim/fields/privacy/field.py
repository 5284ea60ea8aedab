"""What privacy adds to how a scenario is checked and built."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble.experiment import Experiment
from fedsim.assemble.facts import Facts
from fedsim.assemble.links import factory_of
from fedsim.assemble.plans import of_first_seed
from fedsim.assemble.problems import UNKNOWN
from fedsim.assemble.section_keys import HashableSection
from fedsim.engine.lanes import Private
from fedsim.engine.meters import Meter
from fedsim.field import Field, RunSetting, SeedSetting, ServerParts, ServerSetting
from fedsim.fields.privacy import checks, samples
from fedsim.fields.privacy.budget import PACKAGE, Budget, planned_budget, solve_privacy
from fedsim.fields.privacy.dp_sgd import dp_sgd
from fedsim.fields.privacy.mechanism import Mechanism
from fedsim.fields.privacy.meters import Epsilon, SampleEpsilon
from fedsim.fields.privacy.noise_notes import noise_notes
from fedsim.fields.privacy.private_mean import Bound, private_mean, private_sum
from fedsim.fleet.plan import Conditions
from fedsim.fleet.streams import Stream, generator


class PrivacyKey(NamedTuple):
    """What decides the noise of a private run, as a key."""

    bound: Bound
    noise_multiplier: float
    mechanism: HashableSection
    audited: bool


def _components(facts: Facts) -> None:
    """Count on the clients that are drawn, and cut batches where `client.dp_sgd` says so."""
    if facts.spec.privacy is not None:
        facts.learn(expects_drawn=True)
    section = facts.spec.client.dp_sgd
    local = facts.maybe("local")
    if section is None or section.cap is None or local is UNKNOWN or local.cap is None:
        return
    facts.learn(local=local._replace(cap=section.cap))


def _gradients(section: Any) -> Private | None:
    """`client.dp_sgd` of a client section."""
    keys = section.dp_sgd
    if keys is None:
        return None
    return dp_sgd(
        clip=keys.clip,
        noise_multiplier=keys.noise_multiplier,
        expected=None if section.batch == "full" else section.batch,
        microbatch=keys.microbatch,
    )


def _server(spec: Any) -> Hashable:
    """The section `privacy`, whose noise multiplier is known, as a key."""
    section = spec.privacy
    if section is None:
        return None
    clip = section.clip
    bound = Bound(clip) if isinstance(clip, float) else Bound(**clip.model_dump(exclude={"kind"}))
    return PrivacyKey(
        bound=bound,
        noise_multiplier=section.noise_multiplier,
        mechanism=HashableSection(section.mechanism),
        audited=section.audit is not None,
    )


def _serves(parts: ServerParts, key: Any, setting: ServerSetting) -> ServerParts:
    """Clip and add noise: by the rule in place of the mean, or at the end of the wire."""
    if key is None:
        return parts
    mechanism: Mechanism = factory_of(key.mechanism.section)()
    if mechanism.wire is not None:
        further = mechanism.wire(key.bound.initial, key.noise_multiplier)
        rule = private_sum(key.bound.initial, mechanism.least)
        return parts._replace(wire=[*parts.wire, *further], rule=rule)

    rule = private_mean(
        bound=key.bound,
        noise_multiplier=key.noise_multiplier,
        mechanism=mechanism,
        width=setting.width,
        audited=key.audited,
    )
    return parts._replace(rule=rule)


def draw_canaries(
    count: int, eligible: np.ndarray, N: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw canaries among the eligible ids, and toss a fair coin for each.

    The coins are independent, as the bound of the audit supposes.

    Returns:
      Masks `[N]` of those that take part like any other client, and send what the audit looks for,
      and of those that take part in no round, as if they were no clients.
    """
    rng = generator(seed, Stream.CANARIES)
    drawn = rng.choice(eligible, count, replace=False)
    is_within = rng.random(count) < 0.5

    within = np.zeros(N, bool)
    within[drawn[is_within]] = True
    without = np.zeros(N, bool)
    without[drawn[~is_within]] = True
    return within, without


def _conditions(conditions: Conditions, setting: SeedSetting) -> Conditions:
    """Count on the clients that are drawn, and draw canaries."""
    budget: Budget = setting.planned
    if not budget.of_clients:
        return conditions
    conditions = conditions._replace(expects_drawn=True)
    if not budget.canaries:
        return conditions
    federation = setting.federation
    present = federation.sizes > 0
    if conditions.absent is not None:
        present &= ~conditions.absent
    eligible = np.flatnonzero(present)
    within, without = draw_canaries(budget.canaries, eligible, federation.N, setting.seed)
    return conditions._replace(marked=within, in_vain=without)


def _meters(setting: RunSetting) -> list[Meter]:
    budget: Budget | None = setting.planned
    if budget is None:
        return []
    meters: list[Meter] = []
    if budget.spent is not None:
        meters.append(Epsilon(budget.spent))
    if budget.samples_spent is not None:
        meters.append(SampleEpsilon(budget.samples_spent, setting.plan.federation.sizes))
    return meters


def _forecast(experiment: Experiment, rounds: Sequence[Any]) -> dict[str, Any]:
    """What all rounds spend, and the sections with what was solved for."""
    budget: Budget | None = experiment.of_fields.get(PACKAGE)
    if budget is None:
        return {}
    told = {}
    sections = experiment.scenario.resolved()
    if budget.spent is not None:
        told["epsilon"] = budget.spent(experiment.scenario.spec.rounds)
        told["privacy"] = sections["privacy"]
    if budget.samples_spent is not None:
        told["samples_epsilon"] = _epsilon_of_samples(experiment, budget.samples_spent)
        told["dp_sgd"] = sections["client"]["dp_sgd"]
    return told


def _epsilon_of_samples(
    experiment: Experiment, spent: Callable[[int, int], float]
) -> dict[str, Any]:
    """Return what DP-SGD spends on a client that it protects little.

    It is the client with the largest q √T, of T steps on batches with a share q of its samples: for
    small q, ε grows with it.

    Returns:
      `client`, its number of `samples`, and their `epsilon` if it takes part in all rounds.
    """
    plan = of_first_seed(experiment.plans)
    sizes = plan.sizes[plan.eligible]
    steps = experiment.scenario.spec.rounds * plan.steps[plan.eligible]
    shares = np.array([plan.local.chance(n) for n in sizes.tolist()])
    least = int((shares * np.sqrt(steps)).argmax())
    number = int(sizes[least])
    return {
        "client": str(plan.federation.client_names[plan.eligible[least]]),
        "samples": number,
        "epsilon": spent(int(steps[least]), number),
    }


FIELD = Field(
    voices=[checks.privacy_voice, samples.noise_voice],
    calculations=[
        checks.private_numbers,
        checks.private_mean,
        checks.unknown_mechanism,
        checks.second_codec,
        checks.local_message,
        samples.unreached_cap,
        samples.private_batches,
        samples.private_gradient,
    ],
    components=_components,
    solved_before_model=[samples.solve_noise],
    solved_last=[solve_privacy, samples.count_gradients],
    gradients=_gradients,
    server=_server,
    serves=_serves,
    planned=planned_budget,
    conditions=_conditions,
    passed=checks.with_noised_codec,
    meters=_meters,
    sections={
        "client.dp_sgd": {"client": {"dp_sgd": {"clip": 1, "noise_multiplier": 1, "delta": 1e-5}}},
        "privacy": {"privacy": {"clip": 1, "noise_multiplier": 1, "delta": 1e-5}},
    },
    forecast=_forecast,
    remarks=noise_notes,
)
