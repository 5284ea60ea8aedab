"""ByzFL's rules and attacks on the matrix of its documentation: where we agree, and where not."""

import numpy as np
import pytest

import fedsim
from fedsim.errors import ScenarioError

pytestmark = pytest.mark.usefixtures("quickly_compiled")

X = np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]])
MIDDLE, LOW = [4.0, 5, 6], [2.5, 3.5, 4.5]
RULES = {  # of ours -> what it is expected to give
    "mean": ({}, MIDDLE),
    "median": ({}, MIDDLE),
    "trimmed_mean": ({"trim": 1}, MIDDLE),
    "centered_clipping": ({"radius": 100.0, "iterations": 1}, MIDDLE),
    "minimum_diameter": ({"f": 1}, LOW),
    "mean_around_median": ({"f": 1}, LOW),
    "geometric_median": (
        {},
        MIDDLE,
    ),  # the minimum itself: theirs ends at 3.79 in the first coordinate, see below
}
STAGES = {
    "clip": (
        {"norm": 2.0},
        [
            [0.53452248, 1.06904497, 1.60356745],
            [0.91168461, 1.13960576, 1.36752692],
            [1.00514142, 1.14873305, 1.29232469],
        ],
    ),
    "adaptive_robust_clip": (
        {"f": 1},
        [[1, 2, 3], [4, 5, 6], [4.41004009, 5.04004582, 5.67005155]],
    ),
    "mix_neighbours": ({"f": 1}, [LOW, LOW, [5.5, 6.5, 7.5]]),
}
ATTACKS = {
    "inner_product": ({"epsilon": 2.0}, [-8, -10, -12]),  # their FallOfEmpires(3): 1 − τ
    "little_is_enough": ({"z": 1.5, "sign": "plus", "ddof": 1}, [8.5, 9.5, 10.5]),
    "nonfinite": ({"value": "inf"}, [np.inf] * 3),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", RULES)
def test_rules(kind):
    parameters, expected = RULES[kind]
    np.testing.assert_allclose(
        fedsim.aggregate({"kind": kind, **parameters}, X), expected, rtol=1e-6
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", STAGES)
def test_stages(kind):
    parameters, expected = STAGES[kind]
    np.testing.assert_allclose(
        fedsim.transmit({"kind": kind, **parameters}, X)[0], expected, rtol=1e-6
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", ATTACKS)
def test_attacks(kind):
    parameters, expected = ATTACKS[kind]
    sent, _ = fedsim.transmit(
        {"kind": kind, **parameters}, np.concatenate([X, X[:1]]), malicious=[3]
    )
    np.testing.assert_allclose(sent[3], expected, rtol=1e-6)


def test_krum_and_multi_krum_demand_what_their_theorem_does():
    """2f + 3 rows are needed; for three rows and one attacker ByzFL still returns something."""
    for kind in ("krum", "multi_krum"):
        with pytest.raises(ScenarioError, match=r"\b5\b"):
            fedsim.aggregate({"kind": kind, "f": 1}, X)


@pytest.mark.long
def test_a_reversed_update_is_the_client_s_own():
    """ByzFL reverses the mean of the honest clients, as our `inner_product` does with ε = 1.

    Our `sign_flip` reverses what the client itself would have sent.
    """
    stack = np.concatenate([X, [[1.0, 1, 1]]])
    np.testing.assert_array_equal(
        fedsim.transmit("sign_flip", stack, malicious=[3])[0][3], [-1, -1, -1]
    )
    sent = fedsim.transmit({"kind": "inner_product", "epsilon": 1.0}, stack, malicious=[3])[0]
    np.testing.assert_allclose(sent[3], [-4, -5, -6], rtol=1e-6)


def test_three_steps_from_zero_are_not_the_geometric_median():
    """ByzFL's 3.78788764: three Weiszfeld steps from zero with ν = 0.1, here in NumPy."""
    z = np.zeros(3)
    for _ in range(3):
        beta = 1 / np.maximum(np.linalg.norm(X - z, axis=1), 0.1)
        z = (X * beta[:, None]).sum(0) / beta.sum()
    np.testing.assert_allclose(z, [3.78788764, 4.78788764, 5.78788764], rtol=1e-8)
