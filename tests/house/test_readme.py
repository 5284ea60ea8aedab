"""The README and the pages in docs are executed: their commands, their blocks, their tables.

Commands run in a copy of the project and a fresh virtual environment. Every command line is in
`AFTER`, with what must be true once it has run: a line that is only there or only here fails.
"""

import json
import os
import re
import subprocess

import pandas as pd
import pytest
from conftest import if_all_installed, if_whole
from test_cli import FILES
from test_commands import fedsim as typed

import fedsim
from fedsim.report import page
from fedsim.runs import derive, directory
from fedsim.scenario import read
from fedsim.study.words import variation_in_words
from tests.deletion import copy_without

pytestmark = pytest.mark.optimised

F = ".venv/bin/fedsim"


def _files(*names):
    return lambda folder, printed: [name for name in names if not (folder / name).is_file()]


def _says(*words):
    return lambda folder, printed: [word for word in words if word not in printed]


def _rows(run, rows):
    return lambda folder, printed: (
        [] if len(pd.read_csv(folder / run / "rounds.csv")) == rows else [f"{run}: not {rows}"]
    )


AFTER = {  # command line -> what is missing after it (nothing)
    "main": {
        "python3 -m venv .venv && .venv/bin/pip install --quiet -e ."
        " && .venv/bin/fedsim run scenarios/iid.yaml": _files("reports/iid/figures/curves.png"),
    },
    "compare": {
        f"{F} compare scenarios/compare/rules.yaml": _rows("reports/rules-compare", 140 * 16),
        f"{F} export reports/rules-compare --format latex": _says("\\toprule", "multi\\_krum(f=6)"),
    },
    "write": {
        f"{F} new mine": _files("mine.yaml", "fedsim.schema.json"),
        f"{F} list rules": _says("trimmed_mean(trim)", "krum("),
        f"{F} explain trimmed_mean": _says("aggᵈ", "trim = 1", "arXiv:1803.01498"),
        f"{F} explain client.batch": _says("batch = 16"),
        f"{F} data partition mine.yaml": _files("reports/mine-partition/partition.png"),
        f"{F} check mine.yaml --set model=cnn": _says("parameters", "memory", "first batch"),
        f"{F} run mine.yaml --set client.lr=0.05 --set rounds=20 --seeds 2"
        " --out reports/slow": _rows("reports/slow", 42),
        f"{F} compare mine.yaml --methods fedavg,scaffold,'fedprox(mu=0.1)'"
        " --set rounds=10 --seeds 3": _says("3 seeds are too few, 7 would do", "scaffold"),
    },
    "plug": {
        f"{F} compare scenarios/iid.yaml --methods fedavg,'fednear(mu=0.5)'"
        " --plugin near.py --set rounds=5 --seeds 3": _says("fednear(mu=0.5)"),
    },
    "resume": {
        f"{F} run scenarios/iid.yaml --resume --set rounds=120": _rows("reports/iid", 121),
        f"{F} verify reports/iid": _says("reports/iid is equal to what its record says"),
        f"{F} verify reports/slow --against reports/iid": _says("slow: differs", "rounds.csv:"),
        f"{F} report reports/iid": _says("figures/curves.png"),
    },
    "contributions": {
        f"{F} report --contributions reports/iid --how gtg --out reports/contributions": _files(
            "reports/contributions/contributions.png"
        ),
    },
    "fork": {
        f"{F} fork reports/iid --round 50 --set 'wire=[sign_flip]' --set fleet.malicious=0.2"
        " --out reports/attacked": _rows("reports/attacked", 121),
        f"{F} fork reports/iid --round 50 --set 'server=[median]' --out reports/robust": _rows(
            "reports/robust", 121
        ),
        f"{F} report reports/iid reports/attacked reports/robust --out reports/forks.html": _files(
            "reports/forks.html"
        ),
    },
    "bundle": {
        f"{F} export --format zip reports/iid -o reports/paper.zip": _files("reports/paper.zip"),
        f"{F} verify --against reports/paper.zip": _says("iid: byte-equal"),
    },
    "cluster": {  # played by test_cluster.py, on other ports
        ".venv/bin/dask scheduler --port 8786": None,
        ".venv/bin/dask worker HOST:8786 --nthreads 1": None,
        f"{F} compare scenarios/compare/rules.yaml --on dask://HOST:8786": None,
    },
    "tests": {  # that is what runs here
        ".venv/bin/pip install --quiet -e '.[dev]' && .venv/bin/python -m pytest -q -n 2": None
    },
}


def pages(root) -> dict[str, str]:
    """What a reader may open, by path."""
    paths = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    return {str(path.relative_to(root)): path.read_text() for path in paths}


def text_of(root) -> str:
    """All pages, one after another."""
    return "\n".join(pages(root).values())


def block(text: str, name: str) -> str:
    """The one block of that name, wherever it stands."""
    blocks = re.findall(rf"<!-- {name} -->\n```\w+\n(.*?)```", text, re.S)
    assert len(blocks) == 1, f"{len(blocks)} blocks are called '{name}'"
    return blocks[0]


def lines_of(text: str) -> dict[str, list[str]]:
    """Command lines by block."""
    blocks = re.findall(r"<!-- (\w+) -->\n```sh\n(.*?)```", text, re.S)
    return {
        name: [line.partition("   #")[0].rstrip() for line in body.splitlines() if line]
        for name, body in blocks
    }


def test_every_command_line_is_one_that_is_executed(root):
    text = text_of(root)
    written = {(name, line) for name, lines in lines_of(text).items() for line in lines}
    assert written == {(name, line) for name, lines in AFTER.items() for line in lines}
    assert text.count("```sh") == len(AFTER)  # and no shell block goes without a name


@if_whole
@pytest.mark.long
def test_the_commands_on_a_fresh_machine(root, tmp_path):
    copy_without([], tmp_path)
    quick = {**os.environ, "PIP_NO_COMPILE": "0"}  # pip does not compile what nothing imports

    def done(line: str, code: int = 0):
        words = ["bash", "-euc", line]
        ended = subprocess.run(words, cwd=tmp_path, env=quick, capture_output=True, text=True)
        assert ended.returncode == code, f"{line}: {ended.stderr}"
        return ended

    printed: dict[str, str] = {}
    text = text_of(root)
    (tmp_path / "near.py").write_text(block(text, "method"))
    for name in ("main", "compare", "write", "plug", "resume", "contributions", "fork", "bundle"):
        for line, missing in AFTER[name].items():
            ended = done(line, 7 if line.startswith(f"{F} verify reports/slow --against") else 0)
            # a line every half minute, on a slow machine
            progress = r"(fedsim: rules: \d+/\d+ rounds.*\n)*"
            assert name == "main" or re.fullmatch(progress, ended.stderr), line
            assert missing(tmp_path, ended.stdout) == [], line
            printed[name] = printed.get(name, "") + ended.stdout
    for name in ("main", "compare"):
        alike(block(text, f"printed by {name}"), printed[name])
    (tmp_path / "wrong.yaml").write_text(block(text, "wrong"))
    assert done(f"{F} run wrong.yaml", 2).stderr == block(text, "printed by wrong")
    # The first command installs what running needs and no more.
    done(".venv/bin/python -m pytest --version", 1)
    collected = done(block(text, "tests").strip() + " --collect-only").stdout
    assert "test_every_command_line_is_one_that_is_executed" in collected


def alike(shown: str, printed: str) -> None:
    """What a page shows was printed, its numbers within what other machines give."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in printed.splitlines()]
    for line in shown.strip().splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        alike = [len(cells) == len(other) and all(map(same, cells, other)) for other in lines]
        assert any(alike), line


def same(a: str, b: str) -> bool:
    if " to " in a and " to " in b:
        return all(map(same, a.split(" to "), b.split(" to ")))
    try:
        return abs(float(a) - float(b)) < 0.03
    except ValueError:
        return a == b


def printed_by(name: str, root, capsys, **given) -> str:
    """What a page's block of Python prints."""
    code = compile(block(text_of(root), name), f"block {name}", "exec")
    exec(code, {"__name__": "page", **given})
    return capsys.readouterr().out


def are_networks(printed: str) -> bool:
    """Whether each library has its line with a score."""
    names, scores = zip(*(line.split() for line in printed.splitlines()), strict=True)
    return names == ("Equinox", "linen", "nnx") and min(map(float, scores)) > 0.5


BLOCKS = {  # block of Python -> whether it printed what it should
    "python": lambda printed: "(64, 64)" in printed,
    "updates": lambda printed: printed.count("[0, 1, 2, 3, 4]") == 3,
    "given": lambda printed: printed.endswith("[0, 1, 2, 3, 4, 5, 6, 7, 8] True\n"),
    "networks": are_networks,
}
WRITING = "given"  # its files are none of the project's


@pytest.mark.long
@pytest.mark.usefixtures("own_kinds")
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_python_run(name, root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path if name == WRITING else root)
    printed = printed_by(name, root, capsys, folder=tmp_path / "run")
    assert BLOCKS[name](printed), printed


@pytest.mark.long
@pytest.mark.usefixtures("own_kinds")
@pytest.mark.parametrize("name", ["own", "halving"])
def test_a_block_prints_what_is_shown_below_it(name, root, capsys):
    alike(block(text_of(root), f"printed by {name}"), printed_by(name, root, capsys))


@pytest.mark.long
@pytest.mark.usefixtures("own_kinds")
def test_frame_block(root, tmp_path, capsys):
    """And the scenario above it gives the same, bit for bit, from the same table in a file."""
    page: dict = {"__name__": "scenarios_page"}
    exec(compile(block(text_of(root), "frame"), "docs/scenarios/data.md", "exec"), page)
    alike(block(text_of(root), "printed by frame"), capsys.readouterr().out)
    page["frame"].to_csv(tmp_path / "cancer.csv", index=False)
    (tmp_path / "cancer.yaml").write_text(block(text_of(root), "cancer"))
    assert fedsim.run(tmp_path / "cancer.yaml").rounds.equals(page["result"].rounds)


@pytest.mark.long
@pytest.mark.usefixtures("own_kinds")
def test_the_readme_s_method_is_explained(root, tmp_path):
    (tmp_path / "near.py").write_text(block(text_of(root), "method"))
    done = typed("explain fednear --plugin near.py", tmp_path)
    assert done.returncode == 0 and "server: {kind: mean}" in done.stdout, done.stderr


@pytest.mark.long
def test_robust_block(root, tmp_path):
    """The defence is worth its place on the page."""
    (tmp_path / "robust.yaml").write_text(block(text_of(root), "robust"))
    result = fedsim.run(tmp_path / "robust.yaml")
    mean = fedsim.run(tmp_path / "robust.yaml", edits=["server=[mean]"])
    assert result.summary["final"][0] > mean.summary["final"][0] + 0.1


OF_OTHER_RUNS = {
    "bytes.csv",  # where messages differ in size: test_cost_tables.py
    "seconds.csv",  # where virtual seconds do: test_cost_tables.py
    "staleness.csv",  # of an asynchronous schedule: test_schedules.py
    "clusters.csv",  # of methods with clusters: test_clusters.py
    "canaries.csv",  # of audited privacy: test_audit.py
    "confusion.csv",  # with evaluate.confusion: test_confusion.py
    "survival.csv",  # of times until an event: test_kaplan_meier.py
    "breakdown.csv",  # of several shares of attackers: test_breakdown.py
    "machines.csv",  # where machines or a schedule make times differ: test_machine_pages.py
}


@pytest.mark.long
def test_table_of_files_is_what_is_written(root, tmp_path):
    """By a comparison in which something varies; a run writes FILES."""
    table = pages(root)["docs/files.md"].partition("\n## ")[0]
    named = set(re.findall(r"^\| `([^`]+\.\w+|checkpoints|figures|tables)` \|", table, re.M))
    of_a_run = {re.sub(r"model\..*", "model.<method>.<seed>.safetensors", name) for name in FILES}
    assert of_a_run <= named

    vary = {"wire": [["sign_flip"], ["gaussian(std=1.0)"]], "fleet.malicious": [0, 0.2]}
    grid = {"vary": vary, "tune": {"client.lr": [0.01, 0.1]}}
    edits = ["data.validation=0.1", "data.clients=10", "rounds=1"]
    methods = ["fedavg", "median"]
    scenario = root / "scenarios/iid.yaml"
    fedsim.compare(scenario, methods, **grid, edits=edits, out=tmp_path / "out", pictures=False)
    tables = {path.name for path in (tmp_path / "out").glob("*.csv")}
    assert tables == {name for name in named - OF_OTHER_RUNS if name.endswith(".csv")}


def anchors(text: str) -> set[str]:
    """What the headings of a page are called in links."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@if_all_installed
def test_every_link_leads_somewhere(root):
    for source, text in pages(root).items():
        prose = re.sub(r"```.*?```", "", text, flags=re.S)
        targets = [a or b for a, b in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", prose)]
        for target in (target for target in targets if not target.startswith("https://")):
            name, _, anchor = target.partition("#")
            path = (root / source).parent / name if name else root / source
            assert path.exists(), f"{source}: {target}"
            assert not anchor or anchor in anchors(path.read_text()), f"{source}: {target}"


UNSAID = ("--quiet", "--force")  # options of a command that change no result

COMPARED = {
    "rules": "compare",
    "optimisers": "compare",
    **dict.fromkeys(("worst_case", "breakdown", "known_results", "backdoor_rules"), "robust"),
    "eps_front": "privacy",
    "personal": "personal",
    "topologies": "topologies",
}
# the others have the report's name
SCENARIOS = {"personal": "methods", "topologies": "heterogeneity"}
REDUCED = ("robust", "personal", "privacy", "topologies")  # folders of scenarios
# Of those under REDUCED not kept either.
LARGE = ("bytes.csv", "clients.csv", "partition.csv", "seconds.csv", "timing.csv", "figures/")


def command_in(record) -> list[str]:
    """The words that made a kept run, without those that change no result."""
    return [word for word in record["surroundings"]["command"][1:] if word not in UNSAID]


@pytest.mark.long
def test_the_pictures_are_of_a_run_of_the_scenario_that_the_page_names(root):
    kept = root / "reports/readme"
    command = "run scenarios/dirichlet.yaml --seeds 5 --out reports/readme"
    assert command_in(json.loads((kept / "run.json").read_text())) == command.split()
    settled = read(kept / "scenario.yaml").resolved()
    written = read(root / "scenarios/dirichlet.yaml", ("seeds=5",)).resolved()
    same_everywhere = settled.keys() - {"numerics", "data"}
    assert all(settled[name] == written[name] for name in same_everywhere)

    again = fedsim.run(root / "scenarios/dirichlet.yaml", seeds=1, rounds=20)
    clients = pd.read_csv(kept / "clients.csv").query("seed == 0")
    assert clients["samples"].tolist() == again.clients["samples"].tolist()
    first = pd.read_csv(kept / "rounds.csv").query("seed == 0 and round <= 20")
    assert (again.rounds["test_accuracy"] - first["test_accuracy"]).abs().max() < 0.05


def comparable(scenario) -> dict:
    """A resolved scenario without what the kept records may write otherwise."""
    resolved = read(scenario).resolved()
    grid = resolved["compare"]  # values are kept as text
    names = lambda method: method if isinstance(method, str) else method["label"]
    labels = list(map(names, grid["methods"]))
    axes = {path: len(values) for path, values in grid["vary"].items()}
    missing = dict.fromkeys(("title", "numerics", "data"))
    return {**resolved, **missing, "compare": {**grid, "methods": labels, "vary": axes}}


@pytest.mark.parametrize(
    "name",
    [name if name == "rules" else pytest.param(name, marks=pytest.mark.long) for name in COMPARED],
)
def test_what_is_kept_of_a_comparison_is_that_of_its_scenario(name, root):
    """The printed command made it from the current scenario, and its tables agree."""
    kept = root / "reports" / name
    scenario = f"scenarios/{COMPARED[name]}/{SCENARIOS.get(name, name)}.yaml"
    record = json.loads((kept / "run.json").read_text())
    assert command_in(record) == ["compare", scenario, "--out", f"reports/{name}"]
    assert comparable(record["scenario"]) == comparable(root / scenario)
    checks = {check.name: check for check in fedsim.verify(kept).checks}
    # Without partition.csv, which is large, nobody is at chance level.
    follows = checks["compare.csv"]
    assert checks["record"].ok and (follows.ok or "partition.csv is missing" in follows.detail)
    files = directory.hashes(kept)
    assert all(record["files"][name] == sha for name, sha in files.items())
    # Models and commits are not kept, where others could look for them.
    gone = set(record["files"]) - set(files)
    large = LARGE if COMPARED[name] in REDUCED else ()
    models = {file for file in gone if file.endswith(".safetensors")}
    assert all(file.startswith(("checkpoints/", *large)) for file in gone - models)
    source = page.Source(record, derive.tables_of(kept))
    assert large or (kept / "report.html").read_bytes() == page.page_of([source])


def test_the_first_table_is_of_the_comparison_that_is_kept(root):
    shown = block(text_of(root), "printed by compare")
    summary = pd.read_csv(root / "reports/rules/summary.csv")
    for (method, variant), mean in summary.groupby(["method", "variant"])["final"].mean().items():
        heading = re.escape(variation_in_words(variant))
        (lines,) = re.findall(rf"^{heading}:\n((?:  .*\n?)+)", shown, re.M)
        assert re.search(rf"^  {re.escape(method)} +10 +{mean:.4f} ", lines, re.M), method
