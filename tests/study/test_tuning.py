"""Settings of a method: which are tried, by lists, ranges and files, and what is refused."""

import pytest

import fedsim
from fedsim.errors import ScenarioError
from fedsim.report.page.setting import setting
from fedsim.scenario import read
from fedsim.study.grid import design_of
from fedsim.study.methods import methods_of

SCENARIO = {
    "name": "small",
    "rounds": 2,
    "seeds": 2,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 5, "validation": 0.2},
    "client": {"lr": 0.1, "batch": 16, "epochs": 1},
}
PROX = "fedprox(mu=tuned)"
OF_ANY_PATH = {
    "method": "fedprox(mu=0.1|1)",
    "label": "prox",
    "set": {"client.epochs": 2},
    "tune": {"client.lr": [0.1, 0.2]},
}


@pytest.mark.parametrize(
    ("why", "methods", "tune", "tried"),
    [
        ("its own", "fedavg, fedprox(mu = 0.01 | 1)", None, [(), (0.01,), (1,)]),
        (
            "common ones, with every method",
            "fedavg,fedprox(mu=0.1|1)",
            {"client.lr": [0.1, 0.2]},
            [(0.1,), (0.2,), (0.1, 0.1), (0.2, 0.1), (0.1, 1), (0.2, 1)],
        ),
        (
            "any path",
            ["fedavg", OF_ANY_PATH],
            None,
            [(), (0.1, 0.1), (0.1, 0.2), (1, 0.1), (1, 0.2)],
        ),
    ],
)
def test_a_method_has_settings(why, methods, tune, tried):
    cells = design_of(read(SCENARIO), methods, tune=tune).cells
    assert [tuple(cell.tuned.values()) for cell in cells] == tried, why
    assert {cell.method for cell in cells} in ({"fedavg", PROX}, {"fedavg", "prox"})


def test_what_is_run_has_the_values_of_a_setting():
    cells = design_of(read(SCENARIO), "fedadam(lr=0.1|1,tau=0.5,b1=0|0.9)").cells
    links = [cell.scenario.spec.server[-1] for cell in cells]
    values = [(0.1, 0.5, 0), (0.1, 0.5, 0.9), (1, 0.5, 0), (1, 0.5, 0.9)]
    assert [(link.lr, link.tau, link.b1) for link in links] == values
    assert cells[1].key_columns == {
        "method": "fedadam(lr=tuned,tau=0.5,b1=tuned)",
        "tuned": "method.lr=0.1, method.b1=0.9",
        "method.lr": 0.1,
        "method.b1": 0.9,
    }

    section = {"methods": ["fedavg", OF_ANY_PATH]}
    design = design_of(read({**SCENARIO, "compare": section}))
    assert design.scenario.resolved()["compare"]["methods"] == section["methods"]
    prox = design.cells[2]
    assert prox.edits == ("client.epochs=2", "client.lr=0.2")
    assert prox.definition == "fedprox(mu=0.1)"


LR = {"client.lr": [1, 2]}
OWN = {"method": "fedavg", "tune": LR}
LOG = {"client.lr": "log(0.1, 1)"}


@pytest.mark.parametrize(
    ("compare", "text"),
    [
        ({"methods": ["fedprox(mu=0.1||1)"]}, "mu has an empty value; write values with | between"),
        ({"methods": ["fedprox(mux=0.1|1)"]}, "mux"),
        ({"methods": [{**OWN, "lable": "x"}]}, "no key 'lable'; did you mean 'label'"),
        ({"methods": [{**OWN, "tune": {"client.lr": 0.1}}]}, "tune should be lists of values by"),
        ({"methods": [{**OWN, "set": "client.lr=1"}]}, "set should be values by path"),
        ({"methods": [OWN], "tune": LR}, "client.lr is tuned with all methods already"),
        ({"methods": [OWN], "vary": LR}, "client.lr is varied already"),
        (
            {"methods": ["fedprox(" + ",".join(f"a{i}=1|2" for i in range(20)) + ")"]},
            "2 x 1 x 1048576 x 1 = 2097152 combinations",
        ),
        ({"tune": {"client.lr": "log(1, 1)"}, "budget": 4}, "LOW has to be below HIGH"),
        ({"tune": {"client.lr": "log(0, 1)"}, "budget": 4}, "a logarithm needs LOW above 0"),
        ({"tune": {"client.lr": "log(0.1)"}, "budget": 4}, "takes two numbers"),
        ({"tune": {"client.lr": "normal(0, 1)"}, "budget": 4}, "or a range: uniform"),
        ({"tune": LOG}, "set compare.budget=16"),
        ({"tune": LR, "budget": 4}, "nothing is tuned over a range"),
        ({"methods": ["fedsam"], "ranges": True, "budget": 4}, "fedsam: its files do not say what"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_line(compare, text):
    with pytest.raises(ScenarioError) as refusal:
        design_of(read({**SCENARIO, "compare": {"methods": ["fedavg"], **compare}}))
    assert text in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_settings_of_a_method_are_chosen_on_validation_data():
    without = {**SCENARIO, "data": {**SCENARIO["data"], "validation": 0}}
    with pytest.raises(ScenarioError, match=r"set data.validation=0.1"):
        design_of(read(without), "fedprox(mu=0.1|1)")


def settings_by_method(compare, **more):
    """What is tried of every method of a comparison."""
    cells = design_of(read({**SCENARIO, "compare": compare}), **more).cells
    settings = {}
    for cell in cells:
        settings.setdefault(cell.method, []).append(cell.tuned)
    return settings


def test_ranges_are_drawn_with_common_numbers_and_one_budget():
    prox = {"method": "fedprox(mu=log(1e-3, 1))", "label": "prox"}
    adam = {"method": "fedadam(lr=0.1|1)", "label": "adam", "tune": {"client.epochs": [1, 2]}}
    compare = {"methods": ["fedavg", prox, adam], "tune": {"client.lr": "log(0.01, 1)"}}
    compare["budget"] = 5
    settings = settings_by_method(compare)

    counts = {method: len(tried) for method, tried in settings.items()}
    assert counts == {"fedavg": 5, "prox": 5, "adam": 5}
    rates = {m: [tried["client.lr"] for tried in settings[m]] for m in settings}
    assert rates["fedavg"] == rates["prox"] == rates["adam"]
    assert all(0.01 <= rate <= 1 and len(f"{rate:g}") <= 7 for rate in rates["fedavg"])
    assert list(settings["prox"][0]) == ["client.lr", "method.mu"]
    # A larger budget begins with the same settings.
    assert settings_by_method({**compare, "budget": 3})["prox"] == settings["prox"][:3]

    design = design_of(read({**SCENARIO, "compare": compare}))
    again = read(design.scenario.resolved())
    assert design_of(again).cells[7].tuned == design.cells[7].tuned


def test_a_small_range_is_tried_as_a_whole():
    compare = {"methods": ["fedavg"], "budget": 9}
    tried = settings_by_method(compare, tune=["client.epochs=integers(1, 3)", "client.lr=0.1,1"])
    assert len(tried["fedavg"]) == 6
    few = settings_by_method({**compare, "budget": 5}, tune=["client.epochs=integers(1, 6)"])
    assert len({setting["client.epochs"] for setting in few["fedavg"]}) == 5


def test_ranges_of_a_methods_files_are_used_where_the_scenario_says_so():
    """The same values are tried as for the same ranges in the scenario."""
    compare = {"methods": ["fedavg", "fedprox", "fedadam", "centralised"], "budget": 3}
    written = {"tune": {"client.lr": "log(1e-2, 1)"}, "budget": 3}
    tuned_here = ["fedprox(mu=log(1e-3, 1))", "fedadam(lr=log(1e-3, 1e-1))"]
    written["methods"] = ["fedavg", *tuned_here, "centralised"]
    from_files = settings_by_method({**compare, "ranges": True})
    in_scenario = settings_by_method(written)
    assert list(from_files) == compare["methods"]
    for ours, theirs in zip(from_files.values(), in_scenario.values(), strict=True):
        assert ours == theirs and len(ours) == 3

    # What the resolved scenario says needs no files.
    design = design_of(read({**SCENARIO, "compare": {**compare, "ranges": True}}))
    resolved = design.scenario.resolved()
    assert "ranges" not in resolved["compare"]
    assert resolved["compare"]["methods"][1] == {
        "method": "fedprox(mu=log(1e-3, 1))",
        "label": "fedprox",
        "tune": {"client.lr": "log(1e-2, 1)"},
    }
    again = design_of(read(resolved)).cells
    assert [cell.tuned for cell in again] == [cell.tuned for cell in design.cells]


def test_values_and_ranges_of_the_scenario_come_first():
    fixed = {"method": "fedprox", "label": "fixed", "set": {"client.lr": 0.2}}
    settings = settings_by_method(
        {"methods": ["fedprox(mu=0.5)", fixed, "median"], "ranges": True, "budget": 2}
    )
    # The last one's is of the scenario's own client, which a rule keeps.
    paths = [list(tried[0]) for tried in settings.values()]
    assert paths == [["client.lr"], ["method.mu"], ["client.lr"]]
    compare = {"methods": ["fedprox"], "ranges": True, "budget": 2, "tune": {"client.lr": [1, 2]}}
    assert {tried["client.lr"] for tried in settings_by_method(compare)["fedprox"]} <= {1, 2}


PLUGIN = """
import fedsim

ranges = {"client.epochs": "integers(1, 9)", "pull": "log(0.1, 1)"}


@fedsim.method
def pulled_in_NAME(pull: float = 0.1):
    return {"client": {"kind": "fedprox", "mu": pull}, "server": ["mean"]}
"""


def test_ranges_of_a_plug_in(tmp_path):
    """They come on top of those of its links; `mu` is no parameter of the method."""
    compare = {"ranges": True, "budget": 2}
    for name, pull in (("right", "log(0.1, 1)"), ("wrong", "0.1")):
        text = PLUGIN.replace("NAME", name).replace("log(0.1, 1)", pull)
        (tmp_path / f"{name}.py").write_text(text)
        fedsim.enable(str(tmp_path / f"{name}.py"))
    settings = settings_by_method({**compare, "methods": ["pulled_in_right"]})
    for tried in settings["pulled_in_right"]:
        assert list(tried) == ["method.pull", "client.lr", "client.epochs"]
    with pytest.raises(ScenarioError, match="pulled_in_wrong: pull should be a list of values, or"):
        settings_by_method({**compare, "methods": ["pulled_in_wrong"]})


def test_a_tuned_method_has_one_label():
    """What is tried does not change it, so that values can be added; what is chosen is a column."""
    few, more, other = methods_of("fedadam(lr=0.01|0.03), fedadam(lr=0.01|0.1|1), fedadam(tau=1|2)")
    assert few.label == more.label == "fedadam(lr=tuned)" and other.label == "fedadam(tau=tuned)"
    (again,) = methods_of([few.entry])
    assert again == few and again.grid == {"method.lr": ["0.01", "0.03"]}


def test_what_was_run_says_what_was_tuned_and_not_the_rate_that_was_not():
    compare = {"methods": ["fedavg", "fedadam(lr=0.01|0.03)"], "tune": {"client.lr": [0.05, 0.2]}}
    scenario = {"name": "tuned", "rounds": 1, "data": {"kind": "digits", "validation": 0.1}}
    design = design_of(read({**scenario, "client": {"lr": 0.5}, "compare": compare}))
    record = {"scenario": design.scenario.resolved(), "halves": {"fedadam(lr=tuned)": "sgd → adam"}}
    steps = dict(setting(record)["steps"])
    assert steps["client"].startswith("sgd, lr tuned, batch") and "0.5" not in steps["client"]
    assert steps["methods"][1] == "fedadam(lr=tuned): sgd → adam, lr of 0.01, 0.03"
    assert steps["tuned"] == "client learning rate (client.lr): 0.05, 0.2"
