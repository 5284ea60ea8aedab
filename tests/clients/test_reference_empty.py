"""Clients without samples change nothing, whatever the method or the rule (all of the registry)."""

import inspect

import numpy as np
import pytest
from conftest import GRAPH_METHODS, OF_ADAPTERS, READERS, crossed
from reference import scenarios
from reference.conditions import FULL, Condition, listed
from reference.programs import programs  # noqa: F401 (a fixture)

import fedsim.scenario.methods  # noqa: F401 (importing it registers methods)
from fedsim.compose import FAMILIES
from fedsim.scenario import read

BETWEEN = (0, FULL[0], 0, *FULL[1:4], 0, 0, *FULL[4:], 0)
REQUIRED = {
    **{
        kind: {"f": 1}
        for kind, factory in FAMILIES["rule"].items()
        if "f" in inspect.signature(factory).parameters
    },
    "bulyan": {"f": 0},  # more would need cohorts of seven
    "centered_clipping": {"radius": 0.1},
    "robust_learning_rate": {"threshold": 2},
}
SPLIT = ("fedper", "fedrep", "fedbabu", "lg_fedavg", "fedbn", "fedrod", "fedala")
SPLIT += ("fedpac", "fedas")
PERSONAL = {kind: {"personal": ["W"]} for kind in SPLIT}  # whose default asks for layers
OURS = lambda family: [
    name for name, factory in FAMILIES[family].items() if factory.__module__.startswith("fedsim.")
]
# whose start models are of another form: test_clusters, test_pfedhn and test_superfed
SEVERAL = {"ifca", "hypcluster", "fedem", "pfedhn", "superfed", "dbe"}
METHODS, RULES = (
    [name for name in OURS(family) if name not in READERS | OF_ADAPTERS | SEVERAL | GRAPH_METHODS]
    for family in ("method", "rule")
)


def weights(client: str, server: list[dict], sizes: tuple[int, ...], cohort: str) -> np.ndarray:
    """Final parameters of a network of two layers, on three classes."""
    condition = Condition(sizes, listed(sizes) if cohort == "listed" else cohort)
    written = scenarios.scenario(
        {"kind": client, **PERSONAL.get(client, {})}, server, 0.01, "features", condition
    )
    return scenarios.flat(scenarios.run(written, "features", sizes).model())


def same(client: str, server: list[dict], cohort: str) -> None:
    cohort = "all" if client == "cfl" else cohort  # which compares all clients
    with_others, alone = (weights(client, server, sizes, cohort) for sizes in (BETWEEN, FULL))
    np.testing.assert_allclose(with_others, alone, rtol=1e-9, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize(("name", "cohort"), crossed(METHODS, ["all", "listed"], (), 3))
def test_of_every_method(name, cohort):
    method = {"kind": name, **REQUIRED.get(name, {})}
    resolved = read({"name": "x", "data": "digits", "method": method}).resolved()
    same(resolved["client"]["kind"], resolved["server"], cohort)


@pytest.mark.long
@pytest.mark.parametrize(("name", "cohort"), crossed(RULES, ["all", "listed"], (), 3))
def test_of_every_rule(name, cohort):
    same("feddyn" if name == "dyn" else "sgd", [{"kind": name, **REQUIRED.get(name, {})}], cohort)
