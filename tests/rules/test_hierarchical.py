"""Two levels: what is a flat mean, what two rules make of groups, and what is refused."""

import numpy as np
import pytest

import fedsim
from fedsim.errors import ScenarioError

ROWS = np.random.default_rng(0).normal(size=(7, 4))
SAMPLES = np.array([3, 1, 0, 5, 2, 2, 4])


def test_two_rules_by_hand():
    """Seven clients in three groups of 3, 2 and 2; the third one does not report."""
    link = {"kind": "hierarchical", "groups": 3, "inner": "median", "outer": "mean"}
    rows = [ROWS[[0, 1]], ROWS[[3, 4]], ROWS[[5, 6]]]
    medians = np.array([np.median(group, axis=0) for group in rows])
    wanted = np.array([4, 7, 6]) @ medians / 17
    np.testing.assert_allclose(fedsim.aggregate(link, ROWS, weights=SAMPLES), wanted, atol=1e-12)

    link = {**link, "inner": "mean", "outer": "median"}
    means = [SAMPLES[k] @ ROWS[k] / SAMPLES[k].sum() for k in ([0, 1], [3, 4], [5, 6])]
    np.testing.assert_allclose(
        fedsim.aggregate(link, ROWS, weights=SAMPLES), np.median(means, axis=0), atol=1e-12
    )


def test_a_group_with_too_few_has_no_result():
    link = {"kind": "hierarchical", "groups": [[0, 1, 3, 4], [2, 5, 6]], "inner": "trimmed_mean"}
    weights = np.where(np.arange(7) == 5, 0, SAMPLES)  # one of the second group is left
    sorted_rows = np.sort(ROWS[[0, 1, 3, 4]], axis=0)
    np.testing.assert_allclose(
        fedsim.aggregate(link, ROWS, weights=weights), sorted_rows[1:-1].mean(0), atol=1e-12
    )


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
