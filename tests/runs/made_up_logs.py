"""Logs of runs that were cut off anywhere, with made-up numbers."""

import json
import random

import numpy as np

from fedsim.disk.checkpoint import Snapshot
from fedsim.runs import directory
from fedsim.runs.commits import LOG
from fedsim.runs.filenames import label_of, run_files_of
from fedsim.runs.journal import Journal
from fedsim.study.summary import summarise

ROUNDS = 2
ENDED = ROUNDS + 2  # of a log: rows of the rounds 0, 1 and 2, then the tables of the end


def log_of(who, seed):
    """The rows of a run by table, as it would have written them, with made-up numbers."""
    rng = random.Random(f"{who} {seed}")
    first = {**who, "seed": seed}
    rounds, timing = [], []
    for r in range(ROUNDS + 1):
        loss = rng.random() if r else None
        scores = {"train_loss": loss, "test_loss": rng.random(), "test_accuracy": rng.random()}
        sent = {"virtual_seconds": float(r), "bytes_up": 100 * r, "bytes_down": 100 * r}
        rounds.append({**first, "round": r, **sent, **scores, "validation_accuracy": rng.random()})
        seconds = {"wall_seconds": r + 1.0, "compile_seconds": 0.5}
        timing.append({**first, "round": r, **seconds, "steps_per_second": 9.0})
    counts = {"samples": [5, 7], "rounds_joined": [1, 2]}
    clients = {"client": [0, 1], **counts, "global_accuracy": [0.5, 0.6]}
    partition = {"seed": seed, "client": [0, 1], "label": [0, 1], "samples": [5, 7]}
    end = {**first, **summarise(rounds, "test_accuracy", 10, 0.5, "done", "")}
    ends = {"summary": end, "clients": {**first, **clients}, "partition": partition}
    return rounds, timing, ends


def write_log(path, who, seed, entries):
    """The journal of a run up to this many entries, with half a line after the last commit."""
    if not entries:
        return
    rounds, timing, ends = log_of(who, seed)
    folder = run_files_of(path, directory.read_record(path)).folder(label_of(who), seed)
    folder.mkdir(parents=True)
    journal = Journal(folder, {})
    rows = min(entries, ROUNDS + 1)
    journal.add("rounds", *rounds[:rows])
    journal.add("timing", *timing[:rows])
    journal.mark()
    for table, row in ends.items() if entries == ENDED else ():
        journal.add(table, row)
    status = "done" if entries == ENDED else "running"
    journal.commit(Snapshot({"round": rows - 1, "status": status}, {"server": np.zeros(2)}), [])
    with (folder / LOG).open("ab") as log:
        log.write(json.dumps(["rounds", rounds[-1]]).encode()[:40])
