"""What diagnostics add to how a scenario is checked and built."""

import functools

from fedsim.assemble.facts import Facts
from fedsim.assemble.programs import MAX_CACHED, TrainingInputs, made_of, training
from fedsim.assemble.section_keys import HashableSection, hashable_sections
from fedsim.assemble.traits import SILENT, Reason, Voice
from fedsim.engine.pipeline import Pipeline
from fedsim.field import Field, ProgramSetting
from fedsim.fields.diagnostics.deviation import Deviations, Distances
from fedsim.fields.diagnostics.observer import Diagnostics
from fedsim.rules.mean import mean
from fedsim.types import ServerLinks

PATH = ("evaluate", "diagnostics")


def _voice(facts: Facts) -> Voice:
    if not facts.spec.evaluate.diagnostics:
        return SILENT
    text = "diagnostics compare whole updates of one shared model"
    of_graphs = Reason("server", text, "remove diagnostics (consensus is measured anyway)")
    nouns = ("one_model", "whole_messages", "server_leaves", "parameters")
    others = [Reason(noun, text) for noun in nouns]
    return Voice(PATH, "remove diagnostics", [of_graphs, *others], [])


def _observer(setting: ProgramSetting) -> Diagnostics | None:
    server = setting.server
    if not setting.spec.evaluate.diagnostics or server.client.not_federated:
        return None
    return _diagnostics(server.pipeline, setting.inputs, hashable_sections(setting.spec.wire))


@functools.lru_cache(MAX_CACHED)
def _diagnostics(
    pipeline: Pipeline, inputs: TrainingInputs, wire: tuple[HashableSection, ...]
) -> Diagnostics:
    """The observer of all runs of a pipeline, whatever optimisers follow."""
    # A wire with an attack that knows the defence depends on this pipeline's stages and rule.
    if pipeline.aims:
        deviations = Deviations(pipeline)
    else:
        deviations = _deviations(inputs, wire, pipeline.drops_nonfinite, pipeline.width)
    return Diagnostics(Distances(pipeline, deviations))


@functools.lru_cache(MAX_CACHED)
def _deviations(
    inputs: TrainingInputs, wire: tuple[HashableSection, ...], drop: bool, width: int | None
) -> Deviations:
    """The program that measures rows behind a wire; with the plain mean, whatever rule follows."""
    trained = training(inputs)
    pipeline = Pipeline(
        wire=made_of(wire),
        server=ServerLinks(stages=[], rule=mean(), steps=[]),
        client=trained.client,
        task=trained.task,
        drops_nonfinite=drop,
        width=width,
    )
    return Deviations(pipeline)


FIELD = Field(
    voices=[_voice],
    observer=_observer,
    sections={"evaluate.diagnostics": {"evaluate": {"diagnostics": True}}},
)
