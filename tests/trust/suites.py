"""Rows 10 to 15 and 22: the counts of existing tests, and further wrong samples and payloads."""

import csv
import html.parser
import importlib
import io
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np

import fedsim
from fedsim.disk import tables
from fedsim.study.methods import methods_of
from trust import ROOT
from trust.table import Figure


def played(*words: str, whole: bool = True) -> dict[str, int]:
    """Run tests in a process, long ones too; return how many passed, failed and were skipped."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if whole:
        environment["FEDSIM_WHOLE"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", *words]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr
    counts = {what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    if done.returncode:
        print(done.stdout[-3000:], flush=True)
    return {"passed": 0, "failed": 0, "error": 0, "skipped": 0, **counts, "code": done.returncode}


def in_words(counts: dict[str, int]) -> str:
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    bad = counts["failed"] + counts["error"]
    return f"{counts['passed']} of {counts['passed'] + bad} pass{skipped}"


def edited(quick: bool) -> Figure:
    """Count edits of a scenario that are refused by field; commits of other seeds and runs, too."""
    selection = (
        "another_scenario_is_refused and numerics"
        if quick
        else "another or other or newer or fewer"
    )
    counts = played("tests/runs/test_resume.py", "-k", selection)
    text = (
        "tests of tests/runs/test_resume.py, each an edited field, another seed, data, format or "
        f"run: {in_words(counts)}"
    )
    return Figure(text, counts["code"] == 0 and (quick or counts["passed"] >= 50))


def spoiled(quick: bool) -> Figure:
    """Count mutations of scenarios, timed one by one, and hand-made mistakes."""
    if not quick:
        os.environ["FEDSIM_WHOLE"] = "1"
    module = importlib.import_module("test_mutations")
    module.MANY = 300 if quick else 10_000
    judge, seconds, outcomes = module.judged, [], []

    def judged(content: bytes, path) -> str:
        start = time.thread_time()
        outcomes.append(judge(content, path))
        seconds.append(time.thread_time() - start)
        return outcomes[-1]

    module.judged = judged
    with tempfile.TemporaryDirectory() as folder:
        module.test_thousands_of_spoiled_scenarios_are_read_or_refused(
            SimpleNamespace(mktemp=lambda name: Path(folder))
        )
    mistakes = played(
        "tests/scenario/test_hostile.py",
        "-k",
        "every_mistake and misspelt" if quick else "every_mistake or sixty",
    )
    count, longest = len(outcomes), max(seconds)
    text = (
        f"{count:,} mutations: {outcomes.count('read'):,} read (and read back the same), "
        f"{outcomes.count('refused'):,} refused in lines with their position, 0 anything else, "
        f"longest {longest:.2f} s; hand-made mistakes, every line as expected: {in_words(mistakes)}"
    )
    return Figure(text, longest <= 1 and mistakes["code"] == 0 and (quick or count >= 10_000))


def attacked(quick: bool) -> Figure:
    """Count attacks by scenarios, archives, tables, paths and run directories."""
    counts = played(
        "tests/scenario/test_hostile.py",
        "-k",
        "run_directory and pickle" if quick else "stranger or command",
    )
    confined = (
        played("tests/sources/test_confined.py")
        if not quick
        else {"code": 0, "passed": 0, "failed": 0, "error": 0, "skipped": 0}
    )
    text = (
        "attacks of tests/scenario/test_hostile.py, each refused within 10 s and 1 GiB, nothing "
        f"executed, nothing written elsewhere: {in_words(counts)}; "
        f"tests/sources/test_confined.py: {in_words(confined)}"
    )
    return Figure(
        text, counts["code"] == confined["code"] == 0 and (quick or counts["passed"] >= 40)
    )


def poisoned(quick: bool) -> Figure:
    """Count tests of every rule with a client that sends NaN, inf or -inf."""
    counts = played(
        "tests/rules/test_faults.py",
        "-k",
        "one_non_finite and median" if quick else "non_finite or keep_lets",
    )
    extreme = {"code": 0, "passed": 0, "failed": 0, "error": 0, "skipped": 0}
    if not quick:
        extreme = played("tests/rules/test_rules.py", "-k", "outliers or not_finite or absent_rows")
    text = (
        "tests/rules/test_faults.py, every rule x NaN, inf, -inf in a run, and what `stop` and "
        f"`keep` do: {in_words(counts)}; tests/rules/test_rules.py, outliers and rows that are not "
        f"finite or absent: {in_words(extreme)}"
    )
    return Figure(
        text, counts["code"] == extreme["code"] == 0 and (quick or counts["passed"] >= 40)
    )


def degenerate(quick: bool) -> Figure:
    """Count tests without usable clients, with too few or one with one sample, and zero weights."""
    selection = (
        "nobody_usable and median"
        if quick
        else "nobody_usable or too_few or one_client or impossible"
    )
    counts = played("tests/rules/test_faults.py", "-k", selection)
    seen = tiny_cohorts(("mean", "median") if quick else None)
    text = (
        "tests/rules/test_faults.py (nobody usable, too few, one client, every rule): "
        f"{in_words(counts)}; aggregate of 0 to 2f + 3 reporting rows of 8, every rule: "
        f"{seen['finite']} finite, {seen['refused']} refused in a line, {seen['bad']} else"
    )
    return Figure(text, counts["code"] == 0 and not seen["bad"])


def tiny_cohorts(names: tuple[str, ...] | None) -> dict[str, int]:
    """Call `fedsim.aggregate` for every rule over 8 rows of which few report, or none."""
    from test_rules import TABLE

    rows = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
    seen = {"finite": 0, "refused": 0, "bad": 0}
    for kind in names or sorted(TABLE):
        for n in range(8):
            weights = np.where(np.arange(8) < n, 5.0, 0.0)
            try:
                step = fedsim.aggregate(
                    {"kind": kind, **TABLE[kind].link},
                    rows,
                    weights=weights,
                    loss=np.ones(8),
                    reference=rows[0],
                )
                seen["finite" if np.isfinite(step).all() else "bad"] += 1
            except fedsim.ScenarioError as error:
                seen["refused" if str(error).count("\n") == 0 else "bad"] += 1
    return seen


FAULTS = (
    "nan",
    "inf",
    "label below",
    "label beyond",
    "test nan",
    "test label",
    "float label",
    "id nan",
)


def planted(quick: bool) -> Figure:
    """Plant a wrong value in samples of random size; it must be refused by row before a round."""
    rng, count = np.random.default_rng(15), 24 if quick else 400
    refused = [_is_refused(FAULTS[i % len(FAULTS)], rng) for i in range(count)]
    files = {"code": 0, "passed": 0, "failed": 0, "error": 0, "skipped": 0}
    if not quick:
        files = played(
            "tests/data/test_data.py",
            "tests/sources/test_sources.py",
            "-k",
            "faults or hostile or refus or no_file",
        )
    text = (
        f"{sum(refused)} of {count} values planted at random (NaN and infinite features, labels "
        "below 0, of far classes, no integers, ids without a number) refused before round 1 with "
        f"row or type; files and sections that are wrong: {in_words(files)}"
    )
    return Figure(text, all(refused) and files["code"] == 0)


def _is_refused(fault: str, rng: np.random.Generator) -> bool:
    """Whether a wrong value is refused, and the message has its row if it has one."""
    n = int(rng.integers(20, 200))
    x, y = rng.normal(size=(n, 3)).astype(np.float32), np.arange(n) % 3
    x_test, y_test, client = x[:10].copy(), y[:10].copy(), rng.integers(0, 4, n).astype(float)
    row = int(rng.integers(0, 10 if fault.startswith("test") else n))
    match fault:
        case "nan" | "inf":
            x[row, rng.integers(3)] = float(fault)
        case "label below":
            y[row] = -1
        case "label beyond":
            y[row] = 10**6
        case "test nan":
            x_test[row, 0] = np.nan
        case "test label":
            y_test[row] = -2
        case "float label":
            y = y + 0.5j
        case "id nan":
            client[row] = np.nan
    data = fedsim.Arrays(x, y, client, x_test, y_test)
    try:
        fedsim.run({"name": "planted", "rounds": 1}, data=data)
    except fedsim.DataError as error:
        has_row = re.search(rf"row {row}\b", str(error)) is not None
        return fault in ("float label", "label beyond") or has_row
    return False


PAYLOADS = (
    "=cmd|'/C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x")',
    "=1+1;", "+cmd|' /C x'!A0",
    "<script>hit()</script>", "</script><script>hit()</script>", "<img src=x onerror=hit()>",
    "<svg/onload=hit()>", '"><script>hit()</script>', "' onmouseover='hit()",
    '" onfocus="hit()" autofocus="', "<iframe src=javascript:hit()>",
    "javascript:hit()", "<a href='javascript:hit()'>x</a>", "<!--", "-->", "<![CDATA[", "]]>",
    "<style>@import 'http://x'</style>", "<math><mi xlink:href='javascript:hit()'>",
    "&lt;script&gt;", "{{7*7}}", "{% import os %}", "${7*7}", "%s%n{0.__class__}",
    "<base href='http://x/'>", "<meta http-equiv=refresh content='0;url=http://x'>",
    "<object data=x>", "\u2028hit()",
)  # fmt: skip


# fmt: off
TAGS = {
    "html", "head", "meta", "title", "style", "script", "body", "main", "header", "footer",
    "section", "article", "nav", "div", "span", "p", "h1", "h2", "h3", "h4", "ul", "ol", "li",
    "table", "thead", "tbody", "tr", "th", "td", "a", "code", "pre", "small", "strong", "em", "b",
    "i", "button", "label", "input", "select", "option", "output", "svg", "g", "path", "line",
    "rect", "circle", "text", "polyline", "polygon", "details", "summary", "figure", "figcaption",
    "dl", "dt", "dd", "hr", "br", "noscript", "time", "abbr", "sub", "sup", "img", "defs", "use",
    "clippath", "caption", "wbr",
}
# fmt: on


def inert(quick: bool) -> Figure:
    """Label methods with payloads; no file may have anything that browsers or spreadsheets run."""
    payloads = PAYLOADS[: 4 if quick else None]
    scenario = {
        "name": "inert",
        "rounds": 2,
        "seeds": 2,
        "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 5},
        "client": {"batch": 30},
    }
    labels, refused, broken = [], [], []
    for text in payloads:
        try:
            methods_of([{"method": "mean", "label": text}])
            (labels if _reads_back(text) else broken).append(text)
        except fedsim.ScenarioError:
            refused.append(text)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        methods = ["mean", *({"method": "mean", "label": text} for text in labels)]
        fedsim.compare(scenario, methods, baseline="mean", out=out)
        texts = {path: path.read_text() for path in sorted(out.rglob("*")) if path.suffix in READ}
        summary = tables.read_table(out, "summary")
        read_back = set() if summary is None else set(summary["method"])
    active = [path.name for path, text in texts.items() if READ[path.suffix](text)]
    lost = [text for text in labels if text not in read_back]
    counts = played("tests/report/test_page.py", "-k", "inert or one_small_file")
    active_files = f": {active}" if active else ""
    broken_labels = f" ({broken})" if broken else ""
    text = (
        f"{len(labels)} payloads as labels of methods, {len(refused)} refused as labels; in "
        f"{len(texts)} files (tables, page, pictures as SVG) {len(active)} with something active"
        f"{active_files}, {len(lost)} labels lost, "
        f"{len(broken)} labels that break a table{broken_labels}; "
        f"tests/report/test_page.py: {in_words(counts)}"
    )
    return Figure(
        text,
        not active
        and not lost
        and not broken
        and counts["code"] == 0
        and (quick or len(payloads) >= 30),
    )


def _reads_back(label: str) -> bool:
    """Whether a table with this label has the row that was written."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rounds.csv").write_text(
            tables.to_csv([{"method": label, "seed": 0}], ["method", "seed"]), newline=""
        )
        table = tables.read_table(Path(folder), "rounds")
    return table is not None and table["method"].tolist() == [label]


class Elements(html.parser.HTMLParser):
    """Collects what a browser would see: elements, handlers, addresses that are followed."""

    def __init__(self):
        super().__init__()
        self.odd: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.scripts += tag == "script"
        self.odd += [tag] * (tag not in TAGS)
        for name, value in attributes:
            followed = name in ("href", "src", "xlink:href", "action") and not (
                value or ""
            ).startswith(("data:", "#"))
            self.odd += [f"{tag} {name}={value}"] * (name.startswith("on") or followed)


def _page(text: str) -> bool:
    seen = Elements()
    seen.feed(text)
    if seen.odd:
        print(f"  page: {seen.odd[:5]}", flush=True)
    return bool(seen.odd) or seen.scripts != 2


def _table(text: str) -> bool:
    computed = tuple(tables.COMPUTED)
    cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    return any(cell.startswith(computed) and not _number(cell) for cell in cells)


def _number(cell: str) -> bool:
    try:
        return float(cell) is not None
    except ValueError:
        return False


def _picture(text: str) -> bool:
    tags = [element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()]
    return "script" in tags or "foreignObject" in tags


READ = {".csv": _table, ".html": _page, ".svg": _picture}
