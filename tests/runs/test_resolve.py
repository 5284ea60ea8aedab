"""A comparison resolves the keys that depend on samples, as a single run does."""

import pytest
from building import built
from conftest import shipped

from fedsim.report.page.setting import setting
from fedsim.runs.resolve import resolve_design
from fedsim.runs.sweep import cached_partition
from fedsim.scenario import read
from fedsim.scenario.sections import Compare
from fedsim.study.grid import design_of

SITES = ("oslo", "lyon", "bern", "graz", "cork")


@pytest.fixture
def table(tmp_path):
    """A scenario with the rows of five hospitals, whose target is a class or a number."""
    rows = [f"{i % 7},{i % 3},{SITES[i % 5]},{i % 2},{i / 10}" for i in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,site,sick,days", *rows]))

    def scenario(target="sick", other="days"):
        data = {"kind": "csv", "path": str(tmp_path / "t.csv"), "target": target, "client": "site"}
        return {"name": "sites", "rounds": 2, "seeds": 2, "data": {**data, "drop": [other]}}

    return scenario


def resolved(scenario, methods=("fedavg", "median"), **grid):
    design = design_of(read(scenario), list(methods), **grid)
    return resolve_design(design, cached_partition()).scenario.resolved()


def words(scenario):
    """What the page says about the data and their size."""
    shown = setting({"scenario": scenario})
    return dict(shown["steps"])["data"], shown["data"]


def test_five_hospitals_are_five_clients_whose_target_decides_the_model(table):
    """And not a hundred."""
    scenario_values = resolved(table())
    assert scenario_values["data"]["clients"] == 5
    assert scenario_values["data"]["partition"]["kind"] == "natural"
    assert scenario_values["model"]["kind"] == "logistic"
    assert words(scenario_values) == ("csv, 5 clients, natural, without days", "csv, 5 clients")
    assert resolved(table("days", "sick"))["model"]["kind"] == "linear"


def test_values_that_differ_between_configurations_are_left_out(table):
    """100 equal clients and five hospitals: no number fits both, and both can be read again."""
    scenario_values = resolved(table(), vary={"data.partition": ["natural", "iid"]})
    assert "clients" not in scenario_values["data"]
    assert words(scenario_values) == (
        "csv, clients as varied, partition as varied, without days",
        "csv, clients as varied",
    )
    some = resolved(table(), vary={"data.clients": [5], "data.validation": [0.1, 0.2]})
    assert some["data"]["clients"] == 5 and some["data"]["validation"] == 0.0


def test_an_explicit_partition_differs_from_the_default_one(table):
    """Both are `iid` in the typed section, but not the same: the cache tells them apart."""
    equal = {"method": "fedavg", "label": "equal parts", "set": {"data.partition": "iid"}}
    cells = design_of(read(table()), ["fedavg", equal]).cells
    partition = cached_partition()
    assert [partition(cell.scenario, None, "float32")[0].N for cell in cells] == [5, 100]


def test_data_that_cannot_be_partitioned_leave_the_scenario_as_written(tmp_path):
    data = {"kind": "csv", "path": str(tmp_path / "none.csv"), "target": "y"}
    assert resolved({"name": "none", "data": data})["data"]["clients"] == 100


@pytest.mark.long
@pytest.mark.parametrize("path", shipped(), ids=lambda path: path.stem)
def test_every_shipped_scenario_is_resolved_like_a_single_run(path):
    scenario = read(path)
    # Without a grid of its own.
    alone = scenario._replace(spec=scenario.spec.model_copy(update={"compare": Compare()}))
    design = design_of(alone, ["fedavg"])
    scenario_values = resolve_design(design, cached_partition()).scenario.resolved()
    expected = built(design.cells[0].scenario).scenario.resolved()
    for section in ("data", "model"):
        assert scenario_values[section] == expected[section]
