"""The tables of a run that has ended: its summary, its clients and its partition."""

import math
from typing import Any

import numpy as np

from fedsim.data import Federation
from fedsim.disk.tables import MAX_LISTED_CLIENTS, Record
from fedsim.engine.bank import models_of
from fedsim.engine.bank_scores import final_choices, scores_of_choices
from fedsim.engine.final import client_scores, scored_clients
from fedsim.engine.moves import NONE, Moves
from fedsim.engine.personal import personal_scores
from fedsim.engine.run import Run
from fedsim.fleet.timelines import Timeline, timeline
from fedsim.runs.journal import Journal
from fedsim.study.clusters import cluster_columns
from fedsim.study.label_skew import label_counts, partition_rows
from fedsim.study.summary import fairness_columns, summarise

GROUPED = "skew/concept_shift"  # the skew that divides the clients into groups


def add_final_tables(journal: Journal, run: Run, who: Record, evaluate: Any, several: bool) -> None:
    """Add the tables of a run that has ended to its journal.

    Args:
      journal: the journal, which has the rows of the run.
      run: the run.
      who: the first columns of its rows: method, variation and seed.
      evaluate: the scenario's section.
      several: whether there are more seeds, so that partitions need a column for them.
    """
    choices = None if run.moves is None else final_choices(run)
    clients = _clients(run, who["seed"], evaluate.clients, choices)
    line = summarise(
        journal.records["rounds"],
        evaluate.metric,
        evaluate.last,
        evaluate.target,
        run.status,
        run.reason,
        run.program.server.client.not_federated,
    )
    line |= {**fairness_columns(clients, run.status), **cluster_columns(clients)}
    journal.add("summary", {**who, **line})
    journal.add("clients", {**who, **clients})
    if run.moves is not None:
        journal.add("clusters", {**who, **_clusters(run.moves, run.plan.federation)})

    if run.plan.timetable.asynchronous:
        ages = np.flatnonzero(run.ages)
        messages = run.ages[ages]
        journal.add("staleness", {**who, "age": ages.tolist(), "messages": messages.tolist()})
    shown = timeline(run.plan)
    if shown is not None:
        journal.add("machines", {**who, **_machines(shown, run.plan.federation)})

    seed = {"seed": who["seed"]} if several else {}
    journal.add("partition", {**seed, **_partition(run)})


def _machines(shown: Timeline, federation: Federation) -> Record:
    """The columns of `machines.csv`; a message in flight has no step of the server yet."""
    table: Record = {name: column.tolist() for name, column in shown._asdict().items()}
    table["client"] = federation.client_names[shown.client].tolist()
    table["closes"] = [None if math.isnan(seconds) else seconds for seconds in table["closes"]]
    return table


def _clusters(moves: Moves, federation: Federation) -> Record:
    """The columns of `clusters.csv`."""
    rounds, clients, clusters = moves.changes
    return {
        "round": rounds.tolist(),
        "client": federation.client_names[clients].tolist(),
        "cluster": clusters.tolist(),
    }


def _clients(run: Run, seed: int, scored: int | str, choices: np.ndarray | None) -> Record:
    """The columns of `clients.csv`.

    Args:
      run: a run that has ended.
      seed: its seed, which draws the clients that are scored.
      scored: as `evaluate.clients`.
      choices: the number of every client's model, of a server with several.
    """
    federation = run.plan.federation.unpooled
    listed = _listed(run)
    table: Record = {
        "client": federation.client_names[listed].tolist(),
        "samples": federation.sizes[listed].tolist(),
    }
    if federation.classes and not federation.per_token:
        classes = (federation.label_counts() > 0).sum(axis=1)  # [N, C] -> [N]
        table["classes"] = classes[listed].tolist()

    if choices is not None:
        numbers = choices[listed].tolist()
        table["cluster"] = [None if number == NONE else number for number in numbers]
        for name, groups in federation.skews.items():
            if name == GROUPED:
                table["group"] = groups[listed].astype(int).tolist()

    # Clients whose samples are pooled take part in no round, and send nothing.
    client = run.program.server.client
    if client.pools is None:
        table |= _participation(run, listed)

    # Without a shared model, or with several, only the clients' own ones are scored.
    chosen = scored_clients(federation, seed, scored)
    if choices is None:
        scores = {"personal": personal_scores(run, chosen)}
    else:
        scores = {"personal": scores_of_choices(run, choices, chosen)}
    if not client.isolated and models_of(client) == 1:
        scores = {"global": client_scores(run, chosen), **scores}
    for model, (means, label_numbers) in scores.items():
        numbers = label_numbers[listed].tolist()
        for name, values in means.items():
            cells = []
            for value, number in zip(values[listed].tolist(), numbers, strict=True):
                cells.append(value if number else None)  # no score without labels
            table[f"{model}_{name}"] = cells
    return table


def _participation(run: Run, listed: np.ndarray) -> Record:
    """How often every listed client took part, and the bytes that it sent and received."""
    joined = run.joined[listed]
    table: Record = {"rounds_joined": joined.tolist(), "bytes_up": run.sent[listed].tolist()}
    if run.plan.machines.fleet.selective:
        late = run.late[listed]
        left = run.left[listed]
        table["rounds_offered"] = (joined + late + left).tolist()
        table["rounds_late"] = late.tolist()
        table["rounds_left"] = left.tolist()
    table["bytes_down"] = run.downlink.received[listed].tolist()
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
    pooled = run.program.server.client.pools is not None
    return np.flatnonzero(federation.sizes if pooled else run.joined)
