"""The tables of a run that has ended: its summary, its clients and its partition."""

from typing import Any

import numpy as np

from fedsim.data import Federation
from fedsim.disk.tables import LISTED, Record
from fedsim.engine.final import client_scores, scored_clients
from fedsim.engine.personal import personal_scores
from fedsim.engine.run import Run
from fedsim.fleet.timelines import Timeline, timeline
from fedsim.runs.journal import Journal
from fedsim.study.label_skew import label_counts, partition_rows
from fedsim.study.summary import fairness, summarise


def add_final_tables(journal: Journal, run: Run, who: Record, evaluate: Any, several: bool) -> None:
    """The tables of a run that has ended, into its journal.

    Args:
      journal: holds its rows.
      run: the run.
      who: method and seed.
      evaluate: the scenario's section.
      several: whether there are more seeds, so that partitions have to be told apart.
    """
    rounds, clients = journal.records["rounds"], _clients(run, who["seed"], evaluate.clients)
    line = summarise(
        rounds, evaluate.metric, evaluate.last, evaluate.target, run.status, run.reason
    )
    journal.add("summary", {**who, **line, **fairness(clients, run.status)})
    journal.add("clients", {**who, **clients})
    if run.plan.timetable.asynchronous:
        ages = np.flatnonzero(run.ages)
        journal.add("staleness", {**who, "age": ages.tolist(), "messages": run.ages[ages].tolist()})
    if (first := timeline(run.plan)) is not None:
        journal.add("machines", {**who, **_columns(first, run.plan.federation)})
    seed = {"seed": who["seed"]} if several else {}
    journal.add("partition", {**seed, **_partition(run.plan.federation, run.joined)})


def _columns(first: Timeline, federation: Federation) -> Record:
    """The table of a timeline; a step of the server that takes the message of a flight may be after it."""
    table: Record = {name: column.tolist() for name, column in first._asdict().items()}
    closes = [None if end != end else end for end in table["closes"]]
    return {**table, "client": federation.client_names[first.client].tolist(), "closes": closes}


def _clients(run: Run, seed: int, scored: int | str) -> Record:
    federation = run.plan.federation
    listed = _listed(federation, run.joined)
    joined = run.joined[listed]
    table: Record = {
        "client": federation.client_names[listed].tolist(),
        "samples": run.plan.sizes[listed].tolist(),
    }
    if federation.classes and not federation.per_token:
        table["classes"] = (federation.label_counts() > 0).sum(1)[listed].tolist()
    table |= {"rounds_joined": joined.tolist(), "bytes_up": run.sent[listed].tolist()}
    if run.plan.machines.fleet.selective:
        late, left = run.late[listed], run.left[listed]
        table["rounds_offered"] = (joined + late + left).tolist()
        table |= {"rounds_late": late.tolist(), "rounds_left": left.tolist()}
    table |= {"bytes_down": run.downlink.received[listed].tolist()}
    chosen = scored_clients(federation, seed, scored)
    for of, (means, labels) in {
        "global": client_scores(run, chosen),
        "personal": personal_scores(run, chosen),
    }.items():
        for name, values in means.items():
            pairs = zip(values[listed].tolist(), labels[listed].tolist(), strict=True)
            table[f"{of}_{name}"] = [value if n else None for value, n in pairs]
    return table


def _partition(federation: Federation, joined: np.ndarray) -> Record:
    listed, counts = _listed(federation, joined), label_counts(federation)
    skews = {name: numbers[listed] for name, numbers in federation.skews.items()}
    return partition_rows(
        counts._replace(clients=counts.clients[listed], samples=counts.samples[listed]), skews
    )


def _listed(federation: Federation, joined: np.ndarray) -> np.ndarray:
    """Clients that tables list: all, or of more than LISTED those that ever took part."""
    return np.arange(federation.N) if federation.N <= LISTED else np.flatnonzero(joined)
