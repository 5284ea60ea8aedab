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
def test_weights_that_are_not_sample_counts_are_refused(weights, why):
    for call, links in ((fedsim.aggregate, "mean"), (fedsim.transmit, [])):
        with pytest.raises(fedsim.ScenarioError, match=f"weights: .*{why}"):
            call(links, ROWS, weights=weights)


def test_another_number_of_losses_is_refused():
    message = r"loss: 3 rows need 3 losses, found shape \[2\]"
    with pytest.raises(fedsim.ScenarioError, match=message):
        fedsim.aggregate("q_fair", ROWS, loss=[1.0, 2.0])


@pytest.mark.parametrize("malicious", [[3], [-1], [0.5], [True, False], ["a"]])
def test_malicious_rows_that_do_not_exist_are_refused(malicious):
    with pytest.raises(fedsim.ScenarioError, match="malicious: "):
        fedsim.transmit("sign_flip", ROWS, malicious=malicious)


@pytest.mark.parametrize("malicious", [[1], np.array([False, True, False])])
def test_malicious_rows_are_a_mask_or_row_numbers(malicious):
    arrived, _ = fedsim.transmit({"kind": "sign_flip", "scale": 1}, ROWS, malicious=malicious)
    assert arrived.ravel().tolist() == [1.0, -2.0, 3.0]


def test_a_row_of_weight_0_did_not_report():
    assert fedsim.aggregate("mean", ROWS, weights=[0, 1, 1]).tolist() == [2.5]


@pytest.mark.parametrize(
    ("links", "where", "why"),
    [
        ([{"kind": "clip", "norm": 1.0}], "", "has no rule; needs exactly one rule"),
        (["mean", "median"], "[1]", "median is a second rule, after mean"),
        ([{"kind": "sgd", "lr": 1.0}, "mean"], "[0]", "sgd is an optimiser and comes before"),
    ],
)
def test_a_server_list_in_the_wrong_order_is_refused(links, where, why):
    with pytest.raises(fedsim.ScenarioError) as raised:
        fedsim.aggregate(links, ROWS)
    assert str(raised.value).startswith(f"aggregate: server{where}: {why}")
    with pytest.raises(fedsim.ScenarioError) as raised:
        fedsim.transmit("sign_flip", ROWS, defence=links)
    assert str(raised.value).startswith(f"transmit: defence{where}: {why}")


@pytest.mark.parametrize(
    ("links", "where", "why"),
    [
        ("medain", "[0]", "no stage, rule or optimizer 'medain'; did you mean 'median'?"),
        ({"kind": "krum", "f": -3}, "[0].f", "should be an integer of at least 0, found -3"),
        (["mean", {"kind": "clip"}], "[1].norm", "is missing; write norm: with a number"),
        ([], "", "should be a list of stages, rules or optimizers"),
    ],
)
def test_a_malformed_list_is_reported_by_the_name_of_its_argument(links, where, why):
    with pytest.raises(fedsim.ScenarioError) as raised:
        fedsim.aggregate(links, ROWS)
    assert str(raised.value).startswith(f"aggregate: server{where}: {why}")
    with pytest.raises(fedsim.ScenarioError) as raised:
        fedsim.transmit("sign_flip", ROWS, defence=links)
    assert str(raised.value).startswith(f"transmit: defence{where}: {why}")
    assert "server[" not in str(raised.value)
