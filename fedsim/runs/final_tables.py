"""The tables of a run that has ended: its summary, its clients and its partition."""

from typing import Any

import numpy as np

from fedsim.disk.tables import MAX_LISTED_CLIENTS, Record
from fedsim.engine.meters.traffic import Traffic
from fedsim.engine.run import Run
from fedsim.engine.scoring.clients import ClientScores, final_scores
from fedsim.engine.scoring.scorer import end_of
from fedsim.installed import offered
from fedsim.runs.journal import Journal
from fedsim.study.label_skew import label_counts, partition_rows
from fedsim.study.summary import columns_of_clients, columns_of_fields, own_score, summarise
from fedsim.types.client import POOLED


def add_final_tables(journal: Journal, run: Run, who: Record, spec: Any) -> None:
    """Add the tables of a run that has ended to its journal."""
    evaluate = spec.evaluate
    scores = final_scores(end_of(run), evaluate.clients)
    clients = _clients(run, scores)
    line = summarise(
        journal.records["rounds"],
        evaluate.metric,
        evaluate.last,
        evaluate.target,
        run.status,
        run.reason,
        run.program.server.client.not_federated,
    )
    listed = _listed(run)
    samples = {model: counts[listed] for model, (_, counts) in scores.items()}
    line |= columns_of_clients(clients, samples, run.status, evaluate.metric)
    if run.plan.federation.unpooled.tests_own:
        line |= own_score(clients, run.status, line["metric"] or evaluate.metric)
    tables: dict[str, Record] = {}
    for tables_of in offered("ENDED", "tables"):
        tables |= tables_of(run, spec)
    for name, columns in tables.items():
        journal.add(name, {**who, **columns})
    stacks = {name: [columns] for name, columns in {"clients": clients, **tables}.items()}
    stacks["rounds"] = journal.records["rounds"]
    line |= columns_of_fields(stacks, spec.model_dump(mode="json"))
    if run.status == "diverged":  # whatever a field makes of earlier rounds
        line["final"] = None
    journal.add("summary", {**who, **line})
    journal.add("clients", {**who, **clients})
    for meter in run.meters:
        for name, columns in meter.tables().items():
            journal.add(name, {**who, **columns})

    several = len(spec.seeds) > 1  # so that partitions need a column for them
    seed = {"seed": who["seed"]} if several else {}
    journal.add("partition", {**seed, **_partition(run)})


def _clients(run: Run, scores: dict[str, ClientScores]) -> Record:
    """The columns of `clients.csv`."""
    end = end_of(run)
    federation = run.plan.federation.unpooled
    listed = _listed(run)
    table: Record = {
        "client": federation.client_names[listed].tolist(),
        "samples": federation.sizes[listed].tolist(),
    }
    if federation.classes and not federation.per_token:
        classes = (federation.label_counts() > 0).sum(axis=1)  # [N, C] -> [N]
        table["classes"] = classes[listed].tolist()

    for meter in run.meters:
        table |= meter.at_end(end, listed)
        table |= meter.of_clients(listed)

    measures = run.program.measures
    for model, (means, label_numbers) in scores.items():
        for name, values in means.items():
            has_score = label_numbers > 0
            if measures is not None and name in measures.names:
                has_score &= ~np.isnan(values)
            cells = zip(values[listed].tolist(), has_score[listed], strict=True)
            table[f"{model}_{name}"] = [value if has else None for value, has in cells]
    return table


def _partition(run: Run) -> Record:
    """The columns of `partition.csv`."""
    federation = run.plan.federation.unpooled
    listed = _listed(run)
    counts = label_counts(federation)
    listed_counts = counts._replace(
        clients=counts.clients[listed],
        samples=counts.samples[listed],
    )
    skews = {name: values[listed] for name, values in federation.skews.items()}
    return partition_rows(listed_counts, skews)


def _listed(run: Run) -> np.ndarray:
    """The clients in the tables: all; of too many to list, those that ever took part.

    The samples of all clients take part in pooled training.
    """
    federation = run.plan.federation.unpooled
    if federation.N <= MAX_LISTED_CLIENTS:
        return np.arange(federation.N)
    pooled = run.program.server.client.not_federated == POOLED
    return np.flatnonzero(federation.sizes if pooled else run.meter(Traffic).joined)
