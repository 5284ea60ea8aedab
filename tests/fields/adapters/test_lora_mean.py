"""Means of low-rank pairs: against dense matrices in NumPy, and against FedAvg's steps by hand."""

import jax
import numpy as np
import pytest

import fedsim
from fedsim import tree
from fedsim.errors import ScenarioError

RNG = np.random.default_rng(5)
K, m, r, n = 5, 7, 2, 6
COUNTS = np.array([3.0, 1, 0, 4, 2])  # the third has not come
SHARES = COUNTS / COUNTS.sum()
PAIRS = {"lora_A": RNG.normal(size=(K, m, r)), "lora_B": RNG.normal(size=(K, r, n))}
ROWS = {"first": {"W": PAIRS}, "b": RNG.normal(size=(K, 3))}


def reduced(how: str, rows=ROWS, counts=COUNTS, params=None, **keys):
    link = {"kind": "lora_mean", "how": how, **keys}
    return fedsim.aggregate(link, rows, weights=counts, params=params)


def product(pair) -> np.ndarray:
    return np.asarray(pair["lora_A"]) @ np.asarray(pair["lora_B"])


def mean_of_products(rows, shares) -> np.ndarray:
    return np.einsum("k,kmr,krn->mn", shares, rows["lora_A"], rows["lora_B"])


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.long
def test_the_product_has_the_best_rank_and_other_leaves_the_plain_mean():
    """The singular values of the dense sum, which the rule never makes."""
    for weights, shares in (("samples", SHARES), ("uniform", np.where(COUNTS > 0, 0.25, 0))):
        made = reduced("product", weights=weights)
        pair = made["first"]["W"]
        U, s, Vt = np.linalg.svd(mean_of_products(PAIRS, shares))
        close(product(pair), U[:, :r] * s[:r] @ Vt[:r])
        close(pair["lora_A"].T @ pair["lora_A"], np.eye(r))
        close(made["b"], shares @ ROWS["b"])


@pytest.mark.long
def test_a_client_counts_by_the_norm_of_its_product():
    """HetLoRA: ‖A_k B_k‖ over both targets, whatever the samples; 0 of a client that sent zeros."""
    second = {"lora_A": RNG.normal(size=(K, 4, 1)), "lora_B": RNG.normal(size=(K, 1, 3))}
    rows = {"W": PAIRS, "V": second, "b": ROWS["b"]}
    rows = jax.tree.map(lambda leaf: np.concatenate([leaf, 0 * leaf[:1]]), rows)
    counts = np.array([*COUNTS, 5])
    dense = [leaf["lora_A"] @ leaf["lora_B"] for leaf in (rows["W"], rows["V"])]
    norms = np.sqrt(sum((product**2).sum((1, 2)) for product in dense)) * (counts > 0)
    shares = norms / norms.sum()
    assert shares[-1] == 0

    made = reduced("factors", rows, counts, weights="norms")
    jax.tree.map(lambda got, leaf: close(got, np.tensordot(shares, leaf, 1)), made, rows)
    U, s, Vt = np.linalg.svd(mean_of_products(rows["W"], shares))
    best = reduced("product", rows, counts, weights="norms")
    close(product(best["W"]), U[:, :r] * s[:r] @ Vt[:r])

    # Of the same length, or of none: they count the same.
    for scale in (1.0, 0.0):
        equal = jax.tree.map(lambda leaf, scale=scale: scale * np.repeat(leaf[:1], K, 0), PAIRS)
        rows = {"W": equal, "b": ROWS["b"]}
        by_norms = reduced("factors", rows, weights="norms")
        jax.tree.map(close, by_norms, reduced("factors", rows, weights="uniform"))


def test_norms_are_no_weights_of_a_sum():
    with pytest.raises(ScenarioError, match="weights: norms are of how=factors and how=product"):
        run("stack", server=[{"kind": "lora_mean", "how": "stack", "weights": "norms"}])


@pytest.mark.optimised
@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_empty_slots_change_no_bit_wherever_they_are(dtype):
    """More of them than the next power of two has rows, from a model that is not zero."""
    rows = jax.tree.map(lambda leaf: leaf.astype(dtype), PAIRS)
    params = jax.tree.map(lambda leaf: leaf.mean(0), rows)
    bits = lambda made: [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(made)]
    reduce = lambda *given: (
        bits(reduced("product", *given, params=params))
        + bits(reduced("factors", *given, params=params, weights="norms"))
    )
    want = reduce(rows)
    for place in (np.arange(K) + 2, np.array([0, 4, 5, 11, 19])):

        def spread(leaf, place=place):
            wide = np.full((20, *leaf.shape[1:]), np.nan, leaf.dtype)
            wide[place] = leaf
            return wide

        counts = np.zeros(20)
        counts[place] = COUNTS
        assert reduce(jax.tree.map(spread, rows), counts) == want


def test_nobody_reports_and_nothing_moves():
    for how, weights in (("product", "samples"), ("factors", "norms")):
        made = reduced(how, counts=np.zeros(K), weights=weights)
        assert all((leaf == 0).all() for leaf in jax.tree.leaves(made))


# --------------------------------------------------------------------------------------- the runs

X = RNG.normal(size=(20, m))
Y = X @ RNG.normal(size=(m, n))
OWNER = np.repeat([0, 1, 2, 3], [8, 6, 4, 2])
COHORTS = [[0, 1, 3], [2], [0, 2, 3], [0, 1], [0, 1, 3]]
BROKEN = 2  # a client whose messages are not finite: nobody is left of the second round
LR, STEPS, SERVER_LR = 0.05, 3, 0.5


def written(how: str, **sections) -> dict:
    return {
        "name": "pairs",
        "rounds": len(COHORTS),
        "data": {"partition": "natural"},
        "model": {"kind": "linear", "bias": False, "adapter": {"kind": "lora", "rank": r}},
        "cohort": {"kind": "listed", "rounds": COHORTS},
        "client": {"lr": LR, "batch": "full", "steps": STEPS},
        "wire": ["nonfinite"],
        "fleet": {"malicious": [BROKEN]},
        "server": [{"kind": "lora_mean", "how": how}, {"kind": "sgd", "lr": SERVER_LR}],
        "evaluate": {"every": 1},
        "numerics": {"dtype": "float64"},
        **sections,
    }


def run(how: str, watch=None, **sections) -> fedsim.Result:
    data = fedsim.Arrays(X, Y, client=OWNER)
    return fedsim.run(written(how, **sections), data=data, watch=watch)


def pair_of(params) -> dict:
    return {name: np.asarray(params["W"][name]) for name in ("lora_A", "lora_B")}


def by_hand(how: str, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Least squares in NumPy, with dense products -> A, B, errors of the rounds."""
    errors = []
    turn = 0
    for cohort in COHORTS:
        cohort = [client for client in cohort if client != BROKEN]
        if not cohort:
            continue
        trains_a = how in ("factors", "product") or (how == "alternate" and turn == 1)
        trains_b = how != "alternate" or turn == 0
        turn = 1 - turn
        sent = []
        for client in cohort:
            x, y = X[OWNER == client], Y[OWNER == client]
            A_k, B_k = A.copy(), B.copy()
            for _ in range(STEPS):
                residual = x @ A_k @ B_k - y
                gradient = x.T @ residual / len(x)
                A_step, B_step = gradient @ B_k.T, A_k.T @ gradient
                A_k = A_k - LR * trains_a * A_step
                B_k = B_k - LR * trains_b * B_step
            sent.append((len(x), A_k, B_k))

        total = sum(samples for samples, _, _ in sent)
        S = sum(samples / total * A_k @ B_k for samples, A_k, B_k in sent)
        if how == "product":
            U, s, Vt = np.linalg.svd(S)
            U, Vt = U[:, :r], Vt[:r]
            signs = np.sign(np.take_along_axis(U, np.abs(U).argmax(0)[None], 0))[0]
            A_new, B_new = U * signs, (s[:r] * signs)[:, None] * Vt
        else:
            A_new = np.sum([samples / total * A_k for samples, A_k, _ in sent], axis=0)
            B_new = np.sum([samples / total * B_k for samples, _, B_k in sent], axis=0)
        errors.append(np.linalg.norm(A_new @ B_new - S) / np.linalg.norm(S))
        A = A + SERVER_LR * (A_new - A)
        B = B + SERVER_LR * (B_new - B)
    return A, B, errors


@pytest.mark.long
@pytest.mark.parametrize("how", ["factors", "product", "freeze_a", "alternate"])
def test_runs_are_those_of_their_papers(how):
    """Some of the clients, a round without anyone, half a server step."""
    result = run(how)
    start = result.experiment.shared[0]
    whole = tree.fill_leaves(start["params"], start["frozen"])
    A, B, errors = by_hand(how, **{name[-1]: leaf for name, leaf in pair_of(whole).items()})
    pair = pair_of(result.model())
    close(pair["lora_A"], A, 1e-10)
    close(pair["lora_B"], B, 1e-10)
    if how in ("factors", "product"):
        reported = result.rounds["lora_mean/error"].iloc[[1, 3, 4, 5]]
        np.testing.assert_allclose(reported, errors, atol=1e-9)
    else:
        assert max(errors) < 1e-9 and "lora_mean/error" not in result.rounds

    # Four bytes for every number that a client sends.
    both, alone_a, alone_b = 4 * r * (m + n), 4 * r * m, 4 * r * n
    in_turns = [alone_b, alone_a, alone_a, alone_b, alone_a]
    sent = {"freeze_a": [alone_b] * 5, "alternate": in_turns}.get(how, [both] * 5)
    per_round = [len(cohort) * size for cohort, size in zip(COHORTS, sent, strict=True)]
    assert np.diff(result.rounds["bytes_up"]).tolist() == per_round


@pytest.mark.long
def test_a_leaf_that_rests_is_not_moved_where_clients_have_models_of_their_own():
    seen = []
    watch = lambda e, s, row: seen.append(pair_of(row.server.shared["params"])["lora_B"])
    sections = {"client": {"kind": "mr_mtl"}, "rounds": 2, "cohort": "all"}
    run("alternate", watch=watch, wire=[], fleet={}, **sections)
    start, first, second = seen
    assert (first != start).any()
    np.testing.assert_array_equal(second, first)


def test_a_half_of_a_pair_that_stays_with_its_client_is_refused():
    expected = "lora_mean is about lora_A and lora_B, and clients send no lora_B; use mean"
    with pytest.raises(ScenarioError, match=expected):
        run("product", client={"kind": "fedper", "personal": ["lora_B"]})
