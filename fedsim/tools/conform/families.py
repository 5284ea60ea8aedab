"""The laws of every family that has some."""

from fedsim.tools.conform import codecs, cohorts, partitions, rules, stages
from fedsim.tools.conform.findings import Law
from fedsim.tools.conform.runs import engine_laws

LAWS: dict[str, tuple[Law, ...]] = {
    "client": tuple(engine_laws()),
    "rule": (*rules.LAWS, *engine_laws("float64")),
    "stage": (*stages.STAGES, *engine_laws("float64")),
    "attack": (*stages.ATTACKS, *engine_laws("finite_runs", "nonfinite_message")),
    "codec": (*codecs.LAWS, *engine_laws()),
    "cohort": (*cohorts.LAWS, *engine_laws("memory_of_absent_clients")),
    "partition": partitions.LAWS,
    "aggregate_stage": tuple(engine_laws()),
    "optimizer": tuple(engine_laws()),
    "method": tuple(engine_laws()),
}
