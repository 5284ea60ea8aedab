"""The promises, their measured figures, and the page that shows both.

`figures.json` has one entry per row, written only by the command that measured it. `TRUST.md` is
made from it.
"""

import datetime
import json
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from trust import ROOT, TESTS

FIGURES = Path(__file__).with_name("figures.json")
PAGE = TESTS / "TRUST.md"


class Figure(NamedTuple):
    """The result of a measurement.

    Attributes:
      text: the numbers, in words.
      met: whether the target is met.
    """

    text: str
    met: bool


class Row(NamedTuple):
    """A promise.

    Attributes:
      promise: one sentence.
      target: what the figure is compared with.
      measure: `module:function` of this package, called as `function(quick) -> Figure`.
      code: files and folders that the promise is about; a figure is stale once they have changed.
    """

    promise: str
    target: str
    measure: str
    code: tuple[str, ...]


# What a number of a run comes from, from its samples to the sum of its updates.
COMPUTING = (
    *("fedsim/assemble", "fedsim/compose", "fedsim/engine", "fedsim/machine.py"),
    *("fedsim/clients", "fedsim/codecs", "fedsim/rules", "fedsim/stages"),
    *("fedsim/data", "fedsim/fleet", "fedsim/models", "fedsim/tree", "fedsim/types"),
)
KEEPING = ("fedsim/disk", "fedsim/engine", "fedsim/runs")
READING = ("fedsim/assemble", "fedsim/scenario", "fedsim/synonyms.py")
SAMPLES = ("fedsim/data", "fedsim/sources")


ROWS: dict[int, Row] = {
    2: Row(
        "The bytes do not depend on the layout: devices, blocks, calls, packing, order, other "
        "runs, metrics, the host's x64",
        "0 differing cells of 200",
        "invariance:layouts",
        COMPUTING,
    ),
    4: Row(
        "A run that was killed anywhere and resumed ends with the bytes of an undisturbed run",
        "at least 300 kills, all of them: equal bytes, no row lost or duplicated",
        "kills:killed",
        (*COMPUTING, *KEEPING),
    ),
    9: Row(
        "A damaged checkpoint is never used silently",
        "10,000 of 10,000 refused or equal bytes",
        "kills:damaged",
        KEEPING,
    ),
    12: Row(
        "No file can execute code, write elsewhere, or use a gigabyte",
        "100 % of the attacks: refused, nothing executed or written, below 1 GiB",
        "suites:refused",
        (*READING, *SAMPLES, *KEEPING),
    ),
    19: Row(
        "Other float types, widths and instructions agree statistically, and exactly in integers",
        "95 % interval of the difference within 0.5 points of accuracy; integers equal",
        "agreement:compared",
        COMPUTING,
    ),
    23: Row(
        "Long sweeps neither leak memory nor compile again",
        "2 h: memory below 1 MiB/h, descriptors and threads constant, 0 compilations after warm-up",
        "soak:read",
        (*COMPUTING, *KEEPING),
    ),
    24: Row(
        "The tests bite. Some were written for survivors of this sample: of 108 other mutants, the "
        "next by the same hash, 86 % were killed on 2026-11-30",
        "at least 85 % of the mutants killed",
        "mutants:score",
        ("fedsim/disk", "fedsim/fleet", "fedsim/rules", "fedsim/runs", "fedsim/study"),
    ),
    25: Row(
        "What a comparison claims is rarely wrong where nothing is there: differences, equal "
        "scores at less cost, who leads",
        "2,000 comparisons of pure noise: every kind of claim wrong in at most 5 % of those in "
        "which it would be",
        "noise:played",
        ("fedsim/report/paper_table.py", "fedsim/study"),
    ),
}


def measured(row: int, quick: bool) -> Figure:
    """Measure a row, or a small version of it."""
    module, _, name = ROWS[row].measure.partition(":")
    return getattr(import_module(f"trust.{module}"), name)(quick)


def read() -> dict[str, dict[str, Any]]:
    """Return the figures so far, by row."""
    return json.loads(FIGURES.read_text()) if FIGURES.exists() else {}


def keep(row: int, figure: Figure, seconds: float, commit: str) -> None:
    """Store a figure in place of the row's older one."""
    entry = {
        "figure": figure.text,
        "met": bool(figure.met),
        "date": datetime.date.today().isoformat(),
        "seconds": round(seconds),
        "commit": commit,
        "versions": _versions(),
    }
    found = {**read(), str(row): entry}
    FIGURES.write_text(
        json.dumps(dict(sorted(found.items(), key=lambda item: int(item[0]))), indent=1) + "\n"
    )


HEAD = """# What can be relied on, measured

Made by `python -m tests.trust`. Each row was measured by its command, on its date, at the commit in
brackets, with {versions}.
`--quick` runs a small version of a row and stores nothing; `--stale` lists the rows whose code has
changed since.

| # | promise | measured | target | met | command, date |
|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the table as Markdown."""
    found, lines = read(), []
    for number, row in ROWS.items():
        entry, command = found.get(str(number)), f"`python -m tests.trust {number}`"
        cells = ["not measured yet", row.target, "open", command]
        if entry is not None:
            when = f"{entry['date']}, {_time(entry['seconds'])} ({entry['commit']})"
            met = "yes" if entry["met"] else "**no**"
            cells = [entry["figure"], row.target, met, f"{command}, {when}"]
        lines.append(
            "| " + " | ".join(_cell(text) for text in (str(number), row.promise, *cells)) + " |"
        )
    versions = sorted({entry["versions"] for entry in found.values() if "versions" in entry})
    return HEAD.format(versions="; or ".join(versions) or "nothing yet") + "\n".join(lines) + "\n"


def stale() -> list[str]:
    """A line for every measured row with files of its code that have changed since."""
    lines = []
    for number, entry in read().items():
        code = ROWS[int(number)].code
        words = ["git", "diff", "--name-only", entry["commit"], "--", *code]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        names = done.stdout.split()
        if done.returncode:
            lines.append(f"row {number}: unknown, this clone has no commit {entry['commit']}")
        elif names:
            said = f"{len(names)} files have changed since, such as {', '.join(names[:3])}"
            lines.append(f"row {number}, measured {entry['date']} at {entry['commit']}: {said}")
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _time(seconds: int) -> str:
    return f"{seconds} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _versions() -> str:
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("jax", "jaxlib", "numpy", "pandas"))
