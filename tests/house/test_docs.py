"""The pages in docs: derived ones are up to date, code on them is executed, names on them exist."""

import ast
import contextlib
import importlib.util
import io
import re
import subprocess
import sys

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from conftest import if_all_installed
from test_layers import FAMILIES, LAYERS
from test_public import DECORATORS
from test_readme import block, pages, text_of

import fedsim
from fedsim import errors
from fedsim.cli import cli
from fedsim.cli.entry import every_command, homes
from fedsim.kinds import ALIASES
from fedsim.scenario import read

EXECUTED = {
    "method",
    "fedavg",
    "python",
    "own",
    "halving",
    "networks",
    "given",
    "frame",
    "rounding",
    "bytes",
    "updates",
    "field_init",
    "own_metric",
    "survival",
    "field",
    "torch_loop",
    "torch_fedsim",
    "flower_client",
    "flower_fedsim",
}  # blocks of Python, here, by test_readme.py, test_field_page.py and those of fields
STEPS = ["plan", "train", "receive", "aggregate", "save"]


@pytest.fixture(scope="module")
def make(root):
    """docs/make.py."""
    spec = importlib.util.spec_from_file_location("docs_make", root / "docs/make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_hand(root, make) -> dict[str, str]:
    """The pages that nothing makes."""
    return {name: text for name, text in pages(root).items() if not text.startswith(make.MADE)}


# --------------------------------------------------------------------------------- derived pages


@pytest.fixture(scope="module")
def derived(make):
    """The derived pages as they would be made now, by name."""
    return make.pages()


@if_all_installed
def test_derived_pages_are_what_would_be_made(make, derived, capsys, monkeypatch):
    monkeypatch.setattr(make, "pages", lambda: derived)
    assert make.main(["--check"]) == 0, capsys.readouterr().err + "run python docs/make.py"
    made = {
        str(path.relative_to(make.DOCS))
        for suffix in ("md", "svg")
        for path in make.DOCS.rglob(f"*.{suffix}")
        if make.text_of(path).startswith(make.MADE)
    }
    assert made == set(derived)


@if_all_installed
def test_a_page_that_was_changed_is_named(make, derived, capsys, monkeypatch):
    changed = {**derived, "cli.md": make.MADE + "Nothing.\n"}
    monkeypatch.setattr(make, "pages", lambda: changed)
    assert make.main(["--check"]) == 1
    assert capsys.readouterr().err.startswith("docs/cli.md: out of date")


def test_a_column_without_a_meaning_is_refused(make, monkeypatch):
    for columns in ((*make.TABLES["rounds.csv"], "sigma"), make.TABLES["rounds.csv"][1:]):
        monkeypatch.setitem(make.TABLES, "rounds.csv", columns)
        with pytest.raises(SystemExit, match=r"differ about rounds\.csv: (sigma|method)$"):
            make.files_page()


@pytest.mark.parametrize(
    "ours, text",
    [
        ("method: fedavgg", "no method or rule 'fedavgg'"),
        ("client.lr: 0.1; client.epoch: 5", "unknown key"),
        ("server: ['krum(f=2, chosen=5)']", "chosen"),
        ("fedsim runs", "no such command"),
        ("fedsim run --restart", "no such option"),
        ("fedsim explain krumm", "nothing is called 'krumm'"),
        ("fedsim.Client", "no such name"),
    ],
)
def test_what_does_not_exist_is_refused_in_the_table_of_other_tools(make, ours, text):
    assert text in make.refusal(ours)


# Whose names mean something else here, or several things.
ELSEWHERE = {"LinearPartitioner", "ExponentialPartitioner", "PathologicalMNIST", "GossipDFL"}
# How a name is written in the sections whose lines name a kind.
TYPED = {
    "method": "method={}",
    "server": "server=[{}]",
    "wire": "wire=[{}]",
    "data.partition": "data.partition={}",
}


@pytest.mark.long
def test_names_of_other_tools_lead_to_ours(make):
    """Typed where the kind stands, each is understood, or the error says what to write."""
    tried = 0
    for row in make.names_of_other_tools():
        section, _, kind = row["ours"].partition(": ")
        kind = re.sub(r"\W*(\w+).*", r"\1", kind)
        meant = {kind, *(alias for alias, same in ALIASES.items() if same == kind)}
        for theirs in re.sub(r" \(.*", "", row["theirs"]).split(", "):
            name = theirs.rpartition(".")[2]
            is_name = re.fullmatch(r"[A-Z]*[a-z]*[A-Z]+[\w-]*", name)
            if section not in TYPED or not is_name or name in ELSEWHERE:
                continue
            tried += 1
            edit = TYPED[section].format(name)
            try:
                scenario = read({"name": "page", "data": {"kind": "digits"}}, (edit,))
            except fedsim.ScenarioError as error:
                answer = str(error)
            else:
                answer = str(scenario.spec)
            assert any(word in answer for word in meant), (edit, answer)
    assert tried > 80


def test_all_that_a_user_can_add_has_a_page(make):
    listed = yaml.safe_load((make.DOCS / "extend/pages.yaml").read_text())
    assert sorted(name for page in listed for name in page["decorators"]) == DECORATORS


RUN = """
result = fedsim.run({
    "name": "examples", "rounds": 2, "method": "careful(strength=0.2)",
    "data": {"kind": "coins", "clients": 10, "partition": "in_turn"},
    "model": {"kind": "flat", "scale": 0.5}, "fleet": {"malicious": 0.2},
    "cohort": {"kind": "largest", "size": 8},
    "client": {"optimizer": "signed"}, "wire": ["echo", "louder"], "server": ["halve"],
})
assert result.status == "done" and result.rounds["clients_reported"].sum() == 16
assert result.scenario["client"]["strength"] == 0.2
"""


@pytest.mark.long
def test_examples_of_the_pages_run_print_what_stands_there_and_are_one_scenario(root, make):
    """One after another, in a process of their own: what is registered stays."""
    listed = yaml.safe_load((make.DOCS / "extend/pages.yaml").read_text())
    whole = "\n".join(make.text_of(make.DOCS / f"extend/{page['name']}.md") for page in listed)
    code = "\n".join(re.findall(r"```python\n(.*?)```", whole, re.S))
    words = [sys.executable, "-W", "error", "-c", code + RUN]
    done = subprocess.run(words, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(re.findall(r"```text\n(.*?)```", whole, re.S))


# -------------------------------------------------------------------------------------- the code


def test_every_block_of_python_is_one_that_is_executed(root, make):
    named = {
        name: re.findall(r"(?:<!-- (\w+) -->\n)?```python\n", text)
        for name, text in by_hand(root, make).items()
    }
    assert sorted(name for names in named.values() for name in names) == sorted(EXECUTED)


@pytest.mark.long
def test_a_run_gives_the_model_of_the_25_lines_of_page_one(root):
    """Of seven clients of 2 to 40 rows, in three lanes."""
    code = block(pages(root)["docs/index.md"], "fedavg")
    assert code.count("\n") <= 25
    page: dict = {}
    exec(compile(code, "docs/index.md", "exec"), page)

    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(7), [3, 17, 5, 40, 9, 2, 28])
    x = rng.normal(size=(len(owner), 6)).astype(np.float32)
    y = rng.integers(0, 3, len(owner))
    most = np.bincount(owner).max()
    rows = [
        np.resize(np.flatnonzero(owner == k), most) for k in range(7)
    ]  # padded with rows that do not count
    masks = [(np.arange(most) < n).astype(np.float32) for n in np.bincount(owner)]
    clients = page["stack"](
        [{"x": x[r], "y": y[r], "mask": m} for r, m in zip(rows, masks, strict=True)]
    )
    params = {"W": np.zeros((6, 3), np.float32), "b": np.zeros(3, np.float32)}
    for _ in range(3):
        params = page["fedavg"](params, clients)

    scenario = {
        "name": "page-one", "rounds": 3, "data": {"partition": "natural", "test": 0},
        "model": "logistic", "cohort": "all",
        "client": {"lr": 0.5, "batch": "full", "steps": 4}, "evaluate": {"every": 3},
        "numerics": {"lanes": 3},
    }  # fmt: skip
    model = fedsim.run(scenario, data=fedsim.Arrays(x, y, client=owner)).model()
    for name, leaf in params.items():
        assert np.abs(leaf).max() > 0.01
        np.testing.assert_allclose(model[name], leaf, atol=1e-6)


def test_texts_come_back_as_the_page_says(root):
    exec(compile(block(text_of(root), "bytes"), "docs/scenarios/data.md", "exec"), {})


@pytest.mark.long
def test_xla_rounds_as_the_page_says(root):
    """What is 0 there is 0 everywhere; how many of the others differ depends on the processor."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block(text_of(root), "rounding"), "docs/bits.md", "exec"), {})
    shown = [
        re.findall(r"(.*): (\d+)", text)
        for text in (block(text_of(root), "printed by rounding"), printed.getvalue())
    ]
    assert [(line, n != "0") for line, n in shown[0]] == [(line, n != "0") for line, n in shown[1]]


# -------------------------------------------------------------------------------------- the names


def exists(name: str) -> bool:
    """Whether there is such a module, or such a name in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        with contextlib.suppress(ImportError):
            thing = importlib.import_module(".".join(parts[:length]))
            try:
                for part in parts[length:]:
                    thing = getattr(thing, part)
            except AttributeError:
                return False
            return True
    return False


@if_all_installed
def test_names_of_the_package_on_the_pages_exist(root, make):
    assert exists("fedsim.tree.fold")
    assert not exists("fedsim.tree.folt")
    assert not exists("fedsim.tre.fold")
    public = (root / "fedsim/__init__.py").read_text()
    of_tools = re.findall(r"^    from fedsim\.tools\.\S+ import (\w+)", public, re.M)
    for page, text in by_hand(root, make).items():
        for name in set(re.findall(r"`@?(fedsim(?:\.\w+)+)", text)):
            assert exists(name) or name.removeprefix("fedsim.") in of_tools, f"{page}: {name}"


@if_all_installed
def test_options_and_keys_on_the_pages_exist(root, make):
    options = {
        flag
        for command in (cli, *every_command().values())
        for p in command.params
        for flag in (*p.opts, *p.secondary_opts)
    }
    options.update(word for words in homes() for word in words.split())
    sections = r"(?:data|model|fleet|client|evaluate|numerics|checkpoint)"
    keys = set()
    for page, text in by_hand(root, make).items():
        if page != "CONTRIBUTING.md":
            code = re.findall(r"`[^`\n]+`", re.sub(r"```.*?```", "", text, flags=re.S))
            flags = {flag for words in code for flag in re.findall(r"(?<![\w-])--[a-z-]+", words)}
            assert flags <= options | {"--help"}, f"{page}: {flags - options}"
            keys |= {
                key for words in code for key in re.findall(rf"`({sections}\.[a-z_]+)\W", words)
            }
    assert keys
    for key in keys:
        assert CliRunner().invoke(cli, ["explain", key]).exit_code == 0, key


def test_packages_are_listed_in_the_order_of_their_imports(root):
    table = pages(root)["docs/design.md"].partition("<!-- packages -->")[2].partition("\n\n")[0]
    named = [
        name
        for cell in re.findall(r"^\| (`[^|]+) \|", table, re.M)
        for name in re.findall(r"`(\w+)`", cell)
    ]
    order = ["FAMILY" if name in FAMILIES else name for name in named]
    assert list(dict.fromkeys(order)) == [name for name in LAYERS if not name.startswith("_")]


def test_the_steps_of_a_round_are_those_of_the_engine(root):
    steps = re.findall(r"^\| (\d) (\w+) \|", pages(root)["docs/round.md"], re.M)
    assert steps == [(str(i + 1), name) for i, name in enumerate(STEPS)]
    functions = [
        node.name
        for node in ast.parse((root / "fedsim/engine/round.py").read_text()).body
        if hasattr(node, "name")
    ]
    assert [name for name in functions if name in STEPS] == STEPS


def test_exit_codes_are_those_of_the_errors(root):
    table = pages(root)["docs/promises.md"].partition("## Exit codes")[2]
    rows = re.findall(r"^\| ([\d, ]+) \| (.*) \|$", table, re.M)
    texts = {int(code): text for cell, text in rows for code in cell.split(", ")}
    codes = set(texts)
    signals = {130: "Ctrl-C; resumable", 143: "SIGTERM; resumable"}
    assert errors.EXIT_CODES == texts | {
        code: f"interrupted by {signal}" for code, signal in signals.items()
    }
    of_errors = {
        thing.exit_code
        for thing in vars(errors).values()
        if isinstance(thing, type) and issubclass(thing, errors.Failure)
    }
    assert codes == of_errors | {0, 5, 130, 143}


def test_bugs_are_counted(root):
    rows = re.findall(r"^\| .* \|$", (root / "tests/MUTANTS.md").read_text(), re.M)[2:]
    caught = sum("nowhere" not in row for row in rows)
    assert f"[{caught} bugs](tests/MUTANTS.md)" in pages(root)["README.md"]


def test_the_workflow_is_what_ci_runs_here(root):
    workflow = yaml.safe_load((root / ".github/workflows/ci.yml").read_text())
    steps = [step.get("run") for job in workflow["jobs"].values() for step in job["steps"]]
    assert ".ci/run" in steps and (root / ".ci/run").stat().st_mode & 0o111
