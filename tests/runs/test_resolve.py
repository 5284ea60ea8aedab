"""A comparison resolves the keys that depend on samples, as a single run does."""

import json

import pytest
from conftest import shipped

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.report.page.setting import setting
from fedsim.runs.resolve import resolve_design
from fedsim.runs.sweep import cached_partition
from fedsim.scenario import read
from fedsim.scenario.sections import Compare
from fedsim.study.grid import design_of

SITES = ("oslo", "lyon", "bern", "graz", "cork")


@pytest.fixture
def table(tmp_path):
    """The rows of five hospitals, whose target is a class or a number."""
    rows = [f"{i % 7},{i % 3},{SITES[i % 5]},{i % 2},{i / 10}" for i in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,site,sick,days", *rows]))

    def scenario(target, **more):
        data = {
            "kind": "csv",
            "path": "t.csv",
            "target": target,
            "client": "site",
            "drop": ["sick", "days"],
            **more,
        }
        data["drop"] = [name for name in data["drop"] if name != target]
        (tmp_path / "s.yaml").write_text(
            json.dumps({"name": "sites", "rounds": 2, "seeds": 2, "data": data})
        )
        return tmp_path / "s.yaml"

    return scenario


def resolved(scenario, methods=("fedavg", "median"), **grid):
    design = design_of(read(scenario), list(methods), **grid)
    return resolve_design(design, cached_partition()).scenario.resolved()


def words(scenario):
    """What the page says about the data and their size."""
    shown = setting({"scenario": scenario})
    return dict(shown["steps"])["data"], shown["data"]


def test_five_hospitals_are_five_clients_and_not_a_hundred(table):
    scenario_values = resolved(table("sick"))
    assert scenario_values["data"]["clients"] == 5
    assert scenario_values["data"]["partition"]["kind"] == "natural"
    assert scenario_values["model"]["kind"] == "logistic"
    assert words(scenario_values) == ("csv, 5 clients, natural, without days", "csv, 5 clients")


def test_numeric_targets_are_resolved_to_a_linear_model(table):
    assert resolved(table("days"))["model"]["kind"] == "linear"


def test_values_that_differ_between_configurations_are_left_out(table):
    """100 equal clients and five hospitals: no number fits both, and both can be read again."""
    scenario_values = resolved(table("sick"), vary={"data.partition": ["natural", "iid"]})
    assert "clients" not in scenario_values["data"]
    assert words(scenario_values) == (
        "csv, clients as varied, partition as varied, without days",
        "csv, clients as varied",
    )
    some = resolved(table("sick"), vary={"data.clients": [5], "data.validation": [0.1, 0.2]})
    assert some["data"]["clients"] == 5 and some["data"]["validation"] == 0.0


def test_an_explicit_partition_differs_from_the_default_one(table):
    """Both are `iid` in the typed section, but not the same: the cache tells them apart."""
    methods = [
        "fedavg",
        {"method": "fedavg", "label": "equal parts", "set": {"data.partition": "iid"}},
    ]
    cells = design_of(read(table("sick")), methods).cells
    partition = cached_partition()
    assert [partition(cell.scenario, None, "float32")[0].N for cell in cells] == [5, 100]


def test_data_that_cannot_be_partitioned_leave_the_scenario_as_written(tmp_path):
    scenario = {
        "name": "none",
        "data": {"kind": "csv", "path": str(tmp_path / "none.csv"), "target": "y"},
    }
    assert resolved(scenario)["data"]["clients"] == 100


@pytest.mark.long
@pytest.mark.parametrize("path", shipped(), ids=lambda path: path.stem)
def test_every_shipped_scenario_is_resolved_like_a_single_run(path):
    scenario = read(path)
    alone = scenario._replace(
        spec=scenario.spec.model_copy(update={"compare": Compare()})
    )  # without a grid of its own
    design = design_of(alone, ["fedavg"])
    scenario_values = resolve_design(design, cached_partition()).scenario.resolved()
    cell = design.cells[0].scenario
    with numerics(cell) as devices:
        expected = build(cell, devices=devices).scenario.resolved()
    assert (scenario_values["data"], scenario_values["model"]) == (
        expected["data"],
        expected["model"],
    )
