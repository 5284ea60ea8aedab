"""One small case by hand for every rule, stage, attack and codec; `definitions` has them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import if_all_installed
from definitions import codecs, cohort, rules, stages
from definitions.cohort import NONE, Cohort, compiled

import fedsim
from fedsim.compose import FAMILIES
from fedsim.rules.gap_statistic import _within
from fedsim.stages.bucket import bucketed
from fedsim.stages.mimic import Watched

pytestmark = pytest.mark.usefixtures("quickly_compiled")


def kinds_of(*families: str) -> set[str]:
    """The kinds of fedsim's own in some families."""
    members = [item for family in families for item in FAMILIES[family].items()]
    return {kind for kind, factory in members if factory.__module__.startswith("fedsim.")}


def close(got, wanted, atol=1e-5):
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("name", rules.CASES)
def test_rule(name):
    case = rules.CASES[name]
    for got, wanted in zip(cohort.steps_of(case), case.wanted, strict=True):
        close(got, wanted)


@pytest.mark.parametrize("name", [*stages.STAGES, *stages.ATTACKS])
def test_stage(name):
    case = (stages.STAGES | stages.ATTACKS)[name]
    for got, wanted in zip(stages.arrived(case), case.wanted, strict=True):
        close(got, wanted, stages.NOISE.get(name, 1e-5))


@pytest.mark.parametrize("name", codecs.CASES)
def test_codec(name):
    for got, wanted in codecs.CASES[name]():
        jax.tree.map(close, got, wanted) if isinstance(got, list) else close(got, wanted)


def test_gaussian_noise_takes_the_place_of_an_update():
    rows, _ = stages.of_attack(
        {"kind": "gaussian", "std": 3.0}, Cohort(rows=np.ones((2, 4000)), malicious=(0, 1))
    )
    assert (rows[0] == 1).all()
    assert abs(rows[1].mean()) < 0.2 and abs(rows[1].std() - 3) < 0.15


@pytest.mark.long
def test_a_message_is_noised_by_its_client_as_much_as_epsilon_asks():
    """Of two rows of zeros: σ = 3.7304 for ε = 1, δ = 1e-5, Δ = 1 (Balle and Wang 2018).

    The classic σ is √(2 ln 125000); Laplace noise of scale 2 · 1/4 has the mean magnitude ½.
    """
    rows = np.zeros((2, 40_000))
    gaussian = {"kind": "local_gaussian", "norm": 0.5, "epsilon": 1.0, "delta": 1e-5}
    exact = noised(gaussian, rows)
    assert abs(exact.std() - 3.7304) < 0.04
    assert abs(np.corrcoef(exact)[0, 1]) < 0.02
    classic = noised({**gaussian, "calibration": "classic"}, rows)
    assert abs(classic.std() - np.sqrt(2 * np.log(125_000))) < 0.05
    laplace = noised({"kind": "local_laplace", "norm": 1.0, "epsilon": 4.0}, rows)
    assert abs(np.abs(laplace).mean() - 0.5) < 0.01


def noised(link, rows):
    return fedsim.transmit(link, rows)[0]


def test_fang_draws_beyond_the_extremes_of_others_or_three_deviations_from_the_mean_of_its_own():
    """Honest: means 2 and -2, values from 1 to 3 and -4 to -1; then from -1 to 5 and -5 to 1.

    Its own: means 1 and -1, deviations 1 and 2.
    """
    rows = ([1, -1], [3, -4], NONE, [2, -2], [0, 1], [2, -3])
    cohort = Cohort(rows=rows, malicious=(0, 0, 0, 0, 1, 1))
    below, above = stages.of_attack({"kind": "fang", "factor": 4.0}, cohort)[0][4:].T
    assert ((below >= 0.25) & (below <= 1)).all() and below[0] != below[1]
    assert ((above >= -1) & (above <= -0.25)).all() and above[0] != above[1]

    across = Cohort(rows=([-1, 1], [5, -5], NONE, [2, -2], *rows[4:]), malicious=cohort.malicious)
    below, above = stages.of_attack({"kind": "fang", "factor": 4.0}, across)[0][4:].T
    assert ((below >= -4) & (below <= -1)).all() and below[0] < -1.1
    assert ((above >= 1) & (above <= 4)).all() and above[0] > 1.1

    below, above = stages.of_attack({"kind": "fang", "knowledge": "own"}, cohort)[0][4:].T
    assert ((below >= -3) & (below <= -2)).all() and below[0] != below[1]
    assert ((above >= 5) & (above <= 7)).all() and above[0] != above[1]


def test_fang_sends_what_krum_would_choose():
    """Honest are 3, 5 and 7. Krum looks at one neighbour; the malicious clients are two.

    So the first λ will do. λ₀ = 2/1 + 7: the nearest is 2 away, h - c - 1 is taken as 1, and the
    largest is 7.
    """
    cohort = Cohort(
        rows=[[3], [5], [7], [1], [1]], malicious=(0, 0, 0, 1, 1), params=[0], reference=[0]
    )
    rows, _ = stages.of_attack({"kind": "fang", "against": "krum"}, cohort)
    close(rows[:, 0], [3, 5, 7, -9, -9])


def test_fang_asks_krum_about_one_copy_among_its_own():
    """-3, 1, 5 and 9 have two neighbours. λ₀ = (4 + 4)/2 + 9 = 13, and it takes three halvings.

    Then -1.625 is 1.375 and 2.625 away from two of them, and nobody is nearer to two others.
    """
    rows = [[-3], [1], [5], [9], [99]]
    cohort = Cohort(rows=rows, malicious=(1, 1, 1, 1, 0), params=[0], reference=[0])
    link = {"kind": "fang", "against": "krum", "knowledge": "own"}
    close(stages.of_attack(link, cohort)[0][:, 0], [-1.625, -1.625, -1.625, -1.625, 99])


def test_mimic_copies_who_is_furthest_along_what_it_has_learned():
    """Two honest rows at ∓(1, 2) from the mean make z + (2, 4), of length 2.5 when halved."""
    start = Watched(jnp.asarray([1.0, 0.0]), jnp.int32(1))
    rows, state = stages.of_attack({"kind": "mimic"}, stages.ATTACKED, start)
    close(rows[4:], [[3, 4], [3, 4]])
    close(state.z, [0.6, 0.8])
    assert int(state.rounds) == 2
    _, state = stages.of_attack({"kind": "mimic", "warmup": 1}, stages.ATTACKED, start)
    close(state.z, [1, 0])


def test_noise_on_the_aggregate():
    noun = FAMILIES["aggregate_stage"]["aggregate_noise"](std=2.0)
    context = cohort.context_of(Cohort())
    got = np.asarray(compiled(noun.apply)(jnp.full(4000, 5.0), (), context)[0])
    assert abs(got.mean() - 5) < 0.15 and abs(got.std() - 2) < 0.1


def test_buckets_are_cut_from_the_order_that_is_drawn():
    rows, present = jnp.asarray(Cohort().rows), jnp.asarray([1, 1, 0, 1, 1, 1], bool)
    order = jnp.asarray([5, 0, 3, 1, 4, 2])
    means, left = compiled(lambda rows: bucketed(rows, present, order, 2))(rows)
    assert left.tolist() == [True, True, False, True, False, False]
    close(means[np.asarray(left)], [[5.5, -3], [2.5, 3], [0, -1]])


def test_the_least_sums_of_squares_around_one_centre_and_around_two():
    """0, 0.1, 0.9 and 1 around 0.5; around 0.05 and 0.95, the lower two together."""
    one, two, last = compiled(_within)(
        jnp.asarray([[0, 0.1, 0.9, 1, jnp.inf, jnp.inf]]), jnp.int32(4)
    )
    close([one[0], two[0]], [0.82, 0.01])
    assert last.tolist() == [1]


LEAST = {  # told of two malicious clients
    **dict.fromkeys(("krum", "multi_krum"), 2 * 2 + 3),
    "bulyan": 4 * 2 + 3,
    **dict.fromkeys(
        ("mean_around_median", "phocas", "minimum_diameter", "smallest_eigenvalue"), 2 * 2 + 1
    ),
    **dict.fromkeys(("covariance_filter", "divide_and_conquer", "monna"), 2 * 2 + 1),
    **dict.fromkeys(("zeno", "mix_neighbours", "adaptive_robust_clip"), 2 + 1),
}


@pytest.mark.parametrize("kind", LEAST)
def test_how_many_clients_must_report(kind):
    family = "rule" if kind in FAMILIES["rule"] else "stage"
    assert FAMILIES[family][kind](f=2).least == LEAST[kind]


def test_how_many_clients_must_report_to_a_rule_that_is_not_told():
    assert FAMILIES["rule"]["trimmed_mean"](trim=2).least == 5
    others = kinds_of("rule") - set(LEAST) - {"trimmed_mean", "robust_learning_rate"}
    others -= {"hierarchical"}  # whose groups have no default
    least = {kind: FAMILIES["rule"][kind]().least for kind in others - {"centered_clipping"}}
    assert {kind for kind, number in least.items() if number != 1} == {"mifa"} and least[
        "mifa"
    ] == 0


@if_all_installed
def test_every_rule_has_a_case():
    assert {case.link["kind"] for case in rules.CASES.values()} == kinds_of("rule")


@if_all_installed
def test_every_stage_and_attack_has_a_case():
    assert {case.link["kind"] for case in stages.STAGES.values()} == kinds_of("stage")
    known = {case.link["kind"] for case in stages.ATTACKS.values()} | stages.DRAWN
    assert known == kinds_of("attack", "aggregate_stage")


def test_every_codec_has_a_case():
    assert {name.partition(",")[0] for name in codecs.CASES} == kinds_of("codec")
