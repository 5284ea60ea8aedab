"""Settings that are tried with one method alone, and remarks on choices at the edge of a grid."""

import math

import numpy as np
import pytest

import fedsim
from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.scenario.ranges import Range
from fedsim.study.edges import edge_lines, ranges_in
from fedsim.study.findings import findings_of
from fedsim.study.grid import design_of
from fedsim.study.tuning import Trial, sensitivity, tuned
from fedsim.study.verdict import verdict

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


def row(means, chosen, method="m", **columns):
    """Rows of `tuning.csv`: values of a path with their validation means."""
    (path, values), *_ = columns.items()
    rows = [
        {"method": method, path: v, "validation_mean": m, "chosen": 0}
        for v, m in zip(values, means, strict=True)
    ]
    rows[chosen]["chosen"] = 1
    return rows


def test_a_choice_at_the_edge_of_its_grid_is_remarked_on():
    falling = row([0.9, 0.8, 0.7], 0, mu=[0.01, 0.1, 1])
    rising = row([0.7, 0.8, 0.9], 2, mu=[0.01, 0.1, 1])
    tables = {"compare": [], "summary": [], "tuning": falling}
    about = verdict(findings_of(tables, "m", scenario={}), ["mu"])
    assert about.edges == about.lines[1:] == edge_lines(falling, ["mu"], {})
    (line,) = about.edges
    assert line == (
        "m is best with the smallest μ (mu) tried, 0.01 of 0.01, 0.1, 1: try smaller values, too."
    )
    (line,) = edge_lines(rising, ["mu"], {})
    assert "the largest μ (mu)" in line and "try larger values" in line
    others = [{**r, "method": "n"} for r in falling]
    (line,) = edge_lines([*falling, *others], ["mu"], {})
    assert line.startswith("m and n are best with the smallest μ (mu) tried, 0.01 of")
    (line,) = edge_lines([{**r, "variant": "x=1"} for r in rising], ["mu"], {})
    assert line.startswith("With x 1: m is best")


@pytest.mark.parametrize(
    "rows",
    [
        row([0.8, 0.9, 0.7], 1, mu=[0.01, 0.1, 1]),
        row([0.8, 0.9], 1, mu=[0.01, 0.1]),  # two values: every choice is an edge
        row([0.9, 0.8, 0.7], 0, mu=[0, 0.1, 1]),  # nothing lies below 0
        row([0.9, 0.9, 0.7], 0, mu=[0.01, 0.1, 1]),  # no better than one that is no edge
        row([0.9, 0.8, 0.7], 0, mu=["a", "b", "c"]),
        row([0.9, 0.8, 0.7], 0, mu=[True, False, True]),
        row([None, None, None], 0, mu=[0.01, 0.1, 1]),
    ],
)
def test_a_choice_inside_its_grid_gets_no_remark(rows):
    assert edge_lines(rows, ["mu", "another"], {}) == []


def setting_of(lr):
    """The key columns of a setting."""
    return {"method": "m", "tuned": f"client.lr={lr}", "client.lr": lr}


def trial(setting, validation, status=None, steps=0):
    """A setting with its validation scores by seed; without a test score where it has a status."""
    rounds, summary = [], []
    for seed, score in enumerate(validation):
        of_run = status or ("failed" if score is None else None)
        final = None if of_run else score
        rounds.append({"seed": seed, "validation_accuracy": score})
        summary.append({"seed": seed, "final": final, "diverged": 0, "status": of_run})
    timing = [{"local_steps": 0}, {"local_steps": steps}]
    return Trial(setting_of(setting), rounds, summary, timing)


def test_a_setting_that_has_not_run_is_not_chosen_by_the_start_model():
    """Its validation score is that of the initial model, here better than the other setting's."""
    trials = [trial(0.1, [0.9], "not_run"), trial(0.2, [0.4])]
    best, rows = tuned(trials, "test_accuracy", "final")
    assert best == 1
    assert [row["test_mean"] for row in rows] == [None, 0.4]


def test_the_seeds_under_which_a_setting_is_the_best_and_the_steps_of_all_trials_are_counted():
    """The first of ties counts; a trial that failed is never the best, and took no step."""
    scores = {0.1: [0.5, 0.6, 0.7], 0.2: [0.5, 0.9, 0.6], 0.3: [None, 0.1, 0.8]}
    trials = [trial(setting, values, steps=700) for setting, values in scores.items()]
    _, rows = tuned([*trials, Trial(setting_of(3), [], [])], "test_accuracy", "final")
    assert [row["best_seeds"] for row in rows] == [1, 1, 1, 0]
    assert [row["local_steps"] for row in rows] == [700, 700, 700, 0]
    assert sensitivity({"method": "m"}, rows)["tuning_steps"] == 2100


def drawn_rows(values, best, method="m"):
    """Rows of `tuning.csv` of drawn settings, and how many seeds have each as their best."""
    return [
        {"method": method, "mu": float(v), "best_seeds": int(b), "validation_mean": 0.5}
        for v, b in zip(values, best, strict=True)
    ]


def test_a_best_setting_in_an_outer_tenth_of_its_range_in_most_seeds_is_named():
    """On the range's own scale; of drawn settings, the largest alone is no remark."""
    compare = {
        "methods": ["fedavg", {"method": "fedprox(mu=log(1e-3, 1))", "label": "m"}],
        "tune": {"client.lr": [0.1, 0.3]},
        "budget": 4,
    }
    ranges = ranges_in({"compare": compare})
    assert ranges == {("m", "method.mu"): Range("log", 0.001, 1.0)}
    ranges = {("m", "mu"): Range("log", 0.001, 1.0)}
    values = [0.0019, 0.03, 0.4, 0.6]  # 0.6 is in the upper tenth, of which 0.501 is the end
    (line,) = edge_lines(drawn_rows(values, [0, 1, 1, 8]), ["mu"], ranges)
    assert line.startswith("In 8 of 10 seeds, the best μ (mu) of m")
    assert "in the upper tenth of its range, log(0.001, 1), of 4 settings tried" in line
    (line,) = edge_lines(drawn_rows(values, [9, 1, 0, 0]), ["mu"], ranges)
    assert "In 9 of 10 seeds" in line and "lower tenth" in line
    for best in ([0, 0, 10, 0], [1, 1, 1, 7], [0, 0, 0, 4]):
        assert edge_lines(drawn_rows(values, best), ["mu"], ranges) == []
    rows = [{**row, "chosen": False} for row in drawn_rows(values, [1] * 4)]
    rows[-1] |= {"chosen": True, "validation_mean": 0.6}
    assert len(edge_lines(rows, ["mu"], {})) == 1
    assert edge_lines(rows, ["mu"], ranges) == []


def test_pure_noise_seldom_has_its_best_settings_in_an_outer_tenth():
    """Four uniform draws and ten seeds: at one of two ends, by the binomial law, 0.93 %."""
    expected = 0.0
    for within in range(1, 4):
        rest = 4 - within
        chance = math.comb(4, within) * 0.1**within * 0.9**rest
        for seeds in (8, 9, 10):
            of_best = math.comb(10, seeds) * (within / 4) ** seeds * (rest / 4) ** (10 - seeds)
            expected += 2 * chance * of_best
    assert expected == pytest.approx(0.0093, abs=1e-4)

    rng = np.random.default_rng(0)
    repeats = 4000
    ranges = {("m", "mu"): Range("uniform", 0.0, 1.0)}
    lines = 0
    for _ in range(repeats):
        best = rng.multinomial(10, [0.25] * 4)
        lines += len(edge_lines(drawn_rows(rng.uniform(size=4), best), [], ranges))
    assert abs(lines / repeats - expected) < 4 * math.sqrt(expected / repeats)


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
    for setting in settings["pulled_in_right"]:
        assert list(setting) == ["method.pull", "client.lr", "client.epochs"]
    with pytest.raises(ScenarioError, match="pulled_in_wrong: pull should be a list of values, or"):
        settings_by_method({**compare, "methods": ["pulled_in_wrong"]})
