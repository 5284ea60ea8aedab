"""Rows whose measure is a number of tests that pass, long ones too."""

import os
import re
import subprocess
import sys

from trust import ROOT
from trust.table import Figure

SUITES: dict[int, tuple[str, tuple[str, str], int]] = {
    5: (
        "order of all operations on the disk, client memory in the commit or in a file",
        ("tests/runs/test_persistence.py", "flushed"),
        2,
    ),
    6: (
        "operations that fail once or for good, every one",
        ("tests/runs/test_persistence.py", "failed_operation"),
        8,
    ),
    10: (
        "tests of an edited field, another seed, data, format or run",
        ("tests/runs/test_resume.py", "another or other or newer or fewer"),
        50,
    ),
    11: (
        "hand-made mistakes, every line as expected, and 10,000 mutations of scenarios",
        ("tests/scenario", "every_mistake or sixty or spoiled"),
        50,
    ),
    12: (
        "attacks, each refused within 10 s and 1 GiB, nothing executed or written elsewhere",
        (
            "tests/scenario/test_hostile.py tests/sources/test_confined.py",
            "stranger or command or test_confined",
        ),
        60,
    ),
    13: (
        "every rule x NaN, inf, -inf in a run and alone, outliers, and what `stop` and `keep` do",
        (
            "tests/rules/test_faults.py tests/rules/test_rules.py",
            "non_finite or keep_lets or outliers or not_finite or absent_rows",
        ),
        130,
    ),
    14: (
        "every rule with nobody usable, too few, one client, and 0 to 2f + 2 rows",
        (
            "tests/rules/test_faults.py tests/rules/test_rules.py",
            "nobody or too_few or one_client or impossible or few_clients",
        ),
        110,
    ),
    15: (
        "wrong samples, labels, ids, files and sections, refused with row or type before round 1",
        (
            "tests/data/test_data.py tests/sources/test_sources.py",
            "faults or hostile or refus or no_file",
        ),
        50,
    ),
    22: (
        "pages, tables and pictures with payloads in every name, none active",
        ("tests/report/test_page.py", "inert or one_small_file"),
        1,
    ),
}
"""By row: what the tests are about, files and the selection of tests, how many there must be."""


def passed(row: int, quick: bool) -> Figure:
    """Run the tests of a row; one of each if quick."""
    about, (files, selection), least = SUITES[row]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    marks = "not long"
    if not quick:
        environment["FEDSIM_WHOLE"] = "1"
        marks = ""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks]
    done = subprocess.run(
        [*command, *files.split(), "-k", selection],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(done.stdout[-3000:], flush=True)
    counts = {what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    good = counts.get("passed", 0)
    text = f"{about}: {good} of {sum(counts.values())} pass ({files.replace(' ', ', ')})"
    return Figure(text, done.returncode == 0 and (quick or good >= least))
