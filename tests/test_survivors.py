"""What small faults in rules, persistence, statistics and plan would change: every number against plain NumPy or by hand."""

import errno
import inspect
import json
import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim import tree
from fedsim.assemble.federation import federations_of
from fedsim.compose import FAMILIES
from fedsim.disk import files
from fedsim.disk.checkpoint import Snapshot, decode, digest, encode, fitted, named, row_bytes, rows_from
from fedsim.disk.rowfile import RowFile
from fedsim.errors import CheckpointError, CorruptError
from fedsim.fleet import Adversary, selection
from fedsim.fleet import plan as planning
from fedsim.fleet.plan import Local, Plan
from fedsim.fleet.streams import Stream, generator
from fedsim.rules.geometric_median import _search_shares
from fedsim.rules.sorting import ascending, middle
from fedsim.runs import directory
from fedsim.runs.commits import commits
from fedsim.runs.journal import Journal, Pace, differences
from fedsim.scenario import read
from fedsim.study import pairing, standings, statistics
from fedsim.types import Context
from tests.cohorts import cohort_of

# ------------------------------------------------------------------------------------------------------ rules

K, D, N = 6, 3, 11
RNG = np.random.default_rng(24)
DELTA = RNG.normal(size=(K, D)).astype(np.float32)
WEIGHT = np.array([3.0, 0.0, 5.0, 2.0, 7.0, 4.0])
COUNT = np.array([1.0, 2.0, 3.0, 1.0, 1.0, 2.0])
LOSS = np.array([0.3, 9.0, 1.2, 0.7, 2.0, 0.1])
EFFORT = np.array([2.0, 3.0, 5.0, 4.0, 1.0, 0.5])
IDS = np.array([0, 2, 3, 5, 7, 9])
HERE = (WEIGHT > 0) * COUNT
BY_SAMPLES = WEIGHT * COUNT


def played(kind: str, rounds: int = 1, samples: float = 0.0, client_lr: float = 0.5, **link):
    """A rule alone, for some rounds of the same updates -> the last step, and what the server remembers."""
    rule = FAMILIES["rule"][kind](**link)
    f = lambda values: jnp.asarray(values, jnp.float32)
    updates = cohort_of(
        {"w": f(DELTA)}, f(WEIGHT) > 0, f(WEIGHT), count=f(COUNT), loss=f(LOSS), steps=f(EFFORT), effort=f(EFFORT)
    )
    shared = {"params": {"w": jnp.ones(D)}}
    context = Context(
        jax.random.key(0),
        jnp.int32(1),
        f(N),
        f(client_lr),
        shared,
        jnp.asarray(IDS),
        jnp.zeros(K, bool),
        None,
        f(samples),
    )
    carry, step, apply = rule.init(shared["params"], jnp.arange(12) < N), None, jax.jit(rule.apply)
    for _ in range(rounds):
        step, carry, _ = apply(updates, carry, context)
    return np.asarray(step["w"]), carry


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=3e-5, atol=1e-6)


def weighted(weights):
    return weights @ DELTA / weights.sum()


@pytest.mark.parametrize(("weights", "w"), [("samples", BY_SAMPLES), ("uniform", HERE), ("steps", HERE * EFFORT)])
def test_mean(weights, w):
    close(played("mean", weights=weights)[0], weighted(w))


def test_nova_divides_by_the_effort_and_multiplies_by_the_mean_one():
    effort = (BY_SAMPLES @ EFFORT) / BY_SAMPLES.sum()
    close(played("nova")[0], effort * (BY_SAMPLES / EFFORT) @ DELTA / BY_SAMPLES.sum())


def test_nova_of_weights_below_one_is_nova_of_their_multiples():
    step = lambda w: fedsim.aggregate("nova", DELTA, weights=w)
    assert np.allclose(step(BY_SAMPLES / 32), step(BY_SAMPLES), rtol=1e-6) and np.abs(step(BY_SAMPLES)).max() > 0


def test_nova_takes_no_step_from_clients_without_effort():
    samples, count, loss, steps, effort = (
        jnp.asarray(v, jnp.float32) for v in ([2, 2], [1, 1], [0, 0], [4, 0], [4, 0])
    )
    updates = cohort_of({"w": jnp.ones((2, 1))}, samples=samples, count=count, loss=loss, steps=steps, effort=effort)
    context = Context(
        jax.random.key(0), *(jnp.float32(v) for v in (1, 2, 0.5)), {}, jnp.arange(2), jnp.zeros(2, bool), None, 4.0
    )
    step, _, _ = FAMILIES["rule"]["nova"]().apply(updates, (), context)
    assert np.asarray(step["w"]) == pytest.approx((2 / 4) * (2 * 4 + 2 * 0) / 4 / 4)


def test_fedexp_steps_as_far_as_the_updates_disagree():
    mean, squares = weighted(HERE), HERE @ (DELTA**2).sum(1)
    wanted = squares / (2 * HERE.sum() * (mean @ mean + 0.01))
    assert wanted > 1
    close(played("fedexp", eps=0.01)[0], wanted * mean)
    close(played("fedexp", eps=100.0)[0], mean)
    close(played("fedexp")[1].before["w"], np.ones(D))
    assert played("fedexp", average=False)[1] == ()


def test_means_over_the_population():
    close(played("mean_over_all")[0], HERE @ DELTA / N)
    m, total = HERE.sum(), BY_SAMPLES @ DELTA
    for samples in (200.0, 1.0):
        close(played("horvitz_thompson", samples=samples)[0], N / m * total / samples)
    close(played("horvitz_thompson")[0], N / m * total / (N * BY_SAMPLES.sum() / m))


def test_dyn_remembers_the_drift():
    h = np.zeros(D)
    for rounds in (1, 2):
        h = h - 0.5 / N * HERE @ DELTA
        step, carry = played("dyn", rounds, alpha=0.5)
        close(step, weighted(HERE) - h / 0.5)
        close(carry.h["w"], h)


@pytest.mark.parametrize(("q", "L", "lr"), [(2.0, None, 0.5), (0.5, 3.0, 0.5), (1.0, 3.0, 0.0)])
def test_q_fair_weighs_by_losses(q, L, lr):
    smooth = 1 / lr if L is None else L
    h = q * LOSS ** (q - 1) * ((smooth * DELTA) ** 2).sum(1) + smooth * LOSS**q
    close(played("q_fair", q=q, L=L, client_lr=lr)[0], (HERE * LOSS**q) @ (smooth * DELTA) / (HERE @ h))


def test_q_fair_without_a_learning_rate_takes_no_step():
    close(played("q_fair", q=1.0, client_lr=0.0)[0], np.zeros(D))


def test_agnostic_climbs_and_projects():
    weights, steps = np.where(np.arange(12) < N, 1 / N, 0), []
    for _ in range(2):
        w = HERE * weights[IDS]
        steps.append(weighted(w))
        weights[IDS] += np.where(HERE > 0, 0.4 * (LOSS - HERE @ LOSS / HERE.sum()), 0)
        falling = np.sort(weights)[::-1]
        over = (np.cumsum(falling) - 1) / np.arange(1, 13)
        weights = np.maximum(weights - over[np.flatnonzero(falling > over)[-1]], 0)
    step, carry = played("agnostic", 2, lr=0.4)
    close(step, steps[-1])
    close(carry.lambda_, weights)
    assert (weights == 0).any() and weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("iterations", [None, 3])
def test_shares_of_rows_far_apart_are_searched_without_their_points(iterations):
    rows, w = {"w": jnp.eye(4)}, jnp.full(4, 0.25)
    share, trusted = _search_shares(tree.gram(rows, w > 0), w, 1e-6, iterations)
    assert trusted
    close(share, np.full(4, 0.25))
    assert _search_shares(tree.gram(rows, w > 0), jnp.array([0.3, 0.3, 0.2, 0.2]), 1e-6, iterations)[
        1
    ]  # while it moves


def krum_scores(neighbours):
    there = np.flatnonzero(WEIGHT)
    apart = ((DELTA[there][:, None] - DELTA[there][None]) ** 2).sum(2)
    return there, np.sort(apart, 1)[:, 1 : 1 + neighbours].sum(1)


@pytest.mark.parametrize(
    ("link", "neighbours"),
    [
        ({"f": 1}, 2),
        pytest.param({"f": 1, "neighbours": 3}, 3, marks=pytest.mark.long),
        pytest.param({"f": 0}, 3, marks=pytest.mark.long),
    ],
)
def test_krum_is_its_definition(link, neighbours):
    there, scores = krum_scores(neighbours)
    close(played("krum", **link)[0], DELTA[there[scores.argmin()]])
    order = there[scores.argsort(kind="stable")]
    close(played("multi_krum", **link)[0], DELTA[order[: len(there) - link["f"]]].mean(0))
    close(played("multi_krum", **link, select=2)[0], DELTA[order[:2]].mean(0))


@pytest.mark.parametrize(("kind", "link"), [("krum", {"f": 1}), ("multi_krum", {"f": 1}), ("median", {})])
def test_of_messages_that_are_all_absent_nothing_is_taken(kind, link, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "WEIGHT", np.zeros(K))
    np.testing.assert_array_equal(played(kind, **link)[0], np.zeros(D))


def test_rules_say_how_many_they_need():
    made = {name: FAMILIES["rule"][name] for name in ("krum", "multi_krum", "trimmed_mean", "mean")}
    assert made["krum"](2).least == 7 and made["krum"](1, neighbours=8).least == 9
    assert made["multi_krum"](2).least == 7 and made["multi_krum"](1, select=6).least == 6
    assert made["multi_krum"](1, neighbours=8).least == 9
    assert made["trimmed_mean"](3).least == 7 and made["mean"]().least == 1


@pytest.mark.parametrize("m", range(1, 7))
def test_the_median_of_the_first_values_of_ordered_columns(m):
    ordered = np.sort(DELTA, axis=0)
    close(middle(jnp.asarray(ordered), jnp.int32(m)), np.median(ordered[:m], axis=0))


@pytest.mark.parametrize("rows", [3, 8, 20, 40])
def test_order_statistics_of_columns_in_ascending_order(rows):
    columns = np.random.default_rng(rows).normal(size=(rows, 7)).astype(np.float32)
    ordered = np.asarray(ascending(jnp.asarray(columns)))
    np.testing.assert_array_equal(ordered[:rows], np.sort(columns, axis=0))
    assert np.isposinf(ordered[rows:]).all()


def test_order_statistics_of_those_who_report():
    there = DELTA[WEIGHT > 0]
    close(played("median")[0], np.median(there, 0))
    close(played("trimmed_mean", trim=2)[0], np.sort(there, 0)[2:3].mean(0))
    close(played("trimmed_mean", trim=1)[0], np.sort(there, 0)[1:4].mean(0))


def test_clipping_around_the_last_aggregate():
    there, v = DELTA[WEIGHT > 0].astype(float), np.zeros(D)
    for _ in range(2 * 3):
        away = there - v
        v = v + (away * np.minimum(1, 0.7 / np.linalg.norm(away, axis=1))[:, None]).mean(0)
    step, carry = played("centered_clipping", 2, radius=0.7, iterations=3)
    close(step, v)
    close(carry["w"], v)


@pytest.mark.parametrize("smoothing", [1e-3, pytest.param(1.3, marks=pytest.mark.long)])
def test_rfa_takes_its_three_steps(smoothing):
    w = WEIGHT / WEIGHT.sum()
    v = w @ DELTA
    for _ in range(3):
        beta = w / np.maximum(smoothing, np.linalg.norm(DELTA - v, axis=1))
        v = beta @ DELTA / beta.sum()
    close(played("rfa", smoothing=smoothing)[0], v)
    assert (
        played("geometric_median", smoothing=smoothing, iterations=3, weights="samples")[0]
        == played("rfa", smoothing=smoothing)[0]
    ).all()


GRADIENTS = [np.array([0.5, -2.0, 0.0]), np.array([0.1, 1.0, -3.0]), np.array([-0.7, 0.2, 0.4])]


def stepped(kind, **link):
    optimizer = FAMILIES["optimizer"][kind](**link)
    params = jnp.zeros(3)
    state, moves = optimizer.init(params), []
    for g in GRADIENTS:
        move, state = optimizer.update(jnp.asarray(g, jnp.float32), state, params)
        moves.append(np.asarray(move))
    return np.stack(moves)


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_of_the_server(nesterov):
    v, wanted = np.zeros(3), []
    for g in GRADIENTS:
        v = 0.8 * v + 0.7 * g
        wanted.append(-0.3 * (g + 0.8 * v if nesterov else v))
    close(stepped("fedavgm", lr=0.3, momentum=0.8, dampening=0.3, nesterov=nesterov), wanted)


@pytest.mark.parametrize("v0", [None, 0.25])
@pytest.mark.parametrize("kind", ["fedadagrad", "fedadam", "fedyogi"])
def test_adaptive_optimisers_of_the_server(kind, v0):
    grow = {
        "fedadagrad": lambda v, g2: v + g2,
        "fedadam": lambda v, g2: 0.9 * v + 0.1 * g2,
        "fedyogi": lambda v, g2: v - 0.1 * g2 * np.sign(v - g2),
    }[kind]
    m, v, wanted = np.zeros(3), np.full(3, 0.04 if v0 is None else v0), []
    for g in GRADIENTS:
        m, v = 0.6 * m - 0.4 * g, grow(v, g * g)
        wanted.append(0.3 * m / (np.sqrt(v) + 0.2))
    b2 = {} if kind == "fedadagrad" else {"b2": 0.9}
    close(stepped(kind, lr=0.3, b1=0.6, tau=0.2, v0=v0, **b2), wanted)
    assert FAMILIES["optimizer"][kind]().init(jnp.zeros(1)).v[0] == np.float32(1e-6)


DEFAULTS = {
    "rule": {
        "fedexp": {"eps": 1e-3, "average": True}, "dyn": {"alpha": 0.1}, "q_fair": {"q": 1.0, "L": None}, "agnostic": {"lr": 0.1},
        "geometric_median": {"smoothing": 0.0, "iterations": None, "weights": "uniform"},
        "rfa": {"smoothing": 1e-6, "iterations": 3},
        "centered_clipping": {"iterations": 1}, "mean": {"weights": "samples", "denominator": "actual"},
        "trimmed_mean": {"trim": 1}, "krum": {"neighbours": None}, "multi_krum": {"select": None, "neighbours": None},
    },
    "cohort": {"uniform": {"size": 10}, "poisson": {"rate": 0.1}, "weighted": {"size": 10}, "cyclic": {"size": 10}},
    "optimizer": {
        "fedavgm": {"lr": 1.0, "momentum": 0.9, "dampening": 0.0, "nesterov": False},
        "fedadagrad": {"lr": 0.1, "b1": 0.0, "tau": 1e-3, "v0": None},
        "fedadam": {"lr": 0.1, "b1": 0.9, "b2": 0.99, "tau": 1e-3, "v0": None},
        "fedyogi": {"lr": 0.1, "b1": 0.9, "b2": 0.99, "tau": 1e-3, "v0": None},
    },
}  # fmt: skip


@pytest.mark.parametrize("family", DEFAULTS)
def test_defaults_of_the_papers_of_the_server_and_of_cohorts(family):
    for name, wanted in DEFAULTS[family].items():
        parameters = inspect.signature(FAMILIES[family][name]).parameters.values()
        assert {p.name: p.default for p in parameters if p.default is not p.empty} == wanted, name


# ------------------------------------------------------------------------------------------------ persistence


def test_a_snapshot_reads_back_with_every_shape_and_type():
    arrays = {
        "a": np.arange(6, dtype=np.int16).reshape(2, 3), "empty": np.zeros((0, 4), np.float32),
        "number": np.array(2.5), "bits": np.array([True, False]), "last": np.array([1 + 2j]),
    }  # fmt: skip
    blob = b"".join(encode(Snapshot({"round": 3}, arrays)))
    values, read_back = decode(blob)
    assert values == {"round": 3} and list(read_back) == list(arrays)
    for name, array in arrays.items():
        assert read_back[name].dtype == array.dtype and np.array_equal(read_back[name], array), name
    assert blob.startswith(b"fedsim-checkpoint 2 %s\n" % fedsim.__version__.encode())


def test_a_tree_is_fitted_leaf_by_leaf():
    variables = {"w": np.ones((2, 2), np.float32), "b": [np.zeros(3)]}
    arrays = named("x", variables)
    assert sorted(arrays) == ["x['b'][0]", "x['w']"]
    back = fitted("x", arrays, variables)
    assert back["w"] is arrays["x['w']"] and back["b"][0] is arrays["x['b'][0]"]
    for wrong, told in [
        ({**arrays, "x['w']": np.ones(4, np.float32)}, r"x\['w'\]: float32\[4\], needed float32\[2, 2\]"),
        ({**arrays, "x['w']": np.ones((2, 2))}, r"x\['w'\]: float64\[2, 2\], needed float32"),
        ({"x['w']": arrays["x['w']"]}, r"x\['b'\]\[0\]: missing, needed float64\[3\]"),
    ]:
        with pytest.raises(CheckpointError, match=told):
            fitted("x", wrong, variables)


def test_a_digest_sees_names_types_shapes_and_bits():
    trees = [
        {"w": np.zeros(4, np.float32)}, {"v": np.zeros(4, np.float32)}, {"w": np.zeros(4, np.int32)},
        {"w": np.zeros((2, 2), np.float32)}, {"w": np.array([0, 0, 0, -0.0], np.float32)},
    ]  # fmt: skip
    assert len({digest(tree) for tree in trees}) == len(trees) and digest(trees[0]) == digest(dict(trees[0]))


def test_rows_become_bytes_and_rows_again():
    rows = {"a": RNG.normal(size=(3, 2, 2)).astype(np.float32), "b": np.arange(3, dtype=np.int64), "c": np.ones((3, 0))}
    raw = row_bytes(rows)
    assert raw.shape == (3, 16 + 8) and raw.dtype == np.uint8
    like = jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), rows)
    back = rows_from(raw, like)
    for name in rows:
        assert back[name].dtype == rows[name].dtype and np.array_equal(back[name], rows[name]), name


def test_rows_in_a_file(tmp_path):
    file, rows = RowFile(tmp_path, 0, 5, 10), RNG.integers(0, 256, (3, 5)).astype(np.uint8)
    assert file.name == "memory-0.rows" and not file.read(np.array([1])).any() and not (tmp_path / file.name).exists()
    file.append(np.array([], int), rows[:0])
    assert file.length == 0 and file.file is None
    file.append(np.array([4, 0, 9]), rows)
    assert file.length == 3 * 13 == (tmp_path / file.name).stat().st_size and file.offset[[4, 0, 9, 1]].tolist() == [
        0,
        13,
        26,
        -1,
    ]
    assert np.array_equal(file.read(np.array([9, 1, 4, 0])), np.stack([rows[2], np.zeros(5), rows[0], rows[1]]))
    assert not file.wasteful(0)
    for _ in range(3):
        file.append(np.array([0]), rows[:1])
    assert file.length == 6 * 13 and not file.wasteful(0)  # half of it lives
    file.append(np.array([0]), rows[2:])
    assert file.wasteful(0) and file.wasteful(12) and not file.wasteful(13)
    fresh = file.written_anew()
    assert (fresh.name, fresh.length, file.file) == ("memory-1.rows", 3 * 13, None)
    assert np.array_equal(fresh.read(np.array([0, 4, 9])), np.stack([rows[2], rows[0], rows[2]]))
    assert np.array_equal(file.read(np.array([0])), rows[2:])  # opened again
    again = RowFile(tmp_path, 1, 5, 10)
    again.length, again.offset[:] = 13, fresh.offset
    again.open()
    assert (tmp_path / again.name).stat().st_size == 13  # what lies beyond the length was never committed
    longer = RowFile(tmp_path, 1, 5, 10)
    longer.length = 14
    with pytest.raises(CorruptError, match="is shorter than the 14 bytes it had"):
        longer.open()
    with pytest.raises(CheckpointError, match="the row of client 9 is damaged"):
        again.read(np.array([9]))
    for one in (file, fresh, again, longer):
        one.close()


def test_a_row_that_was_moved_is_damaged(tmp_path):
    file = RowFile(tmp_path, 0, 4, 3)
    file.append(np.array([0, 1]), np.full((2, 4), 7, np.uint8))
    file.offset[[0, 1]] = file.offset[[1, 0]]
    with pytest.raises(CheckpointError, match="client 0"):
        file.read(np.array([0]))
    file.close()


def snapshot(round=1, status="running"):
    return Snapshot({"round": round, "status": status}, {"w": np.arange(3)})


def test_a_journal_keeps_two_commits_and_their_files(tmp_path):
    journal = Journal(tmp_path, {"seed": 1})
    for round in (1, 2, 3):
        (tmp_path / f"rows-{round}").write_text("x")
        journal.add("rounds", {"round": round})
        assert journal.pending
        journal.commit(snapshot(round), [f"rows-{round}"])
        assert (journal.number, journal.round, journal.status, bytes(journal.pending)) == (round, round, "running", b"")
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {"log.jsonl", "state-000002.ckpt", "state-000003.ckpt", "rows-2", "rows-3"}
    assert (tmp_path / "log.jsonl").stat().st_size == journal.length
    with open(tmp_path / "log.jsonl", "ab") as log:
        log.write(b"never committed")
    back = Journal(tmp_path, {"seed": 1})
    found = back.last(9)
    assert found.values["round"] == 3 and np.array_equal(found.arrays["w"], np.arange(3))
    assert back.records == {"rounds": [{"round": n} for n in (1, 2, 3)]} and back.length == journal.length
    assert (back.number, back.status, back.round) == (3, "running", 3)
    back.add("rounds", {"round": 4})
    back.commit(snapshot(4), [])
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines()
    assert [json.loads(line)[1]["round"] for line in lines] == [1, 2, 3, 4]
    assert Journal(tmp_path, {"seed": 1}).last(9).values["round"] == 4
    with pytest.raises(CheckpointError, match="seed: 1, now 2"):
        Journal(tmp_path, {"seed": 2}).last(9)


def test_what_came_after_the_mark_is_taken_back_when_rounds_are_added(tmp_path):
    journal = Journal(tmp_path, {})
    journal.add("rounds", {"round": 1})
    journal.mark()
    journal.add("summary", {"final": 0.5})
    journal.commit(snapshot(1, "done"), [])
    assert set(Journal(tmp_path, {}).records) == set()
    same, longer = Journal(tmp_path, {}), Journal(tmp_path, {})
    assert same.last(1) and set(same.records) == {"rounds", "summary"}
    assert longer.last(2) and set(longer.records) == {"rounds"} and longer.length < same.length
    longer.add("rounds", {"round": 2})
    longer.commit(snapshot(2), [])
    assert Journal(tmp_path, {}).last(2).values["round"] == 2
    end = Journal(tmp_path, {})
    end.last(2)
    assert [row["round"] for row in end.records["rounds"]] == [1, 2] and "summary" not in end.records


def test_when_a_commit_is_due(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    rounds, seconds = Journal(tmp_path, {}, Pace(10.0, 3)), Journal(tmp_path, {})
    assert [round for round in range(1, 8) if rounds.due(round)] == [3, 6] and not seconds.due(3)
    now[0] += 9.9
    assert not seconds.due(1)
    now[0] += 0.1
    assert seconds.due(1) and rounds.due(1)
    seconds.cost = 1.0  # dear: at most 2 % of the time
    assert not seconds.due(1)
    now[0] += 40.0
    assert seconds.due(1)
    assert not Journal(None, {}, Pace(0.0, 1)).due(1)
    seconds.commit(snapshot(), [])
    assert seconds.committed == now[0] and seconds.cost == 0.0 and not seconds.due(1)


def test_a_journal_without_a_place_keeps_rows_alone():
    journal = Journal(None, {})
    journal.add("rounds", {"round": 1}, {"round": 2})
    journal.commit(snapshot(), [])
    assert (
        journal.records == {"rounds": [{"round": 1}, {"round": 2}]} and journal.last(1) is None and journal.number == 0
    )


def test_a_damaged_commit_is_passed_over_and_the_numbers_go_on(tmp_path):
    journal = Journal(tmp_path, {})
    for round in (1, 2):
        journal.commit(snapshot(round), [])
    (tmp_path / "state-000002.ckpt").write_bytes(b"nothing")
    (tmp_path / "state-x.ckpt").write_bytes(b"foreign")
    assert [path.name for path in commits(tmp_path)] == ["state-000001.ckpt", "state-000002.ckpt"]
    back = Journal(tmp_path, {})
    with pytest.warns(UserWarning, match="going on from the commit before"):
        assert back.last(9).values["round"] == 1
    assert back.number == 2
    back.commit(snapshot(3), [])
    assert [path.name for path in commits(tmp_path)] == ["state-000001.ckpt", "state-000003.ckpt"]


def test_differences_are_found_at_any_depth():
    before = {"a": {"b": [1, {"c": 2}], "d": None}, "gone": 1, "same": [1, 2]}
    now = {"a": {"b": [1, {"c": 3}], "d": "x" * 80}, "same": [1, 2], "new": [1]}
    assert differences(before, now) == [
        ("a.b[1].c", "2", "3"), ("a.d", "nothing", '"' + "x" * 56 + "..."), ("gone", "1", "nothing"), ("new", "nothing", "[1]"),
    ]  # fmt: skip
    assert differences([1], [1, 2], "p") == [("p", "[1]", "[1, 2]")] and differences({}, {}) == []
    assert differences("y" * 58, "", "p")[0][1] == f'"{"y" * 58}"'  # sixty characters are shown


def test_a_model_file_is_read_back_as_it_was_written(tmp_path):
    weights = {"layer0": {"W": np.arange(6.0, dtype=np.float32).reshape(2, 3).T, "b": np.zeros(3, np.float32)}}
    directory.write_model(tmp_path / "m", {"params": weights, "stats": {"mean": np.ones(2)}})
    found = directory.load_model(tmp_path / "m")
    assert found.keys() == {"params", "state"}  # what a model keeps beside its parameters has its name of old
    for name, value in weights["layer0"].items():
        read = found["params"]["layer0"][name]
        assert read.dtype == value.dtype and np.array_equal(read, value)
    assert np.array_equal(found["state"]["mean"], np.ones(2))


def test_files_are_whole_and_say_what_was_written(tmp_path):
    path = tmp_path / "f"
    assert files.write(path, [b"ab", memoryview(b"c")]) == files.sha256(path) == files.write(tmp_path / "g", "abc")
    assert path.read_bytes() == b"abc" and files.write(path, b"") and path.read_bytes() == b""
    files.append(path, 0, b"hello world")
    files.append(path, 5, bytearray(b"!"))
    assert path.read_bytes() == b"hello!"
    files.make_folder(tmp_path / "a/b")
    files.make_folder(tmp_path / "a/b")
    (tmp_path / "a/b/x").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    files.remove(tmp_path / "link")
    assert (tmp_path / "a/b/x").exists()
    files.remove(tmp_path / "a")
    files.remove(tmp_path / "a")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f", "g"]


def test_what_the_system_says_has_its_place_and_the_room_left(tmp_path, monkeypatch):
    class Usage:
        free = 99_999

    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: Usage)
    with pytest.raises(
        files.DirectoryError, match=rf"^{tmp_path}/x: No such file or directory \(99999 bytes free there\)$"
    ):
        files.sha256(tmp_path / "x")
    said = pytest.raises(files.DirectoryError, match=rf"^{tmp_path}: Input/output error \(99999 bytes free there\)$")
    with said, files.naming(tmp_path):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    inside, outside = tmp_path / "run", tmp_path / "elsewhere"
    for name, place in (
        (inside.name, inside),
        (str(outside), outside),
        (b"run", inside),
    ):  # the first as a descriptor gives it
        with pytest.raises(files.DirectoryError, match=rf"^{place}: "), files.naming(inside):
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)
    files.demand_room(tmp_path, 99_999)
    with pytest.raises(files.DirectoryError, match=r"99999 bytes free, this run may need 0\.1 MB; free some"):
        files.demand_room(tmp_path, 100_000)


def test_a_file_that_fails_leaves_the_old_one_and_nothing_beside(tmp_path, monkeypatch):
    path = tmp_path / "f"
    files.write(path, b"old")

    def broken(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(files.DirectoryError, match="full"):
        files.write(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["f"]


# ------------------------------------------------------------------------------------------------- statistics


def test_an_interval_needs_two_values_that_are_finite():
    assert statistics.interval(np.array([1.0])) is None and statistics.interval(np.array([1.0, np.inf])) is None
    low, high = statistics.interval(np.array([1.0, 2.0]))
    assert (low + high) / 2 == pytest.approx(1.5) and (high - low) / 2 == pytest.approx(12.706204736 * 0.5)
    two = statistics.paired(np.array([1.0, 2.0]), np.array([0.0, 0.5]), True)
    assert two.ci_low == pytest.approx(1.25 - 12.706204736 * 0.25) and two.effect_size == pytest.approx(
        1.25 / 0.3535533906
    )


def test_every_seed_is_drawn_again():
    scores = np.array([[0.0, 1.0]])
    means = lambda stack: stack.mean((-2, -1))
    assert statistics.stratified(scores, means, draws=400) == (0.0, 1.0)


def test_sign_flips_of_infinite_differences_go_by_who_was_better():
    one, other = np.array([1.0, 2.0, np.inf, 4.0]), np.array([0.0, 0.0, 0.0, 5.0])
    assert statistics.differ(one, other) == statistics.sign_flip(np.array([1.0, 1.0, 1.0, -1.0]))
    assert statistics.differ(one[:2], np.array([0.5, 3.0])) == statistics.sign_flip(np.array([0.5, -1.0]))


def test_a_score_below_a_quarter_more_than_a_rare_guess_is_chance():
    run = lambda method, value: {"method": method, "seed": 0, "metric": "test_accuracy", "final": value, "diverged": 0}
    summary = [run("base", 0.0124), run("better", 0.0126)]
    (group,) = standings.standings([], summary, "base", "final", {"": 0.01}).values()
    assert {s.method: s.chance for s in group} == {"base": True, "better": False}


def rows_of(scores: dict[str, list], metric="test_accuracy", **more) -> list[dict]:
    return [
        {"method": method, "seed": seed, "metric": metric, "final": value, "best": 9.0, "diverged": 0, **more}
        for method, values in scores.items()
        for seed, value in enumerate(values)
    ]


BASE = [0.50, 0.52, 0.48, 0.51, 0.49, 0.50, 0.53]
BETTER = [b + d for b, d in zip(BASE, [0.1, 0.12, 0.11, 0.1, 0.13, 0.12, 0.11], strict=True)]
LEVEL = [b + d for b, d in zip(BASE, [0.01, -0.01, 0.02, -0.02, 0.0, 0.01, -0.01], strict=True)]


def test_a_table_of_differences_by_hand():
    found = pairing.against(rows_of({"base": BASE, "level": LEVEL, "better": BETTER}), "base", "final")
    base, level, better = found
    assert [row["method"] for row in found] == ["base", "level", "better"] and level["baseline"] == "base"
    assert (base["seeds"], base["diverged"], base["failed"], base["metric"]) == (7, 0, 0, "test_accuracy")
    assert base["mean"] == pytest.approx(np.mean(BASE)) and base["sd"] == pytest.approx(np.std(BASE, ddof=1))
    tests = (*pairing.TESTS, "p_adjusted")
    assert [base[name] for name in tests] == [None] * len(tests) and pairing.others(found) == [level, better]
    assert better["seeds"] == 7 and better["failed"] == better["diverged"] == 0 and better["score"] == "final"
    assert better["mean"] == pytest.approx(np.mean(BETTER)) and better["sd"] == pytest.approx(np.std(BETTER, ddof=1))
    assert (
        better["p_value"] == 2 / 2**7 and better["p_adjusted"] == 4 / 2**7 and level["p_adjusted"] == level["p_value"]
    )
    assert better["probability_of_improvement"] == 1.0 and level["probability_of_improvement"] == 3.5 / 7
    assert better["difference"] == pytest.approx(np.mean(BETTER) - np.mean(BASE))


def test_only_seeds_that_both_ran_are_paired():
    rows = rows_of({"base": BASE, "some": BETTER})
    rows[-1] |= {"status": "failed", "final": None}
    rows[0] |= {"status": "failed", "final": None}
    rows[8]["diverged"] = 1
    base, found = sorted(pairing.against(rows[::-1], "base", "final"), key=lambda row: row["method"])
    assert (base["seeds"], base["failed"]) == (6, 1) and base["mean"] == pytest.approx(np.mean(BASE[1:]))
    assert (found["seeds"], found["failed"], found["diverged"]) == (5, 1, 1)
    kept = [0.0, *BETTER[2:6]]
    assert found["mean"] == pytest.approx(np.mean(kept)) and found["difference"] == pytest.approx(
        np.mean(kept) - np.mean(BASE[1:6])
    )
    none = pairing.against([{**row, "status": "failed"} for row in rows], "base", "final")[1]
    assert none["seeds"] == 0 and none["mean"] is none["p_value"] is none["metric"] is None and none["failed"] == 7
    one = pairing.against(rows_of({"base": [0.5], "other": [0.75]}), "base", "final")[1]
    assert (one["seeds"], one["mean"], one["sd"], one["difference"], one["p_value"]) == (1, 0.75, None, 0.25, None)


def test_variations_are_compared_each_with_its_own_baseline():
    rows = rows_of({"base": BASE, "m": BETTER}, variant="a", lr=1) + rows_of(
        {"base": BETTER, "m": BASE}, variant="b", lr=2
    )
    found = pairing.against(rows, "base", "final", ["lr"])
    assert [(row["variant"], row["lr"]) for row in found] == [("a", 1), ("a", 1), ("b", 2), ("b", 2)]
    assert [(row["variant"], row["lr"], round(row["difference"], 6)) for row in pairing.others(found)] == [
        ("a", 1, 0.112857),
        ("b", 2, -0.112857),
    ]


def test_scores_over_all_variations():
    rows = [
        *rows_of({"a": [0.1, 0.2, 0.3, 0.4], "b": [0.5, 0.6, 0.7, 0.8]}, variant="x"),
        *rows_of({"a": [0.2, 0.2, 0.2, 0.2], "b": [0.1, 0.1, 0.1, 0.9]}, variant="y"),
        *rows_of({"a": [0.9, 0.9, 0.9, 0.9]}, variant="z"),
    ]
    found = pairing.scores_of(rows, "final")
    assert (found.methods, found.metric, found.variations, found.left_out) == (["a", "b"], "test_accuracy", 2, 1)
    assert found.table.tolist() == [[[0.1, 0.2, 0.3, 0.4], [0.2] * 4], [[0.5, 0.6, 0.7, 0.8], [0.1, 0.1, 0.1, 0.9]]]
    a, b = pairing.across(found, "final")
    assert (a["method"], a["variations"], a["left_out"], a["score"]) == ("a", 2, 1, "final")
    assert a["iqm"] == pytest.approx(0.2) and b["iqm"] == pytest.approx((0.1 + 0.5 + 0.6 + 0.7) / 4)
    assert a["mean_rank"] == 2.0 and b["mean_rank"] == 1.0 and a["ci_low"] <= a["iqm"] <= a["ci_high"]
    profiles = pairing.profiles(found, "final")
    assert (
        len(profiles) == 2 * 51
        and profiles[0]["threshold"] == pytest.approx(0.1)
        and profiles[50]["threshold"] == pytest.approx(0.9)
    )
    assert profiles[0]["share"] == 7 / 8 and profiles[51]["share"] == 5 / 8 and profiles[101]["share"] == 0
    assert (
        pairing.scores_of(rows[:8], "final") is None
        and pairing.across(None, "final") == pairing.profiles(None, "final") == []
    )
    rows[8]["diverged"] = 1
    assert pairing.scores_of(rows, "final").table[0, 1].tolist() == [0.0, 0.2, 0.2, 0.2]


# ------------------------------------------------------------------------------------------------------- plan


def local(**changes) -> Local:
    return Local(
        **{
            "batch": 4,
            "epochs": 2,
            "steps": None,
            "shuffle": True,
            "drop_last": False,
            "lr": lambda r: 0.5 / r,
            **changes,
        }
    )


@pytest.fixture(scope="module")
def federation():
    data = {
        "kind": "gaussian_blobs",
        "samples": 130,
        "clients": 6,
        "partition": {"kind": "quantity", "distribution": "lognormal"},
    }
    return federations_of(read({"name": "s", "data": data}), None, np.dtype(np.float32))[0]


def plan(federation, cohort=None, rounds=5, labelled=False, **changes) -> Plan:
    return Plan(
        federation, cohort or selection.uniform(3), local(**changes), 7, rounds, Adversary(ids=(1, 3)), labelled
    )


def test_a_round_says_who_what_and_how_much(federation):
    made = plan(federation, labelled=True)
    work, sizes = made.round(2)[0], federation.sizes
    drawn = np.sort(generator(7, Stream.COHORT, 2).choice(np.flatnonzero(sizes > 0), 3, replace=False))
    assert work.ids.tolist() == drawn.tolist() and work.count.tolist() == [1, 1, 1] and work.round == 2
    steps = 2 * -(-sizes[drawn] // 4)
    assert (
        work.steps.tolist() == steps.tolist() and work.samples.tolist() == work.weight.tolist() == sizes[drawn].tolist()
    )
    assert work.lr == 0.25 and work.lr_sum.tolist() == (0.25 * steps).tolist() and work.seconds == steps.max()
    assert np.array_equal(made.labels, federation.label_counts()) and plan(federation).labels.shape == (6, 0)
    assert np.flatnonzero(made.malicious).tolist() == [1, 3]


def test_who_is_drawn_twice_counts_twice_and_who_takes_no_step_weighs_nothing(federation):
    made = plan(federation, selection.listed([[2, 0, 2], [1]]), epochs=None, steps=[3, 1, 0, 2, 2, 2])
    work = made.round(1)[0]
    assert (work.ids.tolist(), work.count.tolist(), work.steps.tolist()) == ([0, 2], [1, 2], [3, 0])
    assert work.weight.tolist() == [federation.sizes[0], 0] and work.seconds == 3.0
    assert made.round(2)[0].ids.tolist() == [1] and made.round(3)[0].ids.tolist() == [0, 2]
    assert made.members.tolist() == [0, 1, 2]
    none = plan(federation, selection.Cohort(lambda population, round, rng: population.ids[:0], lambda N: 0))
    assert none.round(1)[0].seconds == 0.0 and len(none.members) == 0


def test_members_are_those_of_all_rounds_up_to_a_thousand(federation, monkeypatch):
    monkeypatch.setattr(planning, "SURVEYED", 2)
    cohort = selection.listed([[0], [1], [2]])
    assert plan(federation, cohort, rounds=2).members.tolist() == [0, 1]
    assert plan(federation, cohort, rounds=3).members.tolist() == [0, 1, 2, 3, 4, 5]
    assert (
        len(list(plan(federation, cohort, rounds=3).survey())) == 2
        and len(list(plan(federation, cohort, rounds=1).survey())) == 1
    )


def test_rates_by_step_are_summed_up(federation):
    made = plan(federation, selection.all(), epochs=None, steps=[0, 1, 2, 3, 4, 5], rate=lambda t: 1.0 / (t + 1))
    assert made.round(1)[0].lr_sum == pytest.approx([0, 1, 1.5, 11 / 6, 25 / 12, 137 / 60])


@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_are_the_samples_in_the_order_of_the_stream(federation, drop_last):
    made = plan(federation, drop_last=drop_last)
    for client in range(federation.N):
        rows = federation.holders.of(client)
        n = len(rows)
        per_epoch = max(n // 4, 1) if drop_last else -(-n // 4)
        got, valid = made.batches(3, client)
        order = rows[None].repeat(2, 0)
        if n > 4:
            order = generator(7, Stream.BATCHES, 3, client).permuted(order, axis=1)
        wanted = [epoch[i : i + 4] for epoch in order for i in range(0, 4 * per_epoch, 4)]
        assert (
            got.shape == (2 * per_epoch, 4) and got.dtype == np.int32 and len(wanted) == made.steps[client] == len(got)
        )
        for step, samples in enumerate(wanted):
            assert (
                valid[step] == len(samples)
                and got[step, : valid[step]].tolist() == list(samples)
                and not got[step, valid[step] :].any()
            )
        passed, counted = made.single_pass(client)
        assert counted.sum() == min(n, 4 * per_epoch) and passed[0, : counted[0]].tolist() == list(rows[: counted[0]])


def test_full_batches_and_fixed_steps(federation):
    made = plan(federation, batch=None, epochs=None, steps=3)
    rows, valid = made.batches(1, 2)
    held = federation.holders.of(2)
    assert rows.tolist() == [held.tolist()] * 3 and valid.tolist() == [len(held)] * 3
    unshuffled = plan(federation, shuffle=False).batches(1, 2)[0]
    assert unshuffled[0].tolist() == held[:4].tolist()
    work = made.probe_plan(made.round(1)[0])
    assert work.steps.tolist() == [1, 1, 1] and work.lr_sum.tolist() == [0, 0, 0]
    assert (
        plan(federation).probe_plan(plan(federation).round(1)[0]).steps.tolist()
        == (-(-plan(federation).round(1)[0].samples // 4)).tolist()
    )


def test_one_batch_of_everything_stays_in_order_and_who_takes_no_step_takes_none_before(federation):
    size = int(federation.sizes[2])
    rows, valid = plan(federation, batch=size).batches(1, 2)
    held = federation.holders.of(2)
    assert rows.tolist() == [held.tolist()] * 2 and valid.tolist() == [size] * 2
    made = plan(federation, selection.all(), epochs=None, steps=[0, 1, 2, 3, 4, 5])
    assert (made.probe_plan(made.round(1)[0]).steps > 0).tolist() == [False, True, True, True, True, True]
    assert Plan(federation, selection.all(), local(), 7, 5).labels.shape == (6, 0)
    assert made.round(3)[0].age.tolist() == [0] * 6 and made.columns(made.round(3)[0]) == {} and made.flown({}) == []
    assert made.begin() == {}


def test_how_many_a_round_draws_on_average(federation):
    sizes = federation.sizes[federation.sizes > 0]
    assert plan(federation).expected == pytest.approx((3.0, 3 / len(sizes) * sizes.sum()))
    assert plan(federation, selection.weighted(2)).expected == pytest.approx((2.0, 2 * (sizes**2).sum() / sizes.sum()))
    unknown = selection.Cohort(lambda population, round, rng: population.ids, lambda N: N)
    assert plan(federation, unknown).expected == (0.0, 0.0) and plan(federation, unknown).pure
    assert not plan(federation, selection.power_of_choice(2, 3)).pure


def test_steps_and_shares_by_hand():
    sizes = np.array([0, 1, 4, 5, 9])
    assert planning.planned_steps(sizes, local()).tolist() == [0, 2, 2, 4, 6]
    assert planning.planned_steps(sizes, local(drop_last=True)).tolist() == [0, 2, 2, 2, 4]
    assert planning.planned_steps(sizes, local(batch=None)).tolist() == [0, 2, 2, 2, 2]
    assert planning.planned_steps(sizes, local(epochs=None, steps=5)).tolist() == [0, 5, 5, 5, 5]


def test_plans_of_equal_order_hand_out_equal_batches(federation):
    assert plan(federation).order == plan(federation, lr=lambda r: 9.0).order == plan(federation, selection.all()).order
    others = [{"batch": 5}, {"shuffle": False}, {"drop_last": True}, {"epochs": 3}]
    assert len({plan(federation, **changes).order for changes in [{}, *others]}) == 5


def test_cohorts_draw_what_they_say():
    population = selection.Population(np.arange(5, 25), np.arange(1, 21))
    draw = lambda cohort, round=1: cohort.draw(population, round, np.random.default_rng(3))
    rng = lambda: np.random.default_rng(3)
    assert draw(selection.all()).tolist() == population.ids.tolist() and selection.all().nominal(20) == 20
    assert draw(selection.uniform(4)).tolist() == rng().choice(population.ids, 4, replace=False).tolist()
    assert selection.uniform(4).nominal(20) == 4 and not selection.uniform(4).repeats
    assert draw(selection.poisson(0.3)).tolist() == population.ids[rng().random(20) < 0.3].tolist()
    assert selection.poisson(0.3).nominal(20) == 6 and selection.poisson(0.01).nominal(20) == 1
    weighted = draw(selection.weighted(50))
    assert weighted.tolist() == rng().choice(population.ids, 50, p=population.samples / 210).tolist()
    assert selection.weighted(50).nominal(20) == 50 and selection.weighted(50).repeats
    assert [draw(selection.cyclic(8), r).tolist() for r in (1, 2, 3)] == [
        list(range(5, 13)), list(range(13, 21)), [21, 22, 23, 24, 5, 6, 7, 8],
    ]  # fmt: skip
    assert (
        selection.cyclic(8).nominal(20) == 8 and selection.uniform().nominal(99) == selection.cyclic().nominal(99) == 10
    )
    listed = selection.listed([[7, 5], [6, 6, 9]])
    assert [draw(listed, r).tolist() for r in (1, 2, 3)] == [[7, 5], [6, 6, 9], [7, 5]]
    assert (
        listed.nominal(20) == 3
        and listed.names == (5, 6, 7, 9)
        and listed.repeats
        and not selection.listed([[1], [1]]).repeats
    )
