"""Commands as typed: right, wrong, into a pipe, without a terminal, in an old locale."""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner
from conftest import own_kinds_of, some

from fedsim.cli import cli, main
from fedsim.cli.entry import every_command, former, headings
from fedsim.compose import FAMILIES
from fedsim.errors import MAX_CHARACTERS
from fedsim.runs import logs
from fedsim.scenario.expected import plural_of

pytestmark = pytest.mark.essential

FEDSIM = [sys.executable, "-m", "fedsim.cli"]


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def fedsim(line, cwd, **environment):
    """A command line, typed in a folder; in a process of its own where the environment matters."""
    if environment:
        words, around = [*FEDSIM, *shlex.split(line)], {**os.environ, **environment}
        done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=around)
        return Done(done.returncode, done.stdout, done.stderr)
    stdout, stderr, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            main(shlex.split(line))
        except SystemExit as end:
            code = end.code or 0
    return Done(code, stdout.getvalue(), stderr.getvalue())


def invoke(*words):
    return CliRunner().invoke(cli, list(map(str, words)))


WRONG = [  # command line, exit code, what the one line says
    ("rum iid.yaml", 2, "no such command 'rum'; did you mean 'run'? see fedsim --help"),
    ("iid.yaml", 2, "did you mean 'run iid.yaml'?"),
    ("federate", 2, "no such command 'federate'; there are run, compare, check, data"),
    ("run", 2, "missing argument 'SCENARIO'"),
    ("run idd.yaml", 4, "idd.yaml: No such file or directory; did you mean iid.yaml?"),
    ("run nowhere/at/all.yaml", 4, "fedsim new NAME writes one to start from"),
    ("run .", 4, ".: is a directory, not a scenario"),
    ("run iid.yaml --sed 3", 2, "'--seeds'"),
    ("run iid.yaml --seeds five", 2, "write 5 (the first five), 0,1,2 (these) or 3,"),
    ("run iid.yaml --seeds 0", 2, "seeds"),
    ("run iid.yaml --set rounds", 2, "write PATH=VALUE"),
    ("run iid.yaml --set rouns=3", 2, "did you mean 'rounds'?"),
    ("run iid.yaml --set client.lr=fast", 2, "client.lr"),
    ("run iid.yaml --set data.partition=diriclet", 2, "did you mean 'dirichlet'?"),
    ("run iid.yaml --resume --force", 2, "give one of them"),
    ("run iid.yaml --device tpu --quiet", 2, "there is no tpu here"),
    ("run iid.yaml --plugin nothing.py", 2, "there is no such file"),
    ("run iid.yaml --out /proc/none/x --set rounds=1", 4, "/proc/none"),
    ("run iid.yaml --rounds 5", 2, "'--rounds'; write --set rounds=5; see fedsim run --help"),
    ("run iid.yaml --lr=0.1", 2, "write --set client.lr=0.1"),
    ("run iid.yaml rounds=5", 2, "write --set rounds=5"),
    ("compare iid.yaml", 2, "no methods to compare; name them: --methods"),
    ("compare iid.yaml --methods fedavg,fedadan", 2, "did you mean 'fedadam'?"),
    ("compare iid.yaml --methods fedavg,fedavg", 2, "'fedavg' is given twice"),
    ("compare iid.yaml --methods fedavg,median --baseline mean", 2, "no method 'mean' is compared"),
    ("compare iid.yaml --methods fedavg --vary alpha", 2, "write PATH=V1,V2"),
    ("run iid.yaml other.yaml", 2, "unexpected extra argument"),
    ("explain trimed_mean", 2, "did you mean 'trimmed_mean'?"),
    ("explain rule/sgd", 2, "nothing is called 'rule/sgd'"),
    ("list ruls", 2, "did you mean 'rules'?"),
    ("verify iid.yaml", 2, "is a file"),
    ("verify nowhere", 4, "holds no fedsim run"),
    ("verify nowhere --against nowhere", 4, "nowhere"),
    ("new =cmd()", 2, "is not a name"),
    ("new iid", 4, "iid.yaml: already exists"),
]


@pytest.fixture
def desk(root, tmp_path):
    """A folder with a scenario in it."""
    (tmp_path / "iid.yaml").write_text((root / "scenarios/iid.yaml").read_text())
    return tmp_path


@pytest.mark.parametrize(("line", "code", "message"), WRONG, ids=[line for line, *_ in WRONG])
def test_a_wrong_command_line_gets_one_line(line, code, message, desk):
    done = fedsim(line, desk)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert [path.name for path in desk.iterdir()] == ["iid.yaml"]  # nothing was written


def test_rows_go_nowhere_else_without_the_tool_that_takes_them(desk, monkeypatch):
    monkeypatch.setattr(logs, "modules_with", lambda entry: iter(()))
    done = fedsim("run iid.yaml --log-to wandb", desk)
    assert done == (2, "", "--log-to: the tool trackers is not installed\n")
    assert [path.name for path in desk.iterdir()] == ["iid.yaml"]


def test_every_command_has_help_with_examples_that_parse():
    for name in every_command():
        shown = invoke(*name.split(), "--help")
        assert shown.exit_code == 0 and "Examples:" in shown.output
        examples = shown.output.partition("Examples:")[2].partition("Options:")[0]
        commands = re.findall(r"^ {4,}.*$", examples, re.M)
        assert all(len(line) <= 60 for line in commands), name
        examples = re.sub(r" \\\n +", " ", examples)  # a command on several lines
        lines = re.findall(rf"^ +fedsim ({name.split()[0]}.*)$", examples, re.M)
        assert lines, name
        for line in lines:
            with click.Context(cli) as ctx:
                called, command, words = cli.resolve_command(ctx, shlex.split(line))
            assert command.make_context(called, words), line


def test_the_help_of_a_command_names_its_modes():
    for name in every_command():
        command, *rest = name.split()
        last = rest[-1].lstrip("-") if rest else ""
        assert re.search(rf"\b{last}\b", invoke(command, "--help").output), name


def test_words_of_earlier_versions_work_and_say_what_they_are_now(tmp_path):
    """The line is on stderr: what a command prints can still be piped."""
    for old, new in former().items():
        if old == "check --against":  # it takes a run, see tests/tools/bundle
            continue
        done = fedsim(f"{old} --help", tmp_path)
        line = f"fedsim: 'fedsim {old}' is now 'fedsim {new}'\n"
        assert (done.returncode, done.stderr) == (0, line)
        assert done.stdout == fedsim(f"{new} --help", tmp_path).stdout
    assert not set(former()) & set(cli.list_commands(click.Context(cli)))


def test_the_overview_names_every_command_once():
    shown = invoke("--help").output
    for heading, commands in headings().items():
        assert f"{heading}:" in shown
        assert all(len(re.findall(rf"^  {name} ", shown, re.M)) == 1 for name in commands)


def test_the_help_command_prints_what_the_help_option_does(tmp_path):
    assert fedsim("help run", tmp_path).stdout == fedsim("run --help", tmp_path).stdout
    assert fedsim("help", tmp_path).stdout == fedsim("--help", tmp_path).stdout


HEAVY = {"jax", "numpy", "pandas", "optax", "matplotlib", "scipy", "rich"}
IMPORTS = [  # command lines with their exit codes, and what none of them imports
    ({"--help": 0}, HEAVY | {"pydantic", "yaml"}),
    # A readable scenario with a mistake is built all the same, to find its other mistakes.
    (
        {"list scenarios": 0, "explain trimmed_mean": 0, "run not.yaml": 2, "run twice.yaml": 2},
        HEAVY,
    ),
    pytest.param({"new mine": 0}, HEAVY, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("lines", "heavy"), IMPORTS, ids=["help", "list and refusals", "new"])
def test_what_computes_nothing_imports_nothing_heavy(lines, heavy, tmp_path):
    (tmp_path / "not.yaml").write_text("name: [")
    (tmp_path / "twice.yaml").write_text("name: x\nname: y\ndata: digits\n")
    code = "import sys, fedsim.cli.entry as e\n"
    code += "def run(line):\n  try: return e.main(line.split()) or 0\n"
    code += "  except SystemExit as end: return end.code or 0\n"
    code += f"assert {{line: run(line) for line in {[*lines]}}} == {lines}\n"
    code += f"bad = {heavy} & set(sys.modules)\nassert not bad, bad"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_command_ends_right_after_its_exit_handlers():
    code = "import atexit, sys; atexit.register(print, 'at exit'); sys.argv[1:] = ['--version']\n"
    code += "from fedsim.cli import command\ntry: command()\nfinally: print('taken apart')"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[1:] == ["at exit"]


@pytest.mark.long
def test_an_old_locale_and_a_narrow_terminal_lose_nothing(tmp_path):
    ascii_only = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "COLUMNS": "1"}
    done = fedsim("explain fedprox", tmp_path, **ascii_only)
    assert done.returncode == 0 and done.stderr == "" and "\x1b" not in done.stdout
    assert re.search(r"^client/fedprox", done.stdout, re.M)


@pytest.mark.long
def test_new_writes_a_scenario_that_runs(tmp_path):
    done = fedsim("new mine", tmp_path)
    assert done.returncode == 0 and "fedsim run mine.yaml" in " ".join(done.stdout.split())
    text = (tmp_path / "mine.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=fedsim.schema.json\n")
    assert "starter" not in text.lower() and (tmp_path / "fedsim.schema.json").is_file()
    run = fedsim("run mine.yaml --set rounds=1 --quiet", tmp_path)
    assert run.returncode == 0 and (tmp_path / "reports/mine/rounds.csv").is_file()

    # Its commented lines work, too.
    assert len(re.findall(r"^  # - ", text, re.M)) == 2
    (tmp_path / "mine.yaml").write_text(re.sub(r"^  # - ", "  - ", text, flags=re.M))
    attacked = "--set 'wire=[{kind: sign_flip, scale: 5}]' --set fleet.malicious=0.2"
    done = fedsim(f"check mine.yaml --resolved {attacked}", tmp_path)
    assert done.returncode == 0, done.stderr


def test_doctor_reports_what_a_run_would_use(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=")
    report = json.loads(fedsim("doctor --json", tmp_path).stdout)
    assert report["versions"]["jax"] == version("jax")
    assert report["machine"]["devices"] == ["cpu:0 cpu"]
    assert "XLA_FLAGS" in report["settings"] and report["problems"] == []
    assert "no problems found" in fedsim("doctor", tmp_path).stdout


def test_list_knows_every_kind():
    listed = json.loads(invoke("list", "--json").output)
    counted = invoke("list").output
    for family in FAMILIES:
        assert own_kinds_of(family).keys() <= set(listed[plural_of(family)])
        line = rf"^  {plural_of(family)} +{len(FAMILIES[family])}$"
        assert re.search(line, counted, re.M), counted
    rules = invoke("list", "rules").output
    assert "krum(f, neighbours)" in rules and "fedmedian" in rules and "digits" not in rules
    assert "cpu" in invoke("list", "devices").output


@pytest.mark.long
def test_explain_knows_every_kind():
    """A share of each family, or all with FEDSIM_WHOLE=1."""
    for family in FAMILIES:
        for kind in some(sorted(own_kinds_of(family)), 6):
            shown = invoke("explain", f"{family}/{kind}")
            assert shown.exit_code == 0, shown.output
            assert shown.output.startswith(f"{family}/{kind}"), shown.output


def test_explain_gives_equation_defaults_and_source():
    shown = invoke("explain", "fedprox").output
    assert "client/fedprox" in shown and "method/fedprox" in shown  # both meanings
    assert "μ (y − x)" in shown
    assert "mu = 0.01   [a number of at least 0]" in shown
    assert "arXiv:1812.06127" in shown
    adam = invoke("explain", "method/fedadam").output
    assert "{kind: fedadam, lr: 0.1, b1: 0.9, b2: 0.99, tau: 0.001, v0: null}" in adam
    assert "{kind: mean, weights: uniform}" in adam
    assert "Resists: trim malicious clients" in invoke("explain", "fedtrimmedavg").output
    batch = invoke("explain", "client.batch").output
    assert "batch = 16   [an integer of at least 1 or full]" in batch


@pytest.mark.parametrize("line", ["check", "explain", "report", "run iid --seeds", "run iid --set"])
def test_no_quoted_text_makes_a_line_long(line, tmp_path, monkeypatch, capsys):
    """Nor does that of a base, whose file could not even be looked for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(f"extends: {'x' * 5000}\nname: a\n")
    word = "a.yaml" if line == "check" else "x" * 5000
    with pytest.raises(SystemExit) as end:
        main([*line.split(), word])
    assert end.value.code in (2, 4)
    assert max(map(len, capsys.readouterr().err.splitlines())) <= 2 * MAX_CHARACTERS + 3
