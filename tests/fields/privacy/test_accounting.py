"""`fedsim.epsilon` and `fedsim.noise_multiplier` return published numbers and follow their laws."""

import itertools
import math

import pytest
from conftest import oracle

import fedsim
from fedsim.fields.privacy.counting import gaussian, losses
from fedsim.limits import LEAST_NOISE

pytest.importorskip("dp_accounting")

CASES = oracle("dp_accounting")
BY_NAME = {case["name"]: case for case in CASES}
EPSILONS = [case for case in CASES if case["fn"] == "epsilon"]
INTEGERS = list(map(float, range(2, 34)))
FRACTIONS = [1 + x / 10 for x in range(1, 100)] + list(map(float, range(12, 64)))
RDP = {"accountant": "rdp"}
# expected key -> keys of the section
ACCOUNTANTS = {
    "eps_pld": {},
    "eps_rdp_dpacc": RDP,
    "eps_rdp_opacus_orders": {**RDP, "orders": FRACTIONS},
    "eps_rdp_classic_int33": {**RDP, "conversion": "classic", "orders": INTEGERS},
    "eps_rdp_classic_frac_orders": {**RDP, "conversion": "classic", "orders": FRACTIONS},
}
POISSON = "poisson(rate=0.1)"


def section(**keys) -> dict:
    return {"clip": 0.5, "delta": 1e-5, **keys}


def epsilon(cohort="all", clients=100, rounds=10, z=2.0, **keys):
    privacy = section(noise_multiplier=z, **keys)
    return fedsim.epsilon(privacy, cohort, clients=clients, rounds=rounds)


def cohort_of(rate: float):
    return {"kind": "poisson", "rate": rate} if rate < 1 else "all"


@pytest.mark.quick(2)
@pytest.mark.parametrize("case", EPSILONS, ids=[case["name"] for case in EPSILONS])
def test_epsilon_follows_its_oracle(case):
    given, expected = case["params"], case["expected"]
    for name, keys in ACCOUNTANTS.items():
        found = epsilon(
            cohort_of(given["q"]), rounds=given["T"], z=given["z"], delta=given["delta"], **keys
        )
        assert found == pytest.approx(expected[name], rel=3e-5, abs=1e-7), name


@pytest.mark.parametrize(
    ("z", "keys", "published"),
    [
        (1.1, {}, 5.1926),
        (1.1, RDP, 5.6320),
        (4.0, {}, 0.9470),
        (4.0, RDP, 1.0355),
        (4.0, {**RDP, "conversion": "classic"}, 1.2586),  # Abadi et al. 2016: 1.26
    ],
)
def test_ten_thousand_rounds_of_a_hundredth(z, keys, published):
    assert round(epsilon("poisson(rate=0.01)", rounds=10_000, z=z, **keys), 4) == published


def test_the_table_of_language_models_is_theirs():
    """McMahan et al. 2018, table 1: z 1, δ = K^−1.1, integer orders 2 to 33."""
    rounds = [10**k for k in range(7)]
    keys = ACCOUNTANTS["eps_rdp_classic_int33"]
    for row in BY_NAME["mcmahan2018_table1_recomputed"]["expected"]["table"]:
        K, expected = row["K"], row["eps_by_T_1_10_..._1e6"]
        found = epsilon(cohort_of(row["Ctilde"] / K), rounds=rounds, z=1.0, delta=K**-1.1, **keys)
        assert found == pytest.approx(expected, rel=1e-6)


def test_a_keyboard_of_two_thousand_rounds_is_the_published_one():
    case = BY_NAME["gboard_dpftrl"]
    given = case["params"]
    gap = given["min_separation"] + 1  # rounds strictly between two
    cohort = {"kind": "separated", "size": 10, "gap": gap, "most": given["max_participation"]}
    tree = {"mechanism": "tree", "z": given["noise_multiplier"], "delta": given["delta"]}
    spent = lambda **keys: epsilon(cohort, clients=10_000, rounds=given["T"], **tree, **keys)
    for conversion in ("improved", "classic"):
        found = spent(accountant="rdp", conversion=conversion)
        assert found == pytest.approx(case["expected"][f"eps_{conversion}"], rel=1e-9)
    assert spent() == pytest.approx(gaussian.epsilon_of(math.sqrt(79) / 7, given["delta"]))


def test_a_client_that_is_replaced_moves_the_sum_by_twice_its_bound():
    """All of 100 are drawn, z 4: a release of a client's two bounds, under noise of four."""
    exact = gaussian.epsilon_of(2 / 4, 1e-5)
    assert exact == pytest.approx(1.993, abs=1e-3)
    once = lambda cohort: epsilon(cohort, z=4.0, rounds=1, orders=INTEGERS, **RDP)
    replaced = once("uniform(size=100)")
    assert exact < replaced < 1.1 * exact
    # As dp-accounting has it, z is relative to that move: without the half, it would be 1.013.
    assert once("all") == pytest.approx(1.013, abs=1e-3)
    assert once("uniform(size=200)") == replaced and once("uniform(size=5)") < replaced / 3


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize(
    ("cohort", "keys"),
    [
        ("all", {}),
        ("poisson(rate=0.05)", {}),
        ("separated(size=3, gap=4, most=5)", {}),
        ("cyclic(size=10)", {"mechanism": "tree(restart=8)"}),
        ("separated(size=3, gap=4)", {"mechanism": "banded(bands=6)"}),
        ("cyclic_poisson(groups=5, rate=0.3)", {"mechanism": "banded(bands=5)"}),
    ],
)
def test_every_round_spends_whatever_else_is_asked_for(cohort, keys, accountant):
    rounds = [0, 1, 2, 5, 6, 40]
    together = epsilon(cohort, rounds=rounds, accountant=accountant, **keys)
    assert together[0] == 0.0
    assert all(a <= b for a, b in itertools.pairwise(together)) and together[1] < together[-1]
    alone = [epsilon(cohort, rounds=t, accountant=accountant, **keys) for t in (1, 6, 40)]
    assert alone == [together[rounds.index(t)] for t in (1, 6, 40)]


def test_correlated_noise_costs_what_its_worst_client_moves():
    """C = I moves by √4 over four turns of five rounds, two bands by √(4 · (1 + ¼))."""
    ε = lambda squared: gaussian.epsilon_of(math.sqrt(squared) / 2.0, 1e-5)
    assert epsilon("cyclic(size=20)", rounds=20) == pytest.approx(ε(4))
    assert epsilon("cyclic(size=20)", rounds=20, mechanism="banded(bands=2)") == pytest.approx(ε(5))
    buffer = {"kind": "blt", "buffers": 1, "decay": [0.5], "scale": [0.5]}
    assert epsilon("cyclic(size=50)", rounds=4, mechanism=buffer) == pytest.approx(
        ε(1 + 0.5**2 + (1 + 0.25) ** 2 + (0.5 + 0.125) ** 2)
    )
    assert epsilon("all", rounds=8, mechanism="tree") == pytest.approx(ε(120))
    assert epsilon("all", rounds=8, mechanism="tree(restart=4)") == pytest.approx(ε(2 * 28))


def test_bands_behind_groups_are_samples_of_less_noise():
    norm = math.sqrt(1 + 1 / 4 + 9 / 64)
    cohort = "cyclic_poisson(groups=3, rate=0.1)"
    banded = epsilon(cohort, rounds=[1, 3, 4, 9], mechanism="banded(bands=3)")
    plain = epsilon(POISSON, rounds=[1, 1, 2, 3], z=2.0 / norm)
    assert banded == pytest.approx(plain)
    assert epsilon("cyclic_poisson(groups=1, rate=0.1)") == epsilon(POISSON)
    assert epsilon("cyclic_poisson(groups=5, rate=1.0)", clients=100, rounds=20) == epsilon(
        "cyclic(size=20)", clients=100, rounds=20
    )


@pytest.mark.parametrize(
    ("cohort", "target", "keys"),
    [
        ("all", 0.05, {}),
        ("all", 8.0, {"accountant": "rdp"}),
        (POISSON, 8.0, {}),
        ("cyclic(size=5)", 1.0, {"mechanism": "tree"}),
        pytest.param("uniform(size=5)", 1.0, {"accountant": "rdp"}, marks=pytest.mark.long),
    ],
)
def test_the_noise_of_an_epsilon_is_the_least_that_keeps_it(cohort, target, keys):
    z = fedsim.noise_multiplier(section(epsilon=target, **keys), cohort, clients=100, rounds=30)
    digit = 10.0 ** (math.floor(math.log10(z)) - 5)
    spent = epsilon(cohort, rounds=30, z=z, **keys)
    assert spent <= target < epsilon(cohort, rounds=30, z=z - digit, **keys)
    assert spent == pytest.approx(target, rel=3e-5)
    assert z == float(f"{z:.6g}")


def test_no_rounds_spend_nothing_and_no_noise_spends_everything():
    assert epsilon(rounds=0) == 0.0 and epsilon(rounds=[]) == []
    assert epsilon(rounds=[0, 1, 2], z=0.0) == [0.0, math.inf, math.inf]
    assert fedsim.noise_multiplier(section(epsilon=1.0), clients=5, rounds=0) == 0.0


def test_a_clip_changes_no_epsilon_and_may_be_left_out():
    adaptive = epsilon(POISSON, clip={"kind": "adaptive", "quantile": 0.7})
    assert epsilon(POISSON, clip=3.0) == adaptive
    without = {"noise_multiplier": 2.0, "delta": 1e-5}
    assert fedsim.epsilon(without, POISSON, clients=100, rounds=10) == adaptive


def test_where_hardly_any_noise_is_asked_for_it_is_the_least(monkeypatch):
    """Under δ = 0.4, a sample of one in a hundred is private without any."""
    monkeypatch.setattr(losses, "MAX_POINTS", 1 << 12)
    asked = section(epsilon=1.0, delta=0.4)
    z = fedsim.noise_multiplier(asked, "poisson(rate=0.01)", clients=100, rounds=1)
    assert z == LEAST_NOISE
