"""Mistakes of different stages are reported together, each in the same line as on its own."""

import copy
import itertools
import re

import pytest
import yaml
from click.testing import CliRunner
from conftest import if_all_installed, sampled

from fedsim.cli import cli
from fedsim.errors import DataError, ScenarioError
from fedsim.runs import cells
from fedsim.runs.refusals import CompareOverrides, refuse, with_later_problems
from fedsim.scenario import read

SOUND = {
    "name": "sound",
    "rounds": 3,
    "data": {"kind": "digits", "clients": 30, "validation": 0.1},
    "model": {"kind": "logistic"},
    "fleet": {"malicious": [3]},
    "cohort": {"kind": "uniform", "size": 12},
    "schedule": {"kind": "sync"},
    "client": {"kind": "fedprox", "mu": 0.1, "lr": 0.1, "batch": 10},
    "wire": [{"kind": "sign_flip"}],
    "server": [{"kind": "clip", "norm": 1.0}, {"kind": "trimmed_mean", "trim": 2}],
    "evaluate": {"every": 1},
    "compare": {
        "methods": ["fedavg", "median"],
        "vary": {"client.lr": [0.1]},
        "tune": {"client.batch": [10, 20]},
    },
}
MISTAKES = {  # mistake -> (the stage that reports it, its path, the wrong value)
    "an unknown key": ("keys", ("evaluate", "evry"), 2),
    "a word for a number": ("keys", ("rounds",), "many"),
    "an unknown attack": ("kinds", ("wire", 0, "kind"), "sign_flop"),
    "a link without what it needs": ("kinds", ("server", 0), {"kind": "clip"}),
    "a client beyond its bounds": ("method", ("client", "mu"), -1),
    "an impossible partition": ("federation", ("data", "partition"), "shards(per_client=5000)"),
    "a metric of other targets": ("federation", ("evaluate", "metric"), "test_r2"),
    "a cohort above the clients": ("cohort", ("cohort", "size"), 50),
    "an attacker who is not there": ("cohort", ("fleet", "malicious"), [99]),
    "a rule above its bound": ("rules", ("server", 1, "trim"), 40),
    "a method that is none": ("cells", ("compare", "methods", 0), "fedavvg"),
    "a path that is none": ("cells", ("compare", "vary", "cliennt.lr"), [1, 2]),
    "a value beyond its bounds": ("cells", ("compare", "vary", "client.lr"), [0.1, -3]),
    "a setting beyond its bounds": ("cells", ("compare", "tune", "client.batch"), [10, 0]),
    "a baseline that is not compared": ("cells", ("compare", "baseline"), "mean"),
}
PAIRS = list(itertools.combinations(MISTAKES, 2))


def planted(*names):
    """The sound scenario with some mistakes."""
    scenario = copy.deepcopy(SOUND)
    for name in names:
        _, (*above, key), value = MISTAKES[name]
        holder = scenario
        for part in above:
            holder = holder[part]
        holder[key] = value
    return scenario


def lines(scenario):
    """The lines of `check`, one per problem.

    Without what another mistake may change: the size of the cohort, and known names.
    """
    try:
        refuse(read(scenario), None, CompareOverrides())
    except ScenarioError as error:
        if error.mended is not None:
            error = with_later_problems(error, None, CompareOverrides())
        assert error.exit_code == 2
        text = re.sub(r"(the cohort has) \d+|(is compared); .*", r"\1\2", str(error))
        return set(text.splitlines())
    return set()


@pytest.fixture(scope="module")
def alone():
    """Mistake -> its lines, made when they are asked for."""
    known = {}
    return lambda name: known.setdefault(name, lines(planted(name)))


@pytest.mark.parametrize("name", sampled(MISTAKES, every=9))
def test_every_mistake_has_one_line(name, alone):
    assert len(alone(name)) == 1


@pytest.mark.long
@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_two_mistakes_have_the_lines_of_each(one, two, alone):
    assert lines(planted(one, two)) == alone(one) | alone(two)


@pytest.mark.long
def test_one_mistake_of_every_stage(alone):
    stages = {stage: name for name, (stage, *_) in MISTAKES.items()}
    reported = lines(planted(*stages.values()))
    assert reported == set().union(*map(alone, stages.values())) and len(reported) == len(stages)


def written(tmp_path, scenario):
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(scenario, sort_keys=False))
    return str(path)


@pytest.mark.parametrize("command", ["compare", "run"])
def test_commands_report_mistakes_in_the_order_of_the_file(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mistakes = {
        "a word for a number": "rounds",
        "a cohort above the clients": "cohort.size",
        "a rule above its bound": "server[1].trim",
        "a path that is none": "compare.vary.cliennt.lr",
    }
    done = CliRunner().invoke(cli, [command, written(tmp_path, planted(*mistakes))])
    assert isinstance(done.exception, ScenarioError) and done.exception.exit_code == 2
    problems = str(done.exception).splitlines()
    wheres = [where for where in mistakes.values() if command != "run" or "compare" not in where]
    assert [line.split(": ")[1] for line in problems] == wheres
    numbers = [int(line.split(":")[1]) for line in problems]
    assert numbers == sorted(numbers) and not (tmp_path / "reports").exists()


@pytest.mark.parametrize(
    ("sections", "places"),
    [
        # no word on the rule that the method would bring
        ("{method: fedavvg, client: {lr: 0.1}}", ["method"]),
        ("{cohort: uniform(sizes=3), server: [mean, mean]}", ["cohort.sizes", "server[1]"]),
        ("{client: fedprox(muu=3), server: [krum(f=30)]}", ["client.muu", "server[0].f"]),
        # nor on clients, of whom nothing is known
        ("{data: {kind: digitz}, cohort: uniform(size=5000)}", ["data.kind"]),
        ("{cohort: uniform(size=x), server: [krum(f=30)]}", ["cohort.size"]),
    ],
)
def test_consequences_of_a_mistake_are_not_reported(sections, places):
    changed = yaml.safe_load(sections)
    dropped = {"compare", "wire"} | ({"server"} if "method" in changed else set())
    scenario = {name: SOUND[name] for name in SOUND if name not in dropped} | changed
    assert [line.split(": ")[1] for line in sorted(lines(scenario))] == sorted(places)


@if_all_installed
def test_bad_files_without_other_mistakes_are_a_data_error(tmp_path, monkeypatch):
    """Two bad files at once, and then with another mistake."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.csv").write_text("a,b\n1,2\n")
    trace = {"kind": "trace", "path": "wrong.csv"}
    listed = {"kind": "listed", "path": "wrong.csv"}
    scenario = {**SOUND, "fleet": {"speed": trace}, "wire": [], "cohort": listed}
    del scenario["compare"]
    path = written(tmp_path, scenario)
    done = CliRunner().invoke(cli, ["check", path])
    assert isinstance(done.exception, DataError) and len(str(done.exception).splitlines()) == 2
    done = CliRunner().invoke(cli, ["check", path, "--set", "rounds=x"])
    assert done.exception.exit_code == 2 and len(str(done.exception).splitlines()) == 3


def test_the_cells_that_were_not_tried_are_counted(monkeypatch):
    tried = refuse(read(SOUND), None, CompareOverrides())
    assert (tried.cells, tried.checked, tried.built, tried.runs) == (4, 4, 4, 4)
    assert tried.bytes_up > 0
    assert tried.notes == ["1 seed is too few, 6 would do for a significant difference"]
    monkeypatch.setattr(cells, "MAX_SECONDS", -1.0)
    untried = refuse(read(SOUND), None, CompareOverrides())
    assert untried.checked == untried.runs == 0 and untried.cells == 4


@pytest.mark.long
def test_options_replace_what_the_file_compares(tmp_path):
    path = written(tmp_path, SOUND)
    of_methods = "--methods: krum(f=30): server[1].f: krum needs at least 63 reporting clients"
    for options, said in (
        (["--methods", "fedavg,krum(f=30)", "--vary", "rounds=1,0"], of_methods),
        (["--methods", "fedavg,krum"], "krum: method.f: is missing; write krum(f=...)"),
        (["--vary", "rounds=1,-1"], "--vary: rounds=-1: should be an integer of at least 0"),
    ):
        done = CliRunner().invoke(cli, ["check", path, *options])
        assert done.exit_code and said in str(done.exception)
