"""Codecs on the wire and in the broadcast: what arrives, what is remembered, and its bytes."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TESTS, if_whole
from federations import quadratic
from numpy.testing import assert_allclose, assert_array_equal
from reference.scenarios import consecutive

import fedsim
from fedsim.codecs.count_sketch import Hashes, estimate, sketch
from fedsim.compose import FAMILIES, max_bytes
from fedsim.disk.tables import to_csv
from fedsim.errors import ScenarioError
from fedsim.runs.result import TABLE_COLUMNS

ORACLE = json.loads((TESTS / "oracles" / "compression.json").read_text())
CASES = ORACLE["cases"]
SCENARIO = {
    "name": "codecs",
    "rounds": 5,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 10},
    "cohort": {"kind": "uniform", "size": 6},
    "wire": [{"kind": "error_feedback", "codec": {"kind": "top_k", "k": 9}}],
}
SIZES, D = [4, 1, 0, 3, 2, 0, 5], 4


def run(**changes) -> fedsim.Result:
    return fedsim.run({**SCENARIO, **changes})


def value(given):
    """Numbers of a case, which may stand in the list of arrays."""
    entry = ORACLE["arrays"][given[1:]] if isinstance(given, str) else given
    entry = entry["data"] if isinstance(entry, dict) else entry
    return np.asarray(entry, np.float64)


def cases(fn: str) -> list[dict]:
    return [case for case in CASES if case["fn"] == fn]


def test_error_feedback_follows_its_oracle():
    with jax.enable_x64(True):
        for case in [case for case in cases("ef14") if case["params"]["compressor"] == "topk"]:
            grads, lr, want = value(case["inputs"]["grads"]), case["params"]["lr"], case["expected"]
            codec = FAMILIES["codec"]["error_feedback"](
                codec=FAMILIES["codec"]["top_k"](k=case["params"]["k"])
            )
            memory, encode = codec.memory(jnp.zeros(grads.shape[1])), jax.jit(codec.encode)
            for g, sent, kept in zip(
                grads, value(want["sent"]), value(want["memory"]), strict=True
            ):
                payload, _, memory = encode(jnp.asarray(lr * g), memory, None)
                assert_allclose(codec.decode(payload, len(g)), sent, rtol=1e-9, atol=1e-12)
                assert_allclose(memory["error"], kept, rtol=1e-9, atol=1e-12)


@pytest.mark.long
def test_a_sketch_follows_its_oracle_and_sums():
    with jax.enable_x64(True):
        for case in cases("count_sketch"):
            x, column, sign = (value(case["inputs"][name]) for name in ("x", "h", "s"))
            made = Hashes(jnp.asarray(column, jnp.int32), jnp.asarray(sign))
            table = sketch(jnp.asarray(x), made, case["params"]["cols"])
            assert_allclose(table, value(case["expected"]["table"]), rtol=1e-12, atol=1e-15)
            assert_allclose(
                estimate(table, made), value(case["expected"]["estimate"]), rtol=1e-12, atol=1e-15
            )
            assert_allclose(
                table + sketch(2 * jnp.asarray(x), made, table.shape[1]),
                3 * table,
                rtol=1e-12,
                atol=1e-15,
            )
            codec = FAMILIES["codec"]["count_sketch"](rows=table.shape[0], columns=table.shape[1])
            assert max_bytes(codec, x) == case["expected"]["bits"] // 8


@if_whole
@pytest.mark.long
def test_what_is_decoded_is_the_sum_of_the_tables():
    """A mean of sketches is the sketch of the mean, as if only the aggregate had been sketched."""
    link = {"kind": "count_sketch", "rows": 3, "columns": 40}
    plain, sketched = run(wire=[], rounds=1), run(wire=[link], rounds=1)
    start = run(wire=[], rounds=0).model()
    flat = lambda tree: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
    mean = flat(plain.model()) - flat(start)
    decoded, _ = fedsim.transmit(link, mean[None])
    assert_allclose(flat(sketched.model()) - flat(start), decoded[0], rtol=1e-4, atol=1e-6)
    assert sketched.rounds["bytes_up"].iloc[-1] == 6 * 4 * 3 * 40
    folded, blocks = run(wire=[link]), run(wire=[link], numerics={"block": 2})
    assert to_csv(folded.records["rounds"], TABLE_COLUMNS["rounds"]) == to_csv(
        blocks.records["rounds"], TABLE_COLUMNS["rounds"]
    )
    assert not run(
        wire=[link], server=["mean", {"kind": "aggregate_noise", "std": 0.0}], rounds=1
    ).rounds.empty


def test_bits_are_those_of_the_paper():
    (case,) = cases("bits")
    for d, bits in case["expected"].items():
        row = jnp.zeros(int(d))
        assert max_bytes(FAMILIES["codec"]["cast"](), row) == -(-bits["fp16"] // 8)


def test_a_message_is_counted_as_it_travels():
    stack = {"w": np.arange(12.0).reshape(2, 6), "b": np.ones((2, 3))}
    arrived, size = fedsim.transmit([{"kind": "top_k", "k": 4}], stack)
    assert size.tolist() == [-(-4 * (32 + 4) // 8)] * 2
    assert_array_equal(arrived["w"], [[0, 0, 2, 3, 4, 5], [0, 0, 8, 9, 10, 11]])
    assert_array_equal(arrived["b"], np.zeros((2, 3)))
    assert fedsim.transmit("cast", stack)[1].tolist() == [18, 18]
    assert (
        fedsim.transmit([{"kind": "top_k", "density": 0.3}], stack)[1].tolist()
        == [-(-3 * 36 // 8)] * 2
    )


def test_a_message_that_is_not_finite_is_found_behind_the_codec():
    arrived, _ = fedsim.transmit({"kind": "top_k", "k": 1}, [[1.0, np.nan, 3.0], [4.0, 5.0, 6.0]])
    assert np.isnan(arrived[0][1]) and arrived[0][2] == 3 and arrived[1].tolist() == [0, 0, 6]


def expected(
    rounds: list[list[int]], lr: float, steps: int, k: int, server_lr: float
) -> tuple[np.ndarray, np.ndarray]:
    """FedAvg on quadratics with top-k under error feedback, in NumPy -> (x, errors of clients)."""
    H, a, x, e = *problem_arrays(), np.full(D, 2.0), np.zeros((len(SIZES), D))
    for ids in rounds:
        total, weight = np.zeros(D), 0
        for i in (i for i in ids if SIZES[i]):
            y = x.copy()
            for _ in range(steps):
                y = y - lr * H[i] @ (y - a[i])
            p = y - x + e[i]
            keep = np.sort(np.argsort(-np.abs(p), kind="stable")[:k])
            sent = np.zeros(D)
            sent[keep] = p[keep]
            e[i] = p - sent
            total, weight = total + SIZES[i] * sent, weight + SIZES[i]
        x = x + server_lr * total / weight
    return x, e


def problem_arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    roots = rng.normal(size=(len(SIZES), D, D))
    return roots @ roots.swapaxes(1, 2) / D + np.eye(D), rng.normal(size=(len(SIZES), D))


@pytest.mark.long
def test_error_feedback_is_that_of_plain_numpy():
    """Partial cohorts, clients without samples, half a server step; absent clients' errors stay."""
    rounds = [[0, 3], [1, 3, 6], [4, 6], [0, 1]]
    result = quadratics(
        rounds=len(rounds),
        cohort={"kind": "listed", "rounds": rounds},
        client={"lr": 0.1, "batch": "full", "steps": 3},
        wire=[{"kind": "error_feedback", "codec": {"kind": "top_k", "k": 2}}],
        server=["mean", {"kind": "sgd", "lr": 0.5}],
    )
    x, e = expected(rounds, 0.1, 3, 2, 0.5)
    assert_allclose(result.model(), x, rtol=1e-12)
    assert_allclose(result.state()["client"]["error_feedback"]["error"], e, rtol=1e-9, atol=1e-12)
    assert result.rounds["bytes_up"].tolist() == [0, 18, 45, 63, 81]


def quadratics(start: float = 2.0, **sections) -> fedsim.Result:
    """Through `fedsim.run`: client i has SIZES[i] copies of its sample."""
    H, a = problem_arrays()
    brought = quadratic({"H": H, "a": a, "sizes": SIZES, "x0": np.full(D, start)})
    data = {"clients": len(SIZES), "test": 0.0}
    scenario = {"name": "quadratics", "data": data, "numerics": {"dtype": "float64"}, **sections}
    samples = fedsim.Arrays(brought["data"].x, brought["data"].y)
    return fedsim.run(scenario, **{**brought, "data": samples}, partition=consecutive(SIZES))


@pytest.mark.long
@pytest.mark.parametrize("numerics", [{"block": 2}, {"block": 5, "lanes": 3}])
def test_no_layout_changes_memory_or_bytes(numerics):
    one, other = run(), run(numerics=numerics)
    assert to_csv(one.records["rounds"], TABLE_COLUMNS["rounds"]) == to_csv(
        other.records["rounds"], TABLE_COLUMNS["rounds"]
    )
    for a, b in zip(jax.tree.leaves(one.state()), jax.tree.leaves(other.state()), strict=True):
        assert_array_equal(a, b)


@pytest.mark.long
@pytest.mark.parametrize("rule", ["mean", "median"])  # folded, and gathered
@pytest.mark.parametrize("resident", [256.0, 0.0])
def test_memory_goes_on_where_a_run_was_left(tmp_path, rule, resident):
    setting = {**SCENARIO, "server": [rule], "checkpoint": {"rounds": 1, "resident_mb": resident}}
    whole = fedsim.run(setting, out=tmp_path / "whole")
    fedsim.run({**setting, "rounds": 3}, out=tmp_path / "left")
    left = fedsim.run(setting, out=tmp_path / "left", resume=True)
    for name in ("rounds.csv", "clients.csv"):
        assert (tmp_path / "left" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert_array_equal(
        whole.state()["client"]["error_feedback"]["error"],
        left.state()["client"]["error_feedback"]["error"],
    )
    assert left.clients["bytes_up"].sum() == left.rounds["bytes_up"].iloc[-1]


@pytest.mark.long
def test_of_a_message_that_is_lost_the_memory_stays():
    lossy = {"wire": [*SCENARIO["wire"], "nonfinite"], "fleet": {"malicious": [0, 1, 2]}}
    result = run(cohort="all", rounds=2, **lossy)
    errors = result.state()["client"]["error_feedback"]["error"]
    assert not errors[:3].any() and errors[3:].any(axis=1).all()
    assert result.rounds["n_nonfinite"].tolist() == [0, 3, 3]


@pytest.mark.long
def test_seeds_side_by_side_remember_as_if_alone():
    together = run(seeds=2)
    for seed in (0, 1):
        alone = run(seeds=[seed])
        assert_array_equal(
            together.state(seed=seed)["client"]["error_feedback"]["error"],
            alone.state()["client"]["error_feedback"]["error"],
        )


@pytest.mark.long
def test_the_whole_message_and_no_memory_are_the_plain_run():
    """All coordinates are sent: nothing is left out, in the bits of the run without a codec."""
    plain, whole = run(wire=[]), run(wire=[{"kind": "top_k", "density": 1.0}])
    for a, b in zip(jax.tree.leaves(plain.model()), jax.tree.leaves(whole.model()), strict=True):
        assert_array_equal(a, b)


@pytest.mark.long
def test_the_downlink_is_that_of_plain_numpy():
    H, a = problem_arrays()
    made = quadratics(
        rounds=3,
        client={"lr": 0.1, "batch": "full", "steps": 2},
        broadcast=[{"kind": "cast", "dtype": "float16"}],
        start=1.2345,
    )
    x = np.full(D, 1.2345)
    for _ in range(3):
        sent, total = x.astype(np.float16).astype(float), np.zeros(D)
        for i in range(len(SIZES)):
            y = sent.copy()
            for _ in range(2):
                y = y - 0.1 * H[i] @ (y - a[i])
            total += SIZES[i] * (y - sent)
        x = x + total / sum(SIZES)
    assert_allclose(made.model(), x, rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("method", ["scaffold", "fedavgm", "fednova"])
def test_a_codec_is_behind_any_method(method):
    made = run(method=method)
    sent = made.rounds["bytes_up"].iloc[1]
    assert made.status == "done" and sent < run(method=method, wire=[]).rounds["bytes_up"].iloc[1]


SKETCH = [{"kind": "count_sketch", "rows": 3, "columns": 40}]
REFUSED = {
    "two for the downlink": (
        {"broadcast": ["cast", "cast"]},
        "broadcast: should be a list of at most one codec (fedsim list codecs), found a list",
    ),
    "no sum": (
        {"wire": SKETCH, "server": ["median"]},
        "server[0]: median compares single updates, and count_sketch sends payloads, "
        "which are decoded as a sum",
    ),
    "a stage between": (
        {"wire": [*SKETCH, "sign_flip"]},
        "wire[1]: sign_flip works on updates, and count_sketch",
    ),
    "no memory of it": (
        {"wire": [{"kind": "error_feedback", "codec": SKETCH[0]}]},
        "wire[0]: error_feedback: count_sketch is decoded after the rule",
    ),
    "one of k and density": ({"wire": ["top_k"]}, "wire[0]: top_k: give one of k and density"),
    "second": (
        {"wire": ["cast", {"kind": "top_k", "k": 2}]},
        "wire[1]: top_k is a second codec, after cast",
    ),
    "two messages": (
        {"method": "mime"},
        "wire[0]: error_feedback remembers one message of every client, and mime sends two",
    ),
    "nested": (
        {
            "wire": [
                {"kind": "error_feedback", "codec": {"kind": "error_feedback", "codec": "cast"}}
            ]
        },
        "wire[0].codec",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused(name):
    changes, text = REFUSED[name]
    with pytest.raises(ScenarioError) as error:
        run(**changes)
    assert text in str(error.value)
