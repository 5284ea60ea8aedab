"""Who speaks for what in a scenario, and what must hold besides."""

from collections.abc import Iterator

from fedsim.assemble import (
    client_shares,
    feasibility,
    link_traits,
    losses,
    method_traits,
    model,
    section_traits,
    wire,
)
from fedsim.assemble.facts import Facts, NotKnownError
from fedsim.assemble.fields import of_all
from fedsim.assemble.problems import Findings
from fedsim.assemble.traits import Voice, conflicts
from fedsim.field import Calculation, Speaker

VOICES: list[Speaker] = [
    method_traits.method_voice,
    method_traits.row_voice,
    method_traits.optimizer_voice,
    method_traits.clip_voice,
    method_traits.leaves_voice,
    method_traits.steps_voice,
    section_traits.server_voice,
    section_traits.cohort_voice,
    section_traits.message_voices,
    section_traits.record_voices,
    section_traits.fleet_voices,
    section_traits.samples_voice,
    section_traits.model_voice,
    section_traits.outputs_voice,
    losses.loss_voice,
    section_traits.stats_voice,
    link_traits.link_voices,
    feasibility.expected_voice,
]


def misfits(facts: Facts) -> Findings:
    """What one part of the scenario needs and another takes away, of those that are known."""
    return conflicts(list(heard(facts)))


def heard(facts: Facts) -> Iterator[Voice]:
    """The voices of what is known."""
    for speak in [*VOICES, *of_all(lambda field: field.voices)]:
        try:
            spoken = speak(facts)
            yield from [spoken] if isinstance(spoken, Voice) else list(spoken)
        except NotKnownError:
            pass


# What must hold between numbers; each is looked at once, as soon as what it reads is known.
CALCULATIONS: list[Calculation] = [
    feasibility.unscored_clients,
    feasibility.unknown_needs,
    feasibility.missing_needs,
    feasibility.unknown_columns,
    feasibility.foreign_metric,
    feasibility.idle_keys,
    feasibility.absent_of_pooled,
    feasibility.unknown_clients,
    feasibility.unknown_members,
    feasibility.large_cohort,
    feasibility.small_cohort,
    feasibility.too_many_rows,
    feasibility.wrong_partners,
    feasibility.unknown_groups,
    feasibility.unknown_probabilities,
    feasibility.unreached_commits,
    client_shares.shares_of_nobody,
    wire.second_codec,
    model.short_batches,
    feasibility.poisson_keys,
]


def calculations() -> list[Calculation]:
    """Return all calculations, those of fields last."""
    return [*CALCULATIONS, *of_all(lambda field: field.calculations)]


def solve_before_model(facts: Facts) -> None:
    """Fill in keys before the model is made."""
    for solve in of_all(lambda field: field.solved_before_model):
        solve(facts)


def solve_last(facts: Facts) -> None:
    """Fill in keys once everything else is known."""
    for solve in of_all(lambda field: field.solved_last):
        solve(facts)
