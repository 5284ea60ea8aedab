"""What senders, servers and receivers remember: shifts, sketches, and a downlink of differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import oracle
from federations import quadratic
from numpy.testing import assert_allclose, assert_array_equal
from reference.scenarios import consecutive
from test_codec_oracles import made, value
from test_codecs import SCENARIO, SIZES, D, problem_arrays, quadratics, trained

import fedsim
from fedsim.codecs.count_sketch import Hashes, estimate, sketch, sketch_of_runs
from fedsim.engine.downlink import Downlink

EF21 = {"kind": "ef21", "codec": {"kind": "top_k", "k": 9}}
COHORTS = [[0, 3], [1, 3, 6], [4, 6], [0, 1], [3, 4]]


def largest(x: np.ndarray, k: int) -> np.ndarray:
    """x with all but its k largest coordinates 0."""
    kept = np.zeros_like(x)
    places = np.argsort(-np.abs(x), kind="stable")[:k]
    kept[places] = x[places]
    return kept


EF21_CASES = [case for case in oracle("compression") if case["fn"] == "ef21"]


@pytest.mark.long
@pytest.mark.parametrize("case", EF21_CASES, ids=lambda case: case["name"])
def test_ef21_follows_its_oracle_to_the_optimum(case):
    inputs, gamma = case["inputs"], case["params"]["gamma"]
    codec = made("ef21", codec=made("top_k", k=case["params"]["k"]))
    with jax.enable_x64(True):
        H, a, x0 = (jnp.asarray(value(inputs[name])) for name in ("H", "a", "x0"))

        def step(carried, _):
            x, memory = carried
            gradients = jnp.einsum("ijk,ik->ij", H, x - a)
            payload, _, memory = jax.vmap(lambda g, row: codec.encode(g, row, None))(
                gradients, memory
            )
            arrives = jax.vmap(lambda sent: codec.decode(sent, len(x)))(payload)
            x = x - gamma * arrives.mean(0)
            return (x, memory), x

        start = jax.vmap(codec.memory)(jnp.zeros((3, len(x0))))
        _, path = jax.jit(lambda: jax.lax.scan(step, (x0, start), length=20_000))()
    assert_allclose(path[:8], case["expected"]["x"], rtol=1e-12, atol=1e-14)
    assert_allclose(path[-1], case["expected"]["optimum"], rtol=1e-10, atol=1e-12)


@pytest.mark.long
def test_statistics_of_a_model_travel_whole_beside_the_differences():
    def apply(variables, x, *, mask=None, key=None, train=False):
        del mask, key, train
        return x @ variables["params"], {"mean": 0.9 * variables["stats"]["mean"] + 0.1 * x.mean(0)}

    model = fedsim.types.Model(
        lambda key: {"params": jnp.zeros((20, 10)), "stats": {"mean": jnp.zeros(20)}}, apply
    )
    result = fedsim.run({**SCENARIO, "wire": [], "broadcast": [EF21]}, model=model)
    cohorts = [work.ids for work in result.experiment.plans[0].survey.rounds()]
    received = by_hand(cohorts, [-(-9 * (32 + 8) // 8)] * len(cohorts), 4 * 20, 4 * 200, 10)
    of_rounds = [sum(row.values()) for row in received]
    assert result.rounds["bytes_down"].diff().tolist()[1:] == of_rounds
    assert result.clients["bytes_down"].sum() == result.rounds["bytes_down"].iloc[-1]


def by_hand(cohorts, sizes, beside: int, model: int, N: int) -> list[dict[int, int]]:
    """Bytes that each client of a round gets: all messages that it lacks, or the model."""
    held: list[set[int] | None] = [None] * N
    received = []
    for r, ids in enumerate(cohorts):
        row = {}
        for i in map(int, ids):
            known = held[i]
            missing = (
                model if known is None else sum(sizes[m] for m in range(r + 1) if m not in known)
            )
            row[i], held[i] = beside + min(missing, model), set(range(r + 1))
        received.append(row)
    return received


@pytest.mark.parametrize("seed", range(5))
def test_a_client_that_comes_back_is_billed_what_it_missed(seed):
    """Random cohorts and messages of random sizes, with a resume, against a count by hand."""
    rng = np.random.default_rng(seed)
    N, beside, model = 12, int(rng.integers(0, 500)), 1000
    cohorts = [rng.choice(N, size=rng.integers(0, 6), replace=False) for _ in range(30)]
    sizes = rng.integers(0, 400, size=30).tolist()
    want = by_hand(cohorts, sizes, beside, model, N)
    line = Downlink(N, beside + model, model, recursive=True)
    total = np.zeros(N, int)
    for r, (ids, size) in enumerate(zip(cohorts, sizes, strict=True)):
        if r == 15:
            kept = {name: array.copy() for name, array in line.arrays().items()}
            line = Downlink(N, beside + model, model, recursive=True)
            line.restore(kept)
        assert line.deliver(ids, beside + size).sum() == sum(want[r].values())
        for i, bytes_ in want[r].items():
            total[i] += bytes_
        assert line.received.tolist() == total.tolist()


@pytest.mark.long
def test_a_downlink_of_differences_is_that_of_plain_numpy():
    """Clients start from their copy, the same for all, and Δ is relative to it."""
    setting = {
        "name": "downlink",
        "rounds": len(COHORTS),
        "data": {"clients": len(SIZES), "test": 0.0},
        "cohort": {"kind": "listed", "rounds": COHORTS},
        "client": {"lr": 0.1, "batch": "full", "steps": 2},
        "broadcast": [{"kind": "ef21", "codec": {"kind": "top_k", "k": 1}}],
        "numerics": {"dtype": "float64"},
    }
    (H, a), x, seen = problem_arrays(), np.full(D, 1.2345), []
    brought = quadratic({"H": H, "a": a, "sizes": SIZES, "x0": x})
    brought["data"] = fedsim.Arrays(brought["data"].x, brought["data"].y)

    def watch(experiment, seed, row):
        seen.append((row.server.shared["params"], row.server.state["broadcast"]["shift"]))

    fedsim.run(setting, **brought, partition=consecutive(SIZES), watch=watch)
    copy = x.copy()
    for ids, ended in zip(COHORTS, seen[1:], strict=True):
        copy, there = copy + largest(x - copy, 1), [i for i in ids if SIZES[i]]
        total = sum(SIZES[i] * trained(copy, i, 0.1, 2) for i in there)
        x = x + total / sum(SIZES[i] for i in there)
        assert_allclose(ended, (x, copy), rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize(("d", "columns", "rows"), [(1, 1, 3), (7, 3, 2), (9, 40, 17)])
def test_runs_are_added_as_one_coordinate_after_another(d, columns, rows):
    """The hashes are those of runs that are shifted; an estimate is the median of the rows."""
    rng = np.random.default_rng(0)
    shift, sign = rng.integers(0, columns, (rows, -(-d // columns))), rng.choice([-1, 1], (rows, d))
    j, x = np.arange(d), jnp.asarray(rng.normal(size=d), jnp.float32)
    column = (j % columns + shift[:, j // columns]) % columns
    hashes = Hashes(jnp.asarray(column), jnp.asarray(sign))
    table = sketch_of_runs(x, jnp.asarray(shift), jnp.asarray(sign), columns)
    assert_array_equal(table, sketch(x, hashes, columns))
    values = np.take_along_axis(np.asarray(table), column, 1) * sign
    assert_allclose(estimate(table, hashes), np.median(values, axis=0), rtol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("masked", [False, True])
def test_the_server_of_fetchsgd_is_that_of_plain_numpy(masked):
    """In a run momentum and errors are sketches; only the largest coordinates reach the model."""
    rows, columns, k, rho = 3, 3, 2, 0.7
    of_table = {"rows": rows, "columns": columns}
    link = {"kind": "count_sketch", **of_table, "k": k, "momentum": rho, "masked": masked}
    result = quadratics(
        rounds=len(COHORTS),
        cohort={"kind": "listed", "rounds": COHORTS},
        client={"lr": 0.1, "batch": "full", "steps": 2},
        wire=[link],
    )
    codec = made("count_sketch", **of_table)
    table = lambda x: np.asarray(codec.encode(jnp.asarray(x), (), None)[0])
    x, u, e = np.full(D, 2.0), np.zeros((rows, columns)), np.zeros((rows, columns))
    with jax.enable_x64(True):
        for ids in COHORTS:
            there = [i for i in ids if SIZES[i]]
            total = sum(SIZES[i] * trained(x, i, 0.1, 2) for i in there)
            update = total / sum(SIZES[i] for i in there)
            u = rho * u + table(update)
            e = e + u
            step = largest(np.asarray(codec.decode(jnp.asarray(e), D)), k)
            taken = table(step)
            u, e = (np.where(taken, 0, u), np.where(taken, 0, e)) if masked else (u, e - taken)
            x = x + step
    assert_allclose(result.model(), x, rtol=1e-10)
    assert_allclose(result.state()["server"]["momentum"], u, rtol=1e-9, atol=1e-12)
    assert_allclose(result.state()["server"]["error"], e, rtol=1e-9, atol=1e-12)
    sent = [len(ids) * 4 * rows * columns for ids in COHORTS]
    assert result.rounds["bytes_up"].diff().tolist()[1:] == sent
