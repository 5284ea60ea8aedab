"""A law over the registry: clients without samples change nothing, whatever the method or the rule."""

import numpy as np
import pytest
from reference import scenarios
from reference.conditions import FULL, Condition, listed
from reference.programs import programs  # noqa: F401 (a fixture)

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods)
from fedsim.compose import FAMILIES

BETWEEN = (FULL[0], 0, *FULL[1:4], 0, 0, *FULL[4:], 0)
AROUND = (0, *FULL, 0)
REQUIRED = {"krum": {"f": 1}, "multi_krum": {"f": 1}, "centered_clipping": {"radius": 0.1}}
METHODS = [name for name, factory in FAMILIES["method"].items() if factory.__module__.startswith("fedsim.")]
RULES = [name for name, factory in FAMILIES["rule"].items() if factory.__module__.startswith("fedsim.")]


def weights(sections: dict, sizes: tuple[int, ...], cohort) -> np.ndarray:
    """Final parameters of a network of two layers, on three classes."""
    cohort = listed(sizes) if cohort == "listed" else cohort
    written = scenarios.scenario({}, ["mean"], 0.01, "features", Condition(sizes, cohort))
    return scenarios.flat(scenarios.run({**written, **sections}, "features", sizes).model())


def same(sections: dict, cohort) -> None:
    want = weights(sections, FULL, cohort)
    for sizes in (BETWEEN, AROUND):
        np.testing.assert_allclose(weights(sections, sizes, cohort), want, rtol=1e-9, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("cohort", ["all", "listed", {"kind": "cyclic", "size": 5}], ids=["all", "listed", "cyclic"])
@pytest.mark.parametrize("name", METHODS)
def test_of_every_method(name, cohort):
    same({"method": name, "server": None}, cohort)


@pytest.mark.long
@pytest.mark.parametrize("cohort", ["all", "listed"])
@pytest.mark.parametrize("name", RULES)
def test_of_every_rule(name, cohort):
    same({"server": [{"kind": name, **REQUIRED.get(name, {})}]}, cohort)
