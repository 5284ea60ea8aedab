"""Several models at the server, of which a client of a round trains one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedsim import tree
from fedsim.data import Holders
from fedsim.engine.forms.one import OneModel
from fedsim.engine.models import NONE, choice_bytes
from fedsim.engine.scoring.clients import (
    ClientScores,
    client_means,
    row_scores,
    scores_of_set,
    shared_scores,
)
from fedsim.engine.scoring.rows import MEASURED, OUTPUTS, Rows, columns_of_set
from fedsim.engine.scoring.scorer import Moment
from fedsim.engine.server_records import ServerState
from fedsim.engine.slots import Slots
from fedsim.fields.clusters.bank import GROUPS, choices_of_groups, unstacked
from fedsim.tree import Tree
from fedsim.types import Bank, Shared

if TYPE_CHECKING:
    from fedsim.engine.records import RoundState


class Several(OneModel):
    """The models of a bank: of clusters, or of edges."""

    chooses = True

    def __init__(self, bank: Bank):
        self.bank = bank

    def models(self, state: "RoundState", count: int) -> list[Shared]:
        """Return all models, as `OneModel.models`."""
        del count
        return unstacked(state.broadcast.shared)

    def bank_rows(self, state: "RoundState", slots: Slots, first_slot: int) -> jax.Array:
        """Return the row of the model that each client has chosen, or that the server has chosen.

        A client chooses by the losses of the pass before; arguments as of `OneModel.bank_rows`.
        """
        if state.run.program.server.needs_choice:
            assert state.probe is not None
            choices = state.probe.choices[first_slot // len(slots.weight)]
        else:
            choices = choices_of_groups(self.bank, state.start.server, slots)
        return slots.start + choices

    def asked_bytes(self, state: "RoundState") -> int:
        """Return the bytes of a client's choice, where it sends one."""
        if state.run.program.server.needs_choice:
            return choice_bytes(state.run.program.server.client)
        return super().asked_bytes(state)

    def scored_models(self, shared: Shared) -> list[Shared]:
        """Return all models, also those that are not in use yet."""
        return unstacked({"params": shared["params"], "stats": shared["stats"]})

    def columns_of_set(
        self, server: ServerState, name: str, y: np.ndarray, by_model: Sequence[Rows]
    ) -> dict[str, Any]:
        """Return the columns of the means over the models in use, and of each of several."""
        groups = server.state.get(GROUPS)
        if groups is not None:
            by_model = by_model[: int(groups.clusters)]  # the first ones are in use
        means = {}
        for score in by_model[0]:
            if score == OUTPUTS:
                continue
            means[score] = np.mean([rows[score] for rows in by_model], axis=0)
        columns = columns_of_set(name, means, y)
        columns |= self._measured(name, y, by_model)

        if self.bank.models > 1 and name in MEASURED:
            for model, rows in enumerate(by_model):
                columns |= columns_of_set(f"model{model}/{name}", rows, y, self.measures)
        return columns

    def _measured(self, name: str, y: np.ndarray, by_model: Sequence[Rows]) -> dict[str, Any]:
        """Return the means over models of what is measured; None where one has no such score."""
        if self.measures is None or name not in MEASURED:
            return {}
        values = [self.measures.of(rows[OUTPUTS], y) for rows in by_model]
        columns = {}
        for measured in self.measures.names:
            of_models = [each[measured] for each in values]
            known = [value for value in of_models if value is not None]
            complete = len(known) == len(of_models)
            columns[f"{name}_{measured}"] = float(np.mean(known)) if complete else None
        return columns

    def choices(self, moment: Moment) -> np.ndarray:
        """Return the number of every client's model `[N]`; NONE without training samples.

        It is the model of least loss over all of the client's training samples, the first of
        equal ones, or the one that the server has decided on.
        """
        f = moment.federation
        has_samples = f.sizes > 0
        if self.bank.grouping is not None:
            cluster = np.asarray(moment.server.state[GROUPS].cluster)
            return np.where(has_samples, cluster, NONE)

        owner = f.holders.owner
        losses = []  # of every model, by client
        for of_model in scores_of_set(moment, f.train.x, moment.labels):
            of_rows = of_model["loss"][f.holders.indices]
            losses.append(np.bincount(owner, of_rows, f.N))
        return np.where(has_samples, np.argmin(losses, axis=0), NONE)

    def client_scores(
        self, moment: Moment, chosen: np.ndarray, shared_on: Holders, own: Holders
    ) -> dict[str, ClientScores]:
        """Score each client by the model that it has; a single one is the shared one as well."""
        scores = {}
        if self.bank.models == 1:
            scores["shared"] = shared_scores(moment, chosen, shared_on)
        scores["personal"] = self._scores_of_choices(moment, chosen, own)
        return scores

    def _scores_of_choices(
        self, moment: Moment, chosen: np.ndarray, holders: Holders
    ) -> ClientScores:
        """Score each client's model on its samples; no means where nobody has samples."""
        f = moment.federation
        choices = moment.choices
        assert choices is not None
        scored = (chosen & (choices != NONE))[holders.owner]
        owner = holders.owner[scored]
        if not len(owner):
            return {}, np.zeros(f.N, np.int64)

        by_model, y = row_scores(moment, holders.indices[scored])
        model = choices[owner]
        of_rows = {}
        for name in by_model[0]:
            values = np.stack([rows[name] for rows in by_model])
            of_rows[name] = values[model, np.arange(len(model))]
        return client_means(moment, of_rows, owner, y)

    def own_variables(self, moment: Moment, id: int) -> Tree:
        """Return the variables of a client's model; ValueError without training samples."""
        choice = self.choices(moment)[id]
        if choice == NONE:
            raise ValueError(f"client {id} has no training samples, and none of the models")
        return tree.take(moment.server.shared, choice)
