"""What `fedsim.aggregate` and `fedsim.transmit` refuse: meaningless weights, losses and masks."""

import numpy as np
import pytest

import fedsim

ROWS = [[1.0], [2.0], [3.0]]
NAN = float("nan")


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        ([-1, 1, 1], "row 0 is -1.0"),
        ([1, NAN, 1], "row 1 is nan"),
        ([1, 1, float("inf")], "row 2 is inf"),
        ([1, 1], r"3 rows need 3 weights, found shape \[2\]"),
        ([[1, 1, 1]], r"found shape \[1, 3\]"),
        (["a", "b", "c"], "are not numbers"),
    ],
)
def test_weights_are_sample_counts(weights, why):
    for call, links in ((fedsim.aggregate, "mean"), (fedsim.transmit, [])):
        with pytest.raises(fedsim.ScenarioError, match=f"weights: .*{why}"):
            call(links, ROWS, weights=weights)


def test_one_loss_a_row():
    message = r"loss: 3 rows need 3 losses, found shape \[2\]"
    with pytest.raises(fedsim.ScenarioError, match=message):
        fedsim.aggregate("q_fair", ROWS, loss=[1.0, 2.0])


@pytest.mark.parametrize("malicious", [[3], [-1], [0.5], [True, False], ["a"]])
def test_only_rows_that_are_there_are_malicious(malicious):
    with pytest.raises(fedsim.ScenarioError, match="malicious: "):
        fedsim.transmit("sign_flip", ROWS, malicious=malicious)


@pytest.mark.parametrize("malicious", [[1], np.array([False, True, False])])
def test_a_mask_or_row_numbers(malicious):
    arrived, _ = fedsim.transmit({"kind": "sign_flip", "scale": 1}, ROWS, malicious=malicious)
    assert arrived.ravel().tolist() == [1.0, -2.0, 3.0]


def test_weights_of_0_did_not_report():
    assert fedsim.aggregate("mean", ROWS, weights=[0, 1, 1]).tolist() == [2.5]


@pytest.mark.parametrize(
    ("links", "where", "why"),
    [
        ([{"kind": "clip", "norm": 1.0}], "", "has no rule; needs exactly one rule"),
        (["mean", "median"], "[1]", "median is a second rule, after mean"),
        ([{"kind": "sgd", "lr": 1.0}, "mean"], "[0]", "sgd is an optimiser and comes before"),
    ],
)
def test_a_server_list_in_an_order_that_means_nothing(links, where, why):
    with pytest.raises(fedsim.ScenarioError) as raised:
        fedsim.aggregate(links, ROWS)
    assert str(raised.value).startswith(f"aggregate: server{where}: {why}")
    with pytest.raises(fedsim.ScenarioError) as raised:
        fedsim.transmit("sign_flip", ROWS, defence=links)
    assert str(raised.value).startswith(f"transmit: defence{where}: {why}")
