"""Two levels: what is a flat mean, what two rules make of groups, and what is refused."""

import numpy as np
import pytest

import fedsim
from fedsim.errors import ScenarioError

ROWS = np.random.default_rng(0).normal(size=(7, 4))
SAMPLES = np.array([3, 1, 0, 5, 2, 2, 4])


def test_two_rules_by_hand():
    """Seven clients in three groups of 3, 2 and 2; the third one does not report."""
    link = {"kind": "hierarchical", "groups": 3, "inner": "mean", "outer": "median"}
    means = [SAMPLES[k] @ ROWS[k] / SAMPLES[k].sum() for k in ([0, 1], [3, 4], [5, 6])]
    got = fedsim.aggregate(link, ROWS, weights=SAMPLES)
    np.testing.assert_allclose(got, np.median(means, axis=0), atol=1e-12)


def test_a_group_with_too_few_has_no_result_and_groups_count_by_samples():
    """Trimmed means of three groups, one of which has too few clients."""
    groups = [[0, 1, 3], [4, 5, 6], [2]]
    link = {"kind": "hierarchical", "groups": groups, "inner": "trimmed_mean", "outer": "mean"}
    middle = lambda ids: np.sort(ROWS[ids], axis=0)[1:-1].mean(0)
    want = (9 * middle([0, 1, 3]) + 8 * middle([4, 5, 6])) / 17
    weights = np.where(np.arange(7) == 2, 1, SAMPLES)
    np.testing.assert_allclose(fedsim.aggregate(link, ROWS, weights=weights), want, atol=1e-12)


def written(server, **sections) -> dict:
    return {
        "name": "edges",
        "rounds": 3,
        "data": {"kind": "digits", "clients": 8, "partition": "dirichlet(alpha=1.0)"},
        "client": {"lr": 0.3, "batch": 16, "steps": 3},
        "numerics": {"dtype": "float64"},
        "server": server,
        **sections,
    }


@pytest.mark.long
def test_a_group_remembers_as_its_rule_does():
    """Centered clipping starts from its last aggregate."""
    inner = {"kind": "centered_clipping", "radius": 0.05}
    cohort = {"kind": "listed", "rounds": [[0, 1, 2], [3, 4], [5, 6, 7]]}
    grouped = {"kind": "hierarchical", "groups": 1, "inner": inner}
    alone, one = (fedsim.run(written([link], cohort=cohort)).model() for link in (inner, grouped))
    assert (one["W"] == alone["W"]).all()


REFUSED = [
    ({"groups": [[0, 1, 2, 3], [3, 4, 5, 6, 7]]}, "client 3 is listed twice"),
    ({"groups": 0}, "groups"),
    ({"groups": 2, "inner": "trust"}, "inner: the rule trust asks for more"),
    ({"groups": 2, "inner": {"kind": "hierarchical", "groups": 2}}, "hierarchical"),
]


@pytest.mark.parametrize("parameters, problem", REFUSED)
def test_refused_with_the_key_and_the_remedy(parameters, problem):
    with pytest.raises(ScenarioError) as error:
        fedsim.run(written([{"kind": "hierarchical", **parameters}]))
    assert "server[0]" in str(error.value)
    assert problem in str(error.value)
