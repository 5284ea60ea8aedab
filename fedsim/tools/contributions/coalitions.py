"""The models that a server would have made of the updates of some of a round's clients alone.

Stages, rule, steps and optimisers are the run's own, on rows of which those of other clients have
not arrived. What a server remembers of earlier rounds has no part in it.
"""

import copy
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool

from fedsim import tree
from fedsim.compose import plain_updates
from fedsim.engine.close import close_rows
from fedsim.engine.frozen import with_frozen
from fedsim.engine.jitted import jitted
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.recording import RoundUpdates
from fedsim.engine.run import Run
from fedsim.engine.scoring.rows import metrics, scores, scores_by_row
from fedsim.engine.server_records import ServerState, contexts_at
from fedsim.tree import Tree
from fedsim.types import Shared, Updates

CHUNK = 16  # coalitions whose models are made together
PADDING = 8  # rows of a round are filled up to a multiple of it, so that few shapes are compiled


class Coalitions:
    """Models of coalitions of a run's clients, and their scores.

    Args:
      samples: the set that models are scored on, `test` or `validation`.
    """

    def __init__(self, run: Run, samples: str, metric: str):
        self.run = run
        self.server = run.program.server
        self.pipeline = _behind_wire(self.server.pipeline)
        self.start = run.server
        self.samples = samples
        self.metric = metric

    def game(self, updates: RoundUpdates) -> Callable[[np.ndarray], np.ndarray]:
        """Return what values coalitions in a round: a mask `[n, K]` of its clients -> scores `[n]`.

        The empty coalition has the score of the model before the round, and so has one with fewer
        clients than the rule needs.
        """
        round_rows = self._rows(updates)
        K = len(updates.clients)
        rows = len(round_rows[0].arrived)

        def game(members: np.ndarray) -> np.ndarray:
            values: list[float] = []
            for first in range(0, len(members), CHUNK):
                chunk = members[first : first + CHUNK]
                mask: Any = np.zeros((CHUNK, rows), bool)
                mask[: len(chunk), :K] = chunk
                models = tree.unstack(self.models(*round_rows, mask))
                values += self._scores(models[: len(chunk)])
            return np.array(values)

        return game

    @jitted
    def models(
        self,
        updates: Updates,
        before: Shared,
        round: int,
        of_rows: dict[str, Any],
        members: Bool[Array, "n rows"],
    ) -> Shared:
        """Return `params` and `stats` after a round in which only some rows arrived `[n, ...]`.

        Args:
          of_rows: what else is known of the rows, as of `contexts_at`.
          members: the rows of every coalition.
        """
        server = ServerState(before, self.start.state)
        start = self.run.round_start(server, round)
        contexts = contexts_at(self.pipeline, start, **of_rows)

        def model(members: Bool[Array, " rows"]) -> Shared:
            arrived = updates._replace(arrived=updates.arrived & members)
            closed = close_rows(self.pipeline, self.server.optimiser, server, arrived, contexts)
            return {name: closed.server.shared[name] for name in ("params", "stats")}

        return jax.vmap(model)(members)

    def _rows(self, updates: RoundUpdates) -> tuple[Updates, Shared, int, dict[str, Any]]:
        """Return what `models` reads of a round, filled up with rows that have not arrived."""
        plan = self.run.plan
        K = len(updates.clients)
        padding = -K % PADDING

        def filled(leaf: np.ndarray) -> Any:  # `Updates` annotates its fields as JAX arrays
            return np.pad(leaf, [(0, padding)] + [(0, 0)] * (leaf.ndim - 1))

        delta, stats, columns = jax.tree.map(
            filled, (updates.updates, updates.stats, updates.columns)
        )
        rows = plain_updates(delta, columns["arrived"], columns["samples"])
        rows = rows._replace(stats=stats, **columns)
        before = {
            **self.start.shared,
            "params": updates.params_before,
            "stats": updates.stats_before,
        }
        of_rows = {
            "lr": self.run.program.dtype.type(plan.local.lr(updates.round)),
            "ids": filled(updates.clients),
            "malicious": filled(plan.malicious_in(updates.round)[updates.clients]),
        }
        return rows, before, updates.round, of_rows

    def _scores(self, models: list[Tree]) -> list[float]:
        """Return the scores of models, which the device evaluates one after another."""
        run = self.run
        program = run.program
        stacks, n, y = run.scorer.sets[self.samples]
        shown = [with_frozen({**self.start.shared, **model}, run.frozen) for model in models]

        values = []
        for results in scores(program.evaluate, program.evaluation_threads, shown, stacks):
            value = metrics(scores_by_row(results, n), y, program.measures)[self.metric]
            values.append(np.nan if value is None else value)
        return values


def _behind_wire(pipeline: Pipeline) -> Pipeline:
    """Return a pipeline for messages that have passed the wire."""
    behind = copy.copy(pipeline)
    behind.wire = pipeline.wire._replace(apply=lambda updates, state, context: (updates, state, {}))
    behind.aims = False
    return behind


def why_no_coalitions(run: Run) -> str:
    """Return why there are no models of coalitions of a run's clients; empty where there are."""
    server = run.program.server
    pipeline = server.pipeline
    client = server.client
    if run.plan.timetable.asynchronous:
        return "updates of an asynchronous schedule start from several models"
    names = set(pipeline.remembering) & {*pipeline.stage_names}
    if names:
        return f"{min(names)} remembers every client"
    parts = {
        "stages": pipeline.stage_names,
        "rule": [pipeline.rule_name],
        "steps": pipeline.step_names,
        "optimiser": ["an optimiser of the server"],
    }
    for part, labels in parts.items():
        if jax.tree.leaves(run.server.state[part]):
            return f"{labels[0]} remembers earlier rounds"
    unknown = sorted(pipeline.rule.needs - {"expected", "loss"})
    if unknown:
        return f"{pipeline.rule.name} needs more than updates: {unknown[0]}"
    sent = pipeline.shared_params(run.server.shared)
    if jax.tree.structure(sent) != jax.tree.structure(run.server.shared["params"]):
        return "clients keep leaves of the model to themselves"
    if pipeline.rule.noises:
        return "the noise of privacy is in every aggregate"
    if client.travel.part is not None:
        return "clients train parts of the model"
    if client.travel.sends is not None or client.travel.instead is not None:
        return "clients are sent models of their own"
    return ""
