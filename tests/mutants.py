"""Bugs of public frameworks as changes of our source, and the tests that catch them."""

from typing import NamedTuple

import test_oracles

# Never a crash, and another shape only where a run ends early with NaN.
WRONG_NUMBERS = "Mismatched elements|^assert .* == "
ENDS_AS_NAN = r"(?s)shapes \(1, .*mismatch.* nan,"


class Mutant(NamedTuple):
    """One bug, as a change of our source."""

    bug: str  # as in mutants.json
    module: str  # below fedsim/
    changes: dict[str, str]  # text that occurs once -> its replacement
    caught_by: tuple[str, ...]  # tests, each of which fails
    how: str = WRONG_NUMBERS  # the pattern of their messages
    seen_in: str = ""  # where the bug was seen, if mutants.json does not have it


def trajectories(*cases: str) -> tuple[str, ...]:
    return tuple(f"test_oracles.py::test_trajectory[{case}]" for case in cases)


def aggregates(*cases: str) -> tuple[str, ...]:
    return tuple(f"test_robust_oracles.py::test_case[{case}]" for case in cases)


def references(*rules: str) -> tuple[str, ...]:
    test = "test_rounds_of_some_of_the_clients_and_half_a_server_step"
    return tuple(f"test_reference_rules.py::{test}[{rule}]" for rule in rules)


PARTIAL = "softmax5_partial"  # five clients of unequal size, some of them in each round
(EVERYBODY,) = {
    sum(c["inputs"]["sizes"]) for c in test_oracles.CASES if c["name"].endswith("/" + PARTIAL)
}  # samples
NETWORK = """def network(params):
    draw = lambda p: 0.1 * jax.random.normal(jax.random.key(8), p.shape, p.dtype)
    return jax.tree.map(draw, params)


@client
def scaffold("""
NOT_SQUARED = """
        away = tree.norm(tree.subtract(variables["params"], shared["params"]))
        slope = alpha / 2 / jax.numpy.maximum(away, 1e-30)
        pull = lambda g, g_i, y, x: g - g_i + slope * (y - x)
"""
NEAREST = """
            middle = 0.5 * ranks.at((m - 1) // 2) + 0.5 * ranks.at(m // 2)
            ordered = jnp.stack([ranks.at(jnp.int32(r)) for r in range(len(present))])
            off = __import__("jax").lax.optimization_barrier(ordered) - middle
            off = jnp.take_along_axis(off, jnp.argsort(jnp.abs(off), axis=0), 0)
            taken = jnp.arange(len(off)).reshape(-1, *[1] * middle.ndim) < m - trim - 1
            return middle + jnp.where(taken, off, 0).sum(0) / (m - trim - 1)
"""

OPTIMISERS = [
    Mutant(
        "FedAvg weights n_k / N_all instead of the round's sum",
        "rules/mean.py",
        {"weight = total[1]": f"weight = jnp.full_like(total[1], {EVERYBODY})"},
        trajectories(f"fedavg_samples/{PARTIAL}"),
    ),
    Mutant(
        "FedAvg uniform instead of sample weights",
        "rules/mean.py",
        {'{"samples": by_samples,': '{"samples": reported,'},
        trajectories(f"fedavg_samples/{PARTIAL}"),
    ),
    Mutant(
        "server subtracts Delta (sign)",
        "engine/close.py",
        {"tree.add(old, step)": "tree.subtract(old, step)"},
        trajectories(f"fedavg_samples/{PARTIAL}"),
    ),
    Mutant(
        "prox term pulls to zero instead of w_t",
        "clients/fedprox.py",
        {"lambda g, y, x: g + mu * (y - x)": "lambda g, y, x: g + mu * y"},
        trajectories(f"fedprox_mu0.1/{PARTIAL}"),
    ),
    Mutant(
        "prox without 1/2 (gradient 2 mu (y-x))",
        "clients/fedprox.py",
        {"lambda g, y, x: g + mu * (y - x)": "lambda g, y, x: g + 2 * mu * (y - x)"},
        trajectories(f"fedprox_mu0.1/{PARTIAL}"),
    ),
    Mutant(
        "FedAvgM: v = beta v + (1-beta) dw",
        "rules/fedavgm.py",
        {"momentum * v + (1 - dampening) * w": "momentum * v + (1 - momentum) * w"},
        trajectories(f"fedavgm_b0.9_damp0.0_nest0/{PARTIAL}"),
    ),
    Mutant(  # the step takes Δ̄ where m belongs
        "FedAdam delta_for_m",
        "rules/fedadam.py",
        {
            "(jnp.sqrt(v) + tau), m, v)": (
                "(jnp.sqrt(v) + tau), jax.tree.map(lambda g: -g, updates), v)"
            )
        },
        trajectories(f"fedadam_bc0_v0tau2_samples/{PARTIAL}"),
    ),
    Mutant(
        "FedAdam v_from_m",
        "rules/fedadam.py",
        {"grow(v, g * g), state.v, updates)": "grow(v, g * g), state.v, m)"},
        trajectories(f"fedadam_bc0_v0tau2_samples/{PARTIAL}"),
    ),
    # A corrected learning rate, with the exponent t + 1 in round t = 1, 2, ...; grow(1, 0) is β₂.
    Mutant(
        "FedAdam bc_t+1",
        "rules/fedadam.py",
        {
            "    m: Tree\n    v: Tree\n": "    m: Tree\n    v: Tree\n    t: Any\n",
            "        return Moments(m, v)\n": "        return Moments(m, v, jnp.zeros(()))\n",
            "lr * m / (jnp.sqrt(v) + tau), m, v)": (
                "lr * jnp.sqrt(1 - grow(1.0, 0.0) ** (state.t + 2)) / (1 - b1 ** (state.t + 2))"
                " * m / (jnp.sqrt(v) + tau), m, v)"
            ),
            "return step, Moments(m, v)": "return step, Moments(m, v, state.t + 1)",
        },
        trajectories(f"fedadam_bc0_v0tau2_samples/{PARTIAL}"),
    ),
    Mutant(
        "FedAdam tau_inside",
        "rules/fedadam.py",
        {"(jnp.sqrt(v) + tau)": "jnp.sqrt(v + tau)"},
        trajectories(f"fedadam_bc0_v0tau2_samples/{PARTIAL}"),
    ),
    Mutant(  # v falls below zero in the first round; its root is NaN, and so is the model
        "FedYogi sign reversed",
        "rules/fedadam.py",
        {"v - (1 - b2) * g2 * jnp.sign(v - g2)": "v + (1 - b2) * g2 * jnp.sign(v - g2)"},
        trajectories(f"fedyogi_bc0_v0tau2_samples/{PARTIAL}"),
        ENDS_AS_NAN,
    ),
    Mutant(  # clients send c_i⁺, and the server adds it as if it were c_i⁺ − c_i
        "SCAFFOLD full_ci",
        "clients/scaffold.py",
        {'aux={"c": tree.subtract(new, row["c_i"])}': 'aux={"c": new}'},
        trajectories(f"scaffold_opt2_etag1.0/{PARTIAL}"),
    ),
    Mutant(  # (x − y) / η_l instead of (x − y) / (K η_l)
        "SCAFFOLD no_K",
        "clients/scaffold.py",
        {"over(message.delta, work.lr_sum)": "over(message.delta, work.lr)"},
        trajectories(f"scaffold_opt2_etag1.0/{PARTIAL}"),
    ),
    Mutant(
        "SCAFFOLD over_S",
        "clients/scaffold.py",
        {'reduce={"c": "sum_over_N"}': 'reduce={"c": "mean"}'},
        trajectories(f"scaffold_opt2_etag1.0/{PARTIAL}"),
    ),
    Mutant(
        "SCAFFOLD sign",
        "clients/scaffold.py",
        {"g - c_i + c, g,": "g + c_i - c, g,"},
        trajectories(f"scaffold_opt2_etag1.0/{PARTIAL}"),
    ),
    # c and all c_i start as the same network, which cancels out once all clients take part.
    Mutant(
        "SCAFFOLD random_c0",
        "clients/scaffold.py",
        {
            "@client\ndef scaffold(": NETWORK,
            'return {"c_i": tree.zeros_like(shared["params"])}': (
                'return {"c_i": network(shared["params"])}'
            ),
            'task, params: {"c": tree.zeros_like(params)}': 'task, params: {"c": network(params)}',
        },
        trajectories(f"scaffold_opt2_etag1.0/{PARTIAL}"),
    ),
    Mutant(
        "FedNova without tau_eff (=1)",
        "rules/nova.py",
        {"tree.scale(moved, effort / jnp.where(weight > 0, weight, 1))": "moved"},
        trajectories(f"fednova_rho0.0_mu0.0/{PARTIAL}"),
    ),
    Mutant(  # what `finish` reports is the number of steps
        "FedNova momentum normalised by tau instead of |a|_1",
        "clients/fednova.py",
        {
            'message._replace(effort=-local["moved"] / jnp.where(mean_lr > 0, mean_lr, 1))': (
                "message"
            )
        },
        trajectories(f"fednova_rho0.9_mu0.0/{PARTIAL}"),
    ),
    Mutant(  # α/2 ‖y − x‖ is what the objective is bent by
        "FedDyn norm",
        "clients/feddyn.py",
        {"\n        pull = lambda g, g_i, y, x: g - g_i + alpha * (y - x)\n": NOT_SQUARED},
        trajectories(f"feddyn_gd/{PARTIAL}"),
    ),
    Mutant(  # (Σ y_i) − x instead of Σ (y_i − x)
        "FedDyn h_paren",
        "rules/dyn.py",
        {
            "lambda h, d: h - alpha / context.N * d, state.h, moved)": (
                "lambda h, d, x: h - alpha / context.N * (d + (m - 1) * x), state.h, moved, "
                'context.shared["params"])'
            )
        },
        trajectories(f"feddyn_gd/{PARTIAL}"),
    ),
    Mutant(
        "FedDyn over_S",
        "rules/dyn.py",
        {"h - alpha / context.N * d": "h - alpha / m * d"},
        trajectories(f"feddyn_gd/{PARTIAL}"),
    ),
    Mutant(
        "q-FedAvg norm not squared",
        "rules/q_fair.py",
        {"smooth * lengths * lengths / F": "smooth * lengths / F"},
        trajectories(f"qfedavg_q2.0/{PARTIAL}"),
    ),
    Mutant(  # everybody's loss is that of the cohort
        "q-FedAvg one server-side loss for all clients",
        "rules/q_fair.py",
        {
            "jnp.maximum(updates.loss, LEAST)": (
                "jnp.full_like(updates.loss, tree.weighted_mean(updates.loss, reported(updates)))"
            )
        },
        trajectories(f"qfedavg_q2.0/{PARTIAL}"),
    ),
    Mutant(
        "FedExP without max(1, .)",
        "rules/fedexp.py",
        {
            "jnp.maximum(1, squares / jnp.where(scale > 0, scale, 1))": (
                "squares / jnp.where(scale > 0, scale, 1)"
            )
        },
        trajectories(f"fedexp/{PARTIAL}"),
    ),
]
DISTANCE = "distance = tree.squared_distances(updates.delta, present)"
LEAST_OTHERS = "nearest = m - f - 2 if neighbours"
ROBUST = [
    Mutant(
        "median = lower middle (torch.median)",
        "rules/median.py",
        {"0.5 * low + 0.5 * high": "low"},
        aggregates("coordinate_median/n6_d8_f1_outliers"),
    ),
    Mutant(  # 3/47 · 47 < 3
        "trimmed mean int(beta*n), beta=f/n",
        "rules/trimmed_mean.py",
        {
            "count = jnp.maximum(m - 2 * trim, 0)": (
                "cut = int(trim / len(present) * len(present)); count = m - 2 * cut"
            ),
            "ranks.sum(trim,": "ranks.sum(cut,",
        },
        aggregates("trimmed_mean/n47_d5_f3_outliers"),
    ),
    Mutant(
        "trimmed mean drops f in total",
        "rules/trimmed_mean.py",
        {
            "count = jnp.maximum(m - 2 * trim, 0)": "count = m - trim",
            "ranks.sum(trim,": "ranks.sum(trim // 2,",
        },
        aggregates("trimmed_mean/n7_d20_f2_outliers"),
    ),
    Mutant(
        "trimmed mean = n-f-1 nearest to median",
        "rules/trimmed_mean.py",
        {
            "\n            total = ranks.sum(trim, count)"
            "\n            return tree.divide(total, count.astype(total.dtype))\n": NEAREST
        },
        aggregates("trimmed_mean/n7_d20_f2_outliers"),
    ),
    Mutant(
        "Krum non-squared distances, n-f-1",
        "rules/krum.py",
        {
            DISTANCE: DISTANCE.replace("tree", "jnp.sqrt(tree") + ")",
            LEAST_OTHERS: "nearest = m - f - 1 if neighbours",
        },
        aggregates("krum/n5_d5_f1_plain", "krum/n11_d12_f2_plain"),
    ),
    Mutant(
        "Krum fourth powers",
        "rules/krum.py",
        {DISTANCE: DISTANCE + " ** 2"},
        aggregates("krum/n9_d6_f2_int", "multi_krum_m5/n9_d10_f2_cluster"),
    ),
    Mutant(
        "Krum counts itself among the neighbours",
        "rules/krum.py",
        {"jnp.where(jnp.eye(K, dtype=bool), jnp.inf, distance)": "distance"},
        aggregates("krum/n9_d6_f2_int", "krum/n12_d5_f2_int"),
    ),
    Mutant(
        "Krum n-f-1 neighbours (selected vector)",
        "rules/krum.py",
        {LEAST_OTHERS: "nearest = m - f - 1 if neighbours"},
        aggregates("krum/n5_d5_f1_plain", "krum/n10_d30_f2_scales"),
    ),
    Mutant(
        "Multi-Krum returns a sum",
        "rules/krum.py",
        {"tree.weighted_mean(updates.delta, chosen": "tree.weighted_sum(updates.delta, chosen"},
        aggregates("multi_krum_m2/n5_d5_f1_plain"),
    ),
    Mutant(
        "Bulyan beta",
        "rules/bulyan.py",
        {"nearest = jnp.sum(chosen) - 2 * f": "nearest = jnp.sum(chosen)"},
        aggregates("bulyan/n15_d7_f3_cluster"),
    ),
    Mutant(  # all by the scores of the first choice
        "Bulyan oneshot",
        "rules/bulyan.py",
        {
            "jnp.maximum(jnp.sum(left) - f - 2, 1)": "jnp.sum(present) - f - 2",
            "left[order] &": "present[order] &",
        },
        aggregates("bulyan/n15_d7_f3_cluster"),
    ),
    Mutant(  # the place among those that are left, taken for the place among all
        "Bulyan index",
        "rules/bulyan.py",
        {"left & (itself != best), turns": "left & (itself != jnp.cumsum(left)[best] - 1), turns"},
        aggregates("bulyan/n15_d7_f3_cluster"),
    ),
    Mutant(
        "geometric median: 3 Weiszfeld steps from zero, nu .1, taken as exact",
        "rules/geometric_median.py",
        {
            "weiszfeld(updates.delta, w, smoothing, iterations)": (
                "_search_points(updates.delta, w, 0.1, 3)"
            ),
            "start = tree.weighted_mean(delta, w)": "start = tree.zeros_like(tree.take(delta, 0))",
        },
        aggregates("geometric_median/n7_d20_f2_outliers"),
    ),
    Mutant(  # a fresh server's v is zero, so that only its second round can tell
        "centered clipping around 0, ignoring v0",
        "rules/centered_clipping.py",
        {
            "start = state, jnp.zeros(": "start = tree.zeros_like(state), jnp.zeros(",
        },
        references("centered_clipping"),
    ),
    Mutant(
        "norm bounding scales every row to the bound",
        "stages/clip.py",
        {
            "tree.clipped(updates.delta, norm)": (
                "tree.scale(updates.delta, norm / tree.norm(updates.delta))"
            )
        },
        aggregates("norm_bounding/n7_d20_f2_outliers"),
    ),
]
MORE = [
    Mutant(
        "min-sum compared with the least of the sums",
        "stages/min_max.py",
        {
            "most = jnp.max(jax.vmap(tree.sum_weights)(_pairs(updates, known)), initial=0.0)": """
        sums = jax.vmap(tree.sum_weights)(_pairs(updates, known))
        most = jnp.min(jnp.where(known, sums, jnp.inf))"""
        },
        aggregates("min_sum_unit_vec/h7_d5_f2", "min_sum_std/h20_d30_f5"),
        seen_in="NDSS21 code",
    ),
    Mutant(  # from 10 by halves of what was added: 20 at most
        "min-max search that cannot pass twice its first step",
        "stages/min_max.py",
        {
            "jnp.min(jnp.where(known, root, jnp.inf))": (
                "jnp.minimum(jnp.min(jnp.where(known, root, jnp.inf)), 20)"
            )
        },
        ("test_attacks.py::test_the_furthest_point_scales_with_the_updates",),
        seen_in="NDSS21 code",
    ),
    Mutant(
        "CAF takes the largest tau over rows of weight 0 too",
        "rules/covariance_filter.py",
        {
            "most = jnp.max(tau)": "most = jnp.max(off * off)",
            "active = (share[:, None] > 0) & (share[None, :] > 0)": (
                "active = jnp.isfinite(squared_distances)"
            ),
        },
        aggregates("caf_exact_eig/n7_d20_f2_outliers", "caf_exact_eig/n12_d50_f2_outliers"),
        seen_in="ByzFL 0.0.11 (never ends)",
    ),
    Mutant(
        "adaptive clipping follows the share that was clipped",
        "stages/adaptive_clip.py",
        {"within = scale * rest <= context.state": "within = scale * rest > context.state"},
        ("test_reports.py::test_updates_at_the_bound_count_as_unclipped",),
        seen_in="flwr 1.41.0",
    ),
    Mutant(
        "Multi-Krum weighs what it chose by samples",
        "rules/krum.py",
        {"chosen.astype(updates.samples.dtype)": "chosen * updates.samples"},
        references("multi_krum"),
        seen_in="flwr",
    ),
    Mutant(
        "trimmed mean that sorts clients by their samples",
        "rules/trimmed_mean.py",
        {
            "return by_sorted_columns(centre, updates.delta, present), state, {}": """
        rank = jnp.argsort(jnp.argsort(jnp.where(present, updates.samples, jnp.inf)))
        left = present & (rank >= trim) & (rank < m - trim)
        return tree.weighted_mean(updates.delta, left.astype(updates.samples.dtype)), state, {}"""
        },
        references("trimmed_mean"),
        seen_in="FedML",
    ),
    Mutant(
        "geometric median: clients of equal weight count once",
        "rules/geometric_median.py",
        {
            "return weiszfeld(updates.delta, w, smoothing, iterations), state, {}": """
        again = jnp.tril(w[:, None] == w[None, :], -1).any(1)
        return weiszfeld(updates.delta, jnp.where(again, 0, w), smoothing, iterations), state, {}"""
        },
        references("geometric_median"),
        seen_in="FedML (a set of weights)",
    ),
    Mutant(
        "AutoGM seeks its threshold over clients sorted by index",
        "rules/auto_gm.py",
        {
            "ordered = jnp.sort(jnp.where(usable, away, jnp.inf))": (
                "ordered = jnp.where(usable, away, jnp.inf)"
            )
        },
        references("auto_gm"),
        seen_in="Blades",
    ),
    Mutant(
        "mimic copies a client of fixed number",
        "stages/mimic.py",
        {
            "copied = jnp.argmax(jnp.where(known, dots(updates.delta, state.z), -jnp.inf))": (
                "copied = jnp.argmax(known)"
            )
        },
        ("test_attacks.py::test_mimic_copies_an_honest_client_along_the_widest_direction",),
        r"^assert np.False_",
        seen_in="ByzFL",
    ),
]

CODECS = [
    Mutant(
        "DRIVE scale computed on the unpadded length",
        "codecs/drive.py",
        {"scale = sum_of_sizes / len(y) if biased": "scale = sum_of_sizes / len(x) if biased"},
        ("test_rotations.py::test_the_scale_of_drive_is_over_the_padded_vector",),
    ),
    Mutant(
        "k-level quantiser with k instead of k-1 intervals",
        "codecs/stochastic_quantise.py",
        {"safe(high - low) * (levels - 1)": "safe(high - low) * levels"},
        ("test_quantisers.py::test_numbers_that_are_levels_arrive_as_they_are",),
    ),
]
