"""Which columns of `rounds.csv` a scenario has, as far as that is known before it is run."""

from fedsim.assemble.facts import Facts
from fedsim.assemble.fields import fields, first_answer
from fedsim.disk.tables import OF_CLIENTS, ROUNDS
from fedsim.engine.scoring.rows import MEASURED
from fedsim.fields.stopping.meter import deciding_metric
from fedsim.types import Loss
from fedsim.types.client import ALONE

OF_SOMEBODY = ("client_", "personal_")  # begin the names of scores of clients


def metric_of(facts: Facts) -> str:
    """Return the column that decides.

    Raises:
      NotKnownError: where samples or loss were refused.
    """
    accurate = has_accuracy(facts.classes, facts.loss)
    return deciding_metric(facts.spec.stop, facts.spec.evaluate.metric, accurate)


def has_accuracy(classes: int, loss: Loss) -> bool:
    """Return whether samples have classes, or a set of labels each."""
    return bool(classes) or "sets" in loss.targets


def is_column(metric: str, facts: Facts) -> bool:
    """Return whether `rounds.csv` may have a column: what links report is known in a run alone.

    Raises:
      NotKnownError: as `scored_columns`.
    """
    if metric in scored_columns(facts):
        return True
    _, _, reported = metric.partition("/")
    if reported:
        return not reported.startswith(MEASURED)
    return metric in ROUNDS and not metric.startswith((*MEASURED, *OF_SOMEBODY))


def scored_columns(facts: Facts) -> list[str]:
    """Return the columns in which models have a score.

    Raises:
      NotKnownError: where samples, loss or client method were refused.
    """
    accurate = has_accuracy(facts.classes, facts.loss)
    of_sets = ["loss", *(["accuracy"] if accurate else ["r2", "mae"])]
    if facts.per_token:
        of_sets.append("perplexity")
    of_clients = ["loss", "accuracy" if accurate else "mae"]
    federation = facts.partitioned
    measures = first_answer(lambda field: field.measures(facts.spec, federation.label_names))
    measured = [] if measures is None else [*measures.names]

    columns = ["train_loss"]
    if facts.client.server != ALONE:
        sets = [name for name in MEASURED if len(federation.scored[name].y)]
        beside = [f"{name}/" for field in fields().values() for name in field.beside(facts.spec)]
        for prefix in ("", *beside):
            for name in sets:
                columns += [f"{prefix}{name}_{score}" for score in (*of_sets, *measured)]
    if facts.spec.evaluate.personal:
        for whose in OF_SOMEBODY:
            for score in (*of_clients, *measured):
                columns += [f"{whose}{score}_{share}" for share in OF_CLIENTS]
    return columns
