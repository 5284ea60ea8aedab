"""Attacks on messages against NumPy, with absent and infinite clients, and in runs."""

from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import oracle
from test_codecs import SIZES, quadratics, trained

import fedsim
from fedsim import stages
from fedsim.compose import FAMILIES
from fedsim.stages.little_is_enough import largest_z
from tests.cohorts import cohort_of, context_of

K, D = 10, 6
WEIGHTS = np.array([2.0, 0, 1, 3, 1, 0, 2, 1, 1, 4])
MALICIOUS = np.array([0, 1, 0, 0, 1, 0, 0, 1, 0, 1], bool)  # 1 is absent
LOST = 8  # an honest client that is not finite


def stack():
    X = np.random.default_rng(5).normal(size=(K, D)) + 0.5
    X[LOST] = np.nan
    return X


def sent(link, **more):
    return fedsim.transmit(link, stack(), weights=WEIGHTS, malicious=MALICIOUS, **more)[0]


def known(knowledge="cohort"):
    side = MALICIOUS if knowledge == "own" else ~MALICIOUS
    return stack()[(WEIGHTS > 0) & side & np.isfinite(stack()).all(1)]


def pairs(H):
    return np.linalg.norm(H[:, None] - H[None], axis=2)


STATISTICS = [{"kind": kind} for kind in ("inner_product", "min_max", "min_sum")]
STATISTICS += [{"kind": "little_is_enough", "z": 1.5}]  # else z counts who came


@pytest.mark.long
@pytest.mark.parametrize("knowledge", ["cohort", "own"])
@pytest.mark.parametrize("link", STATISTICS, ids=lambda link: link["kind"])
def test_statistics_are_of_those_who_came_and_are_finite(link, knowledge):
    """As if an attacker saw nobody but them; what it sends then is held by the oracles."""
    seen = known(knowledge)
    want = fedsim.transmit(link, np.vstack([seen, seen[:1]]), malicious=[len(seen)])[0][-1]
    for row in sent({**link, "knowledge": knowledge})[MALICIOUS & (WEIGHTS > 0)]:
        np.testing.assert_allclose(row, want, rtol=1e-9, atol=1e-12)


def test_the_furthest_point_scales_with_the_updates():
    X = stack()[WEIGHTS > 0]
    end = lambda scale: fedsim.transmit("min_max", scale * X, malicious=[0])[0][0] / scale
    np.testing.assert_allclose(end(1024.0), end(1.0), rtol=1e-5)


@pytest.mark.long
def test_the_largest_z_is_that_of_the_authors_table():
    (case,) = (case for case in oracle("attacks") if case["name"] == "alie_zmax_table")
    with jax.enable_x64(True):
        for row in case["expected"]["table"]:
            updates = cohort_of(np.zeros((110, 1)), jnp.arange(110) < row["n"])
            context = context_of(110, malicious=jnp.arange(110) < row["m"])
            z = float(largest_z(updates, context))
            assert z == pytest.approx(row["z_max"], abs=1e-12)
            honest, s = row["n"] - row["m"], row["n"] // 2 + 1 - row["m"]
            assert z == pytest.approx(NormalDist().inv_cdf((honest - s) / honest), abs=1e-9)


def test_any_share_of_malicious_clients_gives_a_finite_z():
    clients = jnp.arange(5)

    @jax.jit
    def z_of(n, m):
        updates = cohort_of(np.zeros((5, 1), np.float32), clients < n)
        return largest_z(updates, context_of(5, malicious=clients < m))

    for n, m in ((3, 2), (4, 4), (2, 1), (1, 1)):
        assert np.isfinite(float(z_of(n, m))), (n, m)


def test_replacement_makes_the_mean_the_attacker_s_own():
    X = np.array([[1.0, -2], [-1, 2], [0, 0], [3, 4], [0.5, 6]])
    weights = [1, 1, 2, 1, 3]
    got, _ = fedsim.transmit("model_replacement", X, weights=weights, malicious=[3, 4])
    own = np.average(X[3:], axis=0, weights=weights[3:])
    assert np.average(got, axis=0, weights=weights).tolist() == own.tolist()
    link = {"kind": "model_replacement", "weights": "uniform"}
    uniform, _ = fedsim.transmit(link, X, malicious=[3, 4])
    assert uniform[3].tolist() == (2.5 * X[3]).tolist()
    link = {"kind": "constrain_and_scale", "norm": 8.0, "boost": 1.5}
    bounded, _ = fedsim.transmit(link, X, malicious=[3, 4])
    assert bounded[3].tolist() == [4.5, 6]
    assert np.linalg.norm(bounded[4]) == pytest.approx(8)


def test_fang_s_values_lie_just_beyond_the_honest_ones():
    rows, H = sent("fang")[MALICIOUS & (WEIGHTS > 0)], known()
    low, high, mean = H.min(0), H.max(0), H.mean(0)
    for row in rows:
        down, up = np.minimum(2 * low, low / 2), np.maximum(2 * high, high / 2)
        assert ((row <= low) & (row >= down))[mean > 0].all()
        assert ((row >= high) & (row <= up))[mean <= 0].all()
    assert not (rows[0] == rows[1]).any()


@pytest.mark.long
def test_fang_s_values_are_three_to_four_deviations_beyond_the_mean_of_its_own():
    rows = sent({"kind": "fang", "knowledge": "own"})[MALICIOUS & (WEIGHTS > 0)]
    mean, deviation = known("own").mean(0), known("own").std(0)
    away = np.where(mean > 0, mean - rows, rows - mean) / deviation
    assert ((away >= 3) & (away <= 4)).all() and np.ptp(away) > 0.5


def krums_choice(rows, f):
    """The first row with the least sum of squared distances to its nearest others."""
    square = ((rows[:, None] - rows[None]) ** 2).sum(-1)
    n = max(len(rows) - f - 2, 1)
    return int(np.argmin([np.sort(np.delete(row, i))[:n].sum() for i, row in enumerate(square)]))


def fang_on_krum(H, numbers, threshold):
    """λ by asking Krum itself about every stack; the copies stand behind the known rows."""
    s, n, scale = np.sign(H.mean(0)), max(len(H) - 2, 1), 0.0
    for copies in numbers:
        least = np.sort(pairs(H), axis=1)[:, 1 : n + 1].sum(1).min()
        scale = least / max(len(H) - copies - 1, 1) + np.linalg.norm(H, axis=1).max()
        scale /= np.sqrt(H.shape[1])
        while scale >= threshold:
            rows = np.concatenate([H, np.tile(-scale * s, (copies, 1))])
            if krums_choice(rows, copies) >= len(H):
                return -scale * s
            scale /= 2
    return -scale * s


ROOM = 18  # rows that hold every stack, so that all share a program


def on_krum(X, malicious, place, **more):
    """What the last malicious client sends, in a stack with rows at `place` among absent ones."""
    stack, bad = np.full((ROOM, X.shape[1]), np.nan), np.zeros(ROOM, bool)
    stack[place], bad[place] = X, malicious
    link = {"kind": "fang", "against": "krum", "threshold": 1e-3, **more}
    got = fedsim.transmit(link, stack, weights=np.isin(np.arange(ROOM), place), malicious=bad)[0]
    sent = got[bad & np.isin(np.arange(ROOM), place)]
    assert (sent == sent[0]).all()
    return sent[-1]


@pytest.mark.long
@pytest.mark.parametrize("knowledge", ["cohort", "own"])
def test_fang_on_krum_is_what_asking_krum_again_and_again_finds(knowledge):
    rng = np.random.default_rng(3)
    found = []
    for shift in (0.0, 0.05, 1.0):
        for h, m in ((3, 2), (4, 1), (5, 3), (6, 4), (9, 3), (11, 5)):
            X = rng.normal(size=(h + m + 1, 12)) + shift
            X[h + m] = np.inf  # an honest client that the server drops
            malicious = np.arange(h + m + 1) // h == 1
            malicious[h + m] = False
            place = np.sort(rng.permutation(ROOM)[: h + m + 1])
            got = on_krum(X, malicious, place, knowledge=knowledge)
            H, numbers = (X[:h], [m]) if knowledge == "cohort" else (X[h : h + m], range(1, m + 1))
            np.testing.assert_allclose(got, fang_on_krum(H, numbers, 1e-3), rtol=1e-11)
            found.append(np.abs(got).max() >= 1e-3)
    assert any(found) and not all(found)


def spied(attack, rounds=3, warmup=None):
    """What malicious clients send in a few rounds of one stage, whose params are those given."""
    rng, params = np.random.default_rng(1), np.zeros(D)
    updates, apply = [], jax.jit(attack.apply)
    with jax.enable_x64(True):
        state = attack.init(jnp.asarray(params), jnp.ones(K, bool))
        for r in range(rounds):
            X = rng.normal(size=(K, D)) * np.array([9, 1, 1, 1, 1, 1])
            shared, bad = {"params": jnp.asarray(params)}, jnp.asarray(MALICIOUS)
            context = context_of(K, key=jax.random.key(r), round=r, shared=shared, malicious=bad)
            got, state, _ = apply(cohort_of(X, jnp.asarray(WEIGHTS > 0)), state, context)
            updates.append((X, params, np.asarray(got.delta)))
            params = params + rng.normal(size=D) * np.array([1, 0, 2, 0, 3, 0])
    return updates, state


def test_free_riders_send_the_last_step():
    (first, second, _), _ = spied(stages.free_rider())
    assert (first[2][MALICIOUS] == 0).all()
    step = np.tile(second[1] - first[1], (4, 1))
    np.testing.assert_allclose(second[2][MALICIOUS], step, rtol=1e-15)
    (one, _, _), _ = spied(stages.free_rider(message="noise", std=2.0))
    assert len(np.unique(one[2][MALICIOUS])) == 4 * D and np.abs(one[2][MALICIOUS]).max() < 12


def test_neurotoxin_leaves_out_what_moved_most():
    (first, second, _), _ = spied(stages.neurotoxin(density=0.5))
    assert (first[2] == first[0]).all()
    assert (second[2][MALICIOUS][:, ::2] == 0).all()
    assert (second[2][:, 1::2] == second[0][:, 1::2]).all()


def test_mimic_copies_an_honest_client_along_the_widest_direction():
    updates, state = spied(FAMILIES["attack"]["mimic"](warmup=5), rounds=8)
    assert abs(float(state.z[0])) > 0.98 and int(state.rounds) == 5
    z = np.asarray(state.z)
    there = (WEIGHTS > 0) & ~MALICIOUS
    for X, _, got in updates[-3:]:
        best = np.flatnonzero(there)[np.argmax(X[there] @ z)]
        assert (got[MALICIOUS] == X[best]).all()


@pytest.mark.long
def test_a_round_of_some_of_the_clients_others_without_samples_and_half_a_server_step():
    ids, bad = [0, 1, 2, 3, 4, 6], [1, 4]  # client 2 is malicious, too, and has no samples
    result = quadratics(
        rounds=1,
        cohort={"kind": "listed", "rounds": [ids]},
        client={"lr": 0.1, "batch": "full", "steps": 2},
        fleet={"malicious": [*bad, 2]},
        wire=[{"kind": "little_is_enough", "z": 1.5}],
        server=["mean", {"kind": "sgd", "lr": 0.5}],
    )
    x, honest = np.full(4, 2.0), [0, 3, 6]
    own = np.array([trained(x, i, lr=0.1, steps=2) for i in honest])
    sent = np.vstack([own, [own.mean(0) - 1.5 * own.std(0, ddof=1)] * 2])
    weights = [SIZES[i] for i in (*honest, *bad)]
    want = x + 0.5 * np.average(sent, axis=0, weights=weights)
    np.testing.assert_allclose(result.model(), want, rtol=1e-12)
