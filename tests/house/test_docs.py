"""The pages in docs: derived ones are up to date, code on them is executed, names on them exist."""

import contextlib
import importlib.util
import re
import subprocess
import sys

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from conftest import WHOLE, if_all_installed
from test_public import DECORATORS
from test_readme import block, pages, text_of

import fedsim
from fedsim import errors
from fedsim.cli import cli
from fedsim.cli.entry import every_command, homes
from fedsim.kinds import ALIASES
from fedsim.scenario import read

pytestmark = pytest.mark.optimised

# Blocks of Python that are executed: here, by test_readme.py, test_field_page.py and by fields.
EXECUTED = {
    *("method", "python", "own", "halving", "networks", "given", "frame", "updates"),
    *("fedavg", "rounding", "bytes", "field_init", "field", "own_metric", "survival"),
    *("torch_loop", "torch_fedsim", "flower_client", "flower_fedsim"),
}


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


@if_all_installed
def test_derived_pages_are_what_would_be_made(make):
    derived = make.pages()
    stale = [name for name, text in derived.items() if make.text_of(make.DOCS / name) != text]
    assert stale == [], "run python docs/make.py"
    written = [*make.DOCS.rglob("*.md"), *make.DOCS.rglob("*.svg")]
    made = [path for path in written if make.text_of(path).startswith(make.MADE)]
    assert {str(path.relative_to(make.DOCS)) for path in made} == set(derived)


def test_what_does_not_exist_is_refused_in_the_table_of_other_tools(make):
    for ours, text in (
        ("client.lr: 0.1; client.epoch: 5", "unknown key"),
        ("fedsim run --restart", "no such option"),
        ("fedsim.Client", "no such name"),
    ):
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
    blocks = re.findall(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", whole, re.S)
    # Trying all laws takes as long as all the rest, and is for test_conform.py.
    played = [block for block in blocks if WHOLE or "fedsim.conform" not in block[0]]
    words = [sys.executable, "-W", "error", "-c", "\n".join(code for code, _ in played) + RUN]
    done = subprocess.run(words, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(text for _, text in played)


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
    clients = []
    for k, n in enumerate(np.bincount(owner)):
        rows = np.resize(np.flatnonzero(owner == k), most)  # padded with rows that do not count
        mask = (np.arange(most) < n).astype(np.float32)
        clients.append({"x": x[rows], "y": y[rows], "mask": mask})
    clients = page["stack"](clients)
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
def test_xla_rounds_as_the_page_says(root, capsys):
    """What is 0 there is 0 everywhere; how many of the others differ depends on the processor."""
    exec(compile(block(text_of(root), "rounding"), "docs/bits.md", "exec"), {})
    printed = capsys.readouterr().out
    shown = block(text_of(root), "printed by rounding")
    differs = lambda text: [(line, n != "0") for line, n in re.findall(r"(.*): (\d+)", text)]
    assert differs(printed) == differs(shown)


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
    params = [p for command in (cli, *every_command().values()) for p in command.params]
    options = {flag for p in params for flag in (*p.opts, *p.secondary_opts)}
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


def test_exit_codes_are_those_of_the_errors(root):
    table = pages(root)["docs/promises.md"].partition("## Exit codes")[2]
    rows = re.findall(r"^\| ([\d, ]+) \| (.*) \|$", table, re.M)
    texts = {int(code): text for cell, text in rows for code in cell.split(", ")}
    assert errors.EXIT_CODES == texts | {
        130: "interrupted by Ctrl-C; resumable",
        143: "interrupted by SIGTERM; resumable",
    }
    types = [thing for thing in vars(errors).values() if isinstance(thing, type)]
    of_errors = {each.exit_code for each in types if issubclass(each, errors.Failure)}
    assert set(texts) == of_errors | {0, 5, 130, 143}


def test_bugs_are_counted(root):
    rows = re.findall(r"^\| .* \|$", (root / "tests/MUTANTS.md").read_text(), re.M)[2:]
    caught = sum("nowhere" not in row for row in rows)
    assert f"[{caught} bugs](tests/MUTANTS.md)" in pages(root)["README.md"]
