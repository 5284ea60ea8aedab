"""Scores of clients have the same bits, however many batches a stack has."""

import numpy as np
import pytest
from test_loop import same_bits, scenario

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.engine.scoring.clients import STACK_BATCHES, row_scores, stack_batches
from fedsim.engine.scoring.scorer import end_of
from fedsim.scenario import read


@pytest.mark.optimised
def test_clients_scores_have_the_same_bits_in_stacks_of_any_size(monkeypatch):
    checked = read(scenario())
    with numerics(checked):
        run = build(checked).run(0)
        rows = np.arange(len(run.plan.federation.train.x))
        moment = end_of(run)
        (tested, _), *_ = run.scorer.sets["test"].stacks
        assert stack_batches(moment, len(rows)) == len(tested) < STACK_BATCHES
        (scores,), _ = row_scores(moment, rows, everything=True)

        monkeypatch.setattr("fedsim.engine.scoring.clients.FEW_CALLS", 0)
        assert stack_batches(moment, len(rows)) == STACK_BATCHES
        (others,), _ = row_scores(moment, rows, everything=True)
    same_bits(scores, others)
