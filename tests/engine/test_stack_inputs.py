"""What `fedsim.aggregate` and `fedsim.transmit` make of any type, and what they refuse."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedsim

ROWS = [[1.0], [2.0], [3.0]]
NAN = float("nan")
HALVES = [np.float16, ml_dtypes.bfloat16]


@pytest.mark.quick(8)
@pytest.mark.parametrize("server", ["trimmed_mean(trim=1)", ["clip(norm=1.0)", "mean"]])
@pytest.mark.parametrize("dtype", [*HALVES, np.uint8, np.int64])
def test_many_rows_of_any_type_are_added_without_loss(server, dtype):
    """Their sum is beyond the largest float16, 65,504."""
    rows = np.full((80, 2), 1000 if dtype in HALVES else 250).astype(dtype)
    expected = fedsim.aggregate(server, rows.astype(np.float64)).astype(np.float32)
    actual = fedsim.aggregate(server, rows)
    assert actual.dtype == (dtype if dtype in HALVES else np.float64)
    np.testing.assert_allclose(actual.astype(np.float32), expected, rtol=2**-8)


@pytest.mark.parametrize("x64", [False, True])
def test_an_array_of_jax_gives_the_float_type_that_jax_is_set_to(x64):
    for call in (lambda x: fedsim.aggregate("mean", x), lambda x: fedsim.transmit([], x)[0][0]):
        with jax.enable_x64(x64):
            step = call(jnp.array([[1, 2], [2, 2]]))
            assert isinstance(step, jax.Array)
            assert step.dtype == (jnp.float64 if x64 else jnp.float32)
        half = call(jnp.ones((2, 2), jnp.bfloat16))
        assert isinstance(half, jax.Array) and half.dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([[1, 2], [2, 4]], {(): [1.5, 3.0]}),
        ([[True], [False]], {(): [0.5]}),
        (np.array([[1], [2]], object), {(): [1.5]}),
        ([[2**70], [2**70]], {(): [2.0**70]}),
        ({"a": [[1], [2]], "b": np.ones((2, 1), np.float32)}, {"a": [1.5], "b": [1.0]}),
        ({"a": None, "b": np.array([[1.0], [2.0]])}, {"a": None, "b": [1.5]}),
        (np.array([[1.0], [2.0]], ">f4"), {(): [1.5]}),
    ],
)
def test_lists_objects_and_empty_leaves_are_read(deltas, expected):
    step = fedsim.aggregate("mean", deltas)
    leaves = step if isinstance(step, dict) else {(): step}
    lists = {name: leaf if leaf is None else leaf.tolist() for name, leaf in leaves.items()}
    assert lists == expected


@pytest.mark.parametrize(
    ("deltas", "why"),
    [
        ([], "there are no rows; pass at least one update"),
        (np.zeros((0, 3)), "there are no rows"),
        (None, "there are no rows"),
        ({"a": None}, "there are no rows"),
        (3.0, "is a scalar; a stack has clients on its leading axis"),
        ({"a": np.ones((2, 1)), "b": np.ones((3, 1))}, "b'] has 3 rows, leaf ['a'] has 2"),
        ([[1.0], [None]], "is no array of numbers: a value is None"),
        ([None, [1.0]], "is no array of numbers: "),
        ([[1.0, 2.0], [3.0]], "is no array of numbers: "),
        ({"a": {"b": [["x"]]}}, "is no array of numbers: its type is <U1"),
        (np.ones((2, 2), complex), "is no array of numbers: its type is complex128"),
        (np.ma.array([[1.0]], mask=[[True]]), "is no array of numbers: it is masked"),
    ],
)
def test_what_is_no_stack_of_numbers_gets_one_line(deltas, why):
    for call, links in ((fedsim.aggregate, "mean"), (fedsim.transmit, [])):
        with pytest.raises(fedsim.ScenarioError) as raised:
            call(links, deltas)
        (line,) = str(raised.value).splitlines()
        assert line.startswith(f"{call.__name__}: deltas: ") and why in line


@pytest.mark.parametrize("argument", ["params", "reference"])
def test_a_tree_of_the_caller_is_like_a_row(argument):
    rows = np.array([[1], [2]], np.uint8)
    assert fedsim.aggregate("mean", rows, **{argument: [1]}).tolist() == [1.5]
    with pytest.raises(fedsim.ScenarioError, match=f"{argument}: must be a tree like a row"):
        fedsim.aggregate("mean", rows, **{argument: [1, 2]})


def test_a_message_of_half_precision_takes_two_bytes_a_number_until_it_is_encoded():
    rows = np.ones((2, 3), np.float16)
    assert fedsim.transmit([], rows)[1].tolist() == [6, 6]
    encoded = fedsim.transmit("sign", rows)[1]
    assert_array_equal(encoded, fedsim.transmit("sign", rows.astype(np.float32))[1])


@pytest.mark.parametrize(
    ("argument", "values", "why"),
    [
        ("weights", [-1, 1, 1], "row 0 is -1.0"),
        ("weights", [1, NAN, 1], "row 1 is nan"),
        ("weights", [1, 1, float("inf")], "row 2 is inf"),
        ("weights", [1, 1], r"3 rows need 3 weights, found shape \[2\]"),
        ("weights", [[1, 1, 1]], r"found shape \[1, 3\]"),
        ("weights", ["a", "b", "c"], "are not numbers"),
        ("loss", [1.0, 2.0], r"3 rows need 3 losses, found shape \[2\]"),
        ("loss", ["a", "b", "c"], "are not numbers"),
    ],
)
def test_numbers_that_are_not_one_for_each_row_are_refused(argument, values, why):
    with pytest.raises(fedsim.ScenarioError, match=f"{argument}: .*{why}"):
        fedsim.aggregate("q_fair", ROWS, **{"loss": [1.0, 1.0, 1.0], argument: values})
    if argument == "weights":
        with pytest.raises(fedsim.ScenarioError, match=f"weights: .*{why}"):
            fedsim.transmit([], ROWS, weights=values)


def test_malicious_rows_are_a_mask_or_the_numbers_of_rows_that_exist():
    flip = {"kind": "sign_flip", "scale": 1}
    for malicious in ([1], np.array([False, True, False])):
        arrived, _ = fedsim.transmit(flip, ROWS, malicious=malicious)
        assert arrived.ravel().tolist() == [1.0, -2.0, 3.0]
    for wrong in ([3], [-1], [0.5], [True, False], ["a"]):
        with pytest.raises(fedsim.ScenarioError, match="malicious: "):
            fedsim.transmit(flip, ROWS, malicious=wrong)


def test_a_row_of_weight_0_did_not_report():
    assert fedsim.aggregate("mean", ROWS, weights=[0, 1, 1]).tolist() == [2.5]


@pytest.mark.parametrize(
    ("links", "where", "why"),
    [
        ([{"kind": "clip", "norm": 1.0}], "", "has no rule; needs exactly one rule"),
        (["mean", "median"], "[1]", "median is a second rule, after mean"),
        ([{"kind": "sgd", "lr": 1.0}, "mean"], "[0]", "sgd is an optimiser and comes before"),
        ("medain", "[0]", "no stage, rule or optimizer 'medain'; did you mean 'median'?"),
        ({"kind": "krum", "f": -3}, "[0].f", "should be an integer of at least 0, found -3"),
        (["mean", {"kind": "clip"}], "[1].norm", "is missing; write norm: with a number"),
        ([], "", "should be a list of stages, rules or optimizers"),
    ],
)
def test_a_bad_list_of_links_is_reported_by_the_name_of_its_argument(links, where, why):
    with pytest.raises(fedsim.ScenarioError) as raised:
        fedsim.aggregate(links, ROWS)
    assert str(raised.value).startswith(f"aggregate: server{where}: {why}")
    with pytest.raises(fedsim.ScenarioError) as raised:
        fedsim.transmit("sign_flip", ROWS, defence=links)
    assert str(raised.value).startswith(f"transmit: defence{where}: {why}")
    assert "server[" not in str(raised.value)
