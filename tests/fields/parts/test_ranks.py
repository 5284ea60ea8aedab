"""Clients with adapters of different ranks: against pairs of their own ranks in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.scenarios import consecutive
from test_submodels import BROKEN, COHORTS, OWNER, SERVER_LR, SIZES, STEPS, work_of
from test_submodels import written as of_parts

import fedsim
from fedsim.fields.parts.ranks import part_of_ranks

RNG = np.random.default_rng(4)
m, n, R = 7, 6, 3
ALPHA = 3.0
X = RNG.normal(size=(sum(SIZES), m))
Y = X @ RNG.normal(size=(m, n))
RANKS = [3, 2, 1, 2, 3, 3]  # in every cohort one has all columns
LR = 0.05
ADAPTER = {"kind": "lora", "rank": R, "alpha": ALPHA}


def written(how: str, rank: dict | None, **sections) -> dict:
    client = {"lr": LR, **({"rank": rank} if rank else {}), **sections.pop("client", {})}
    defaults = {
        "model": {"kind": "linear", "bias": False, "adapter": ADAPTER},
        "server": [{"kind": "lora_mean", "how": how}, {"kind": "sgd", "lr": SERVER_LR}],
    }
    return of_parts(None, client=client, **{**defaults, **sections})


def run(how: str, rank: dict | None, **sections) -> fedsim.Result:
    data = fedsim.Arrays(X, Y)
    return fedsim.run(written(how, rank, **sections), data=data, partition=consecutive(SIZES))


def listed(ranks=RANKS) -> dict:
    return {"kind": "listed", "ranks": ranks}


def close(a, b, tolerance=1e-10):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------- by hand


def trained(client: int, W: np.ndarray, A: np.ndarray, B: np.ndarray) -> tuple:
    """The client's own pair, of as many columns as it has, after its steps at alpha over these."""
    x, y = X[OWNER == client], Y[OWNER == client]
    scale = ALPHA / RANKS[client]
    for _ in range(STEPS):
        gradient = scale * x.T @ (x @ (W + scale * A @ B) - y) / len(x)
        A, B = A - LR * gradient @ B.T, B - LR * A.T @ gradient
    return A, B


def drawn(result, client: int, took_part: int) -> np.ndarray:
    """The A that a client begins with under `stack`, before its columns are cut off."""
    from fedsim.fields.adapters.adapted import begun_anew

    start = result.experiment.shared[0]
    if not took_part:
        return np.asarray(start["params"]["W"]["lora_A"])
    with jax.enable_x64(True):
        row = jax.tree.map(lambda rows: rows[client], result.state()["client"])
        key = jax.random.fold_in(jax.random.wrap_key_data(row["key"]), took_part)
        return np.asarray(begun_anew(start, result.experiment.model.adapter, key)["W"]["lora_A"])


def best(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    U, s, Vt = np.linalg.svd(S)
    U, Vt = U[:, :R], Vt[:R]
    signs = np.sign(np.take_along_axis(U, np.abs(U).argmax(0)[None], 0))[0]
    return U * signs, (s[:R] * signs)[:, None] * Vt


def by_hand(how: str, result, by_norms: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W, A and B of a loop over rounds and clients, with dense products."""
    start = result.experiment.shared[0]
    W = np.zeros((m, n))
    A, B = (np.asarray(start["params"]["W"][name]) for name in ("lora_A", "lora_B"))
    took_part = dict.fromkeys(range(len(SIZES)), 0)
    for cohort in COHORTS:
        present = [client for client in cohort if client != BROKEN and SIZES[client]]
        if not present:
            continue
        sent, weights = [], []
        for client in present:
            k = RANKS[client]
            A_sent = drawn(result, client, took_part[client]) if how == "stack" else A
            B_sent = k / R * B if how != "stack" else np.zeros((R, n))
            A_k, B_k = trained(client, W, A_sent[:, :k], B_sent[:k])
            took_part[client] += 1
            sent.append((k, A_k, B_k))
            norm = np.linalg.norm(ALPHA / k * A_k @ B_k)
            weights.append(norm if by_norms else SIZES[client])

        S, A_mean, B_mean = np.zeros((m, n)), np.zeros((m, R)), np.zeros((R, n))
        for (k, A_k, B_k), p in zip(sent, np.array(weights) / sum(weights), strict=True):
            S += p * ALPHA / k * A_k @ B_k
            A_mean[:, :k] += p * A_k
            B_mean[:k] += p * R / k * B_k
        if how == "stack":
            W = W + SERVER_LR * S
            continue
        A_new, B_new = best(R / ALPHA * S) if how == "product" else (A_mean, B_mean)
        A, B = A + SERVER_LR * (A_new - A), B + SERVER_LR * (B_new - B)
    return W, A, B


def check(how: str, weights: str = "samples") -> fedsim.Result:
    rule = {"kind": "lora_mean", "how": how, "weights": weights}
    result = run(how, listed(), server=[rule, {"kind": "sgd", "lr": SERVER_LR}])
    leaves = result.model()["W"]
    made = by_hand(how, result, by_norms=weights == "norms")
    for name, expected in zip(("base", "lora_A", "lora_B"), made, strict=True):
        close(leaves[name], expected)
    return result


def pair_bytes(rank: int) -> int:
    return 4 * rank * (m + n)


@pytest.mark.long
def test_a_client_trains_the_best_pair_of_its_rank_and_sends_that_alone():
    """FlexLoRA: some of the clients, one without samples, a round of nobody, half a server step."""
    result = check("product")
    sent = [sum(pair_bytes(RANKS[client]) for client in cohort) for cohort in COHORTS]
    for column in ("bytes_up", "bytes_down"):
        assert np.diff(result.rounds[column]).tolist() == sent
    assert result.clients["rank"].tolist() == RANKS


@pytest.mark.long
@pytest.mark.parametrize("how", ["factors", "stack"])
def test_zeros_fill_up_the_pairs_and_stacks_have_all_columns(how):
    result = check(how)
    if how == "stack":
        stacks = [sum(pair_bytes(RANKS[k]) for k in c if k != BROKEN and SIZES[k]) for c in COHORTS]
        assert result.rounds["lora_mean/merged_bytes"].iloc[1:].tolist() == stacks


@pytest.mark.long
@pytest.mark.parametrize("how", ["factors", "product"])
def test_a_client_counts_by_the_norm_of_its_own_pair(how):
    """HetLoRA's weights, of pairs at their own scale, over runs with half a server step."""
    check(how, weights="norms")


# ------------------------------------------------------------------------------- what clients have


def test_what_a_client_keeps_is_what_it_trains():
    shapes = {"W": {"lora_A": (5, 4), "lora_B": (4, 3)}, "head": (3, 2)}
    params = jax.tree.map(jnp.zeros, shapes, is_leaf=lambda leaf: isinstance(leaf, tuple))
    part = part_of_ranks([4, 1])
    kept = part.kept(params)
    assert jax.tree.map(list, kept) == {"W": {"lora_A": [20, 5], "lora_B": [12, 3]}, "head": [6, 6]}
    for level in (0, 1):
        has = part.trains(params, work_of(level))
        counts = jax.tree.map(lambda leaf: int(leaf.sum()), has)
        assert counts == jax.tree.map(lambda by_level, level=level: by_level[level], kept)
    assert has["W"]["lora_A"][:, 0].all()
    assert has["W"]["lora_B"][0].all()


@pytest.mark.long
def test_seconds_follow_the_rank():
    """A message takes the time of its bytes; a step that of its products, of frozen leaves too."""
    fleet = {
        "speed": {"kind": "classes", "seconds": [1.0, 2.0]},
        "links": {"kind": "constant", "up": 10.0, "down": 20.0},
    }
    rank = {"kind": "by_speed", "ranks": [1, 3]}
    sections = {"fleet": fleet, "rounds": 1, "cohort": "all"}
    result = run("product", rank, **sections)
    plan = result.experiment.plans[0]
    ranks = np.array([3, 1])[plan.level]
    assert set(ranks) == {1, 3}
    assert result.clients["rank"].tolist() == ranks.tolist()
    share = (2 * m * n + 3 * ranks * (m + n)) / (2 * m * n + 3 * R * (m + n))
    steps = np.where(np.array(SIZES) > 0, STEPS, 0)
    plain = run("product", None, **{**sections, "rounds": 0})
    speed = plain.experiment.plans[0].machines.speed.step
    expected = 0.15 * pair_bytes(1) * ranks + steps * speed * share
    np.testing.assert_allclose(plan.seconds, expected, rtol=1e-12)
