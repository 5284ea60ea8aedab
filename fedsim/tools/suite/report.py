"""The report of a suite: tables as CSV and LaTeX, and one page."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedsim.disk import files
from fedsim.disk.tables import PROFILES, Record, frame, to_csv
from fedsim.report.paper_table import AGAIN, paper_table
from fedsim.report.tables import latex
from fedsim.runs.directory import open_output_folder
from fedsim.tools.suite import costs, tables
from fedsim.tools.suite.analysis import Analysis, analysed, as_variations
from fedsim.tools.suite.columns import TABLES
from fedsim.tools.suite.page import page_of
from fedsim.tools.suite.results import read_tasks
from fedsim.tools.suite.sentences import headline

PAGE = "report.html"
COLUMNS = {**TABLES, "profiles.csv": PROFILES}
PAPER = ("overall", "overall_pairs", "costs")  # tables that are in LaTeX as they are
AGAIN_OF_SUITE = "fedsim suite report FOLDER --out DIR"


class Written(NamedTuple):
    """A report that has been written.

    Attributes:
      left_out: a line for every run directory that is not in it.
    """

    headline: str
    names: list[str]
    left_out: list[str]


def write_report(folders: Sequence[Path], out: Path, force: bool = False) -> Written:
    """Write the report of the tasks in some folders.

    Raises:
      DirectoryError: for folders that cannot be reported together, and an `out` that is a run or,
        without `force`, has such a file.
      LockedError: when another process is writing in `out`.
    """
    tasks, left_out = read_tasks(folders)
    analysis = analysed(tasks)
    rows = tables_of(analysis)
    contents: dict[str, str | bytes] = {}
    for name, table in rows.items():
        contents[f"{name}.csv"] = to_csv(table, COLUMNS[f"{name}.csv"])
    contents["tables/scores.tex"] = _paper_table(analysis)
    for name in [name for name in PAPER if name in rows]:
        shown = frame(rows[name], COLUMNS[f"{name}.csv"]).astype(object).fillna("")
        contents[f"tables/{name}.tex"] = latex(shown)
    contents[PAGE] = page_of(analysis, rows, left_out)

    with open_output_folder(out, contents, force):
        files.make_folder(out / "tables")
        for name, content in contents.items():
            files.write(out / name, content)
    return Written(headline(analysis), list(contents), left_out)


def tables_of(analysis: Analysis) -> dict[str, list[Record]]:
    """Return the rows of all tables by name; those of which nothing is known are left out."""
    rows = {
        "scores": tables.score_rows(analysis),
        "pairs": tables.pair_rows(analysis),
        "overall": tables.overall_rows(analysis),
        "overall_pairs": tables.overall_pair_rows(analysis),
        "profiles": tables.profile_rows(analysis),
        "budget": costs.budget_rows(analysis),
        "costs": costs.cost_rows(analysis),
    }
    return {name: table for name, table in rows.items() if table}


def _paper_table(analysis: Analysis) -> str:
    """Methods as rows and tasks as columns, as a paper has them."""
    scenario = {"name": "suite", "compare": {"vary": {"task": None}}}
    table = paper_table(
        summary=as_variations(analysis.tasks),
        compare=[{"baseline": analysis.baseline}],
        score=analysis.tasks[0].score,
        scenario=scenario,
    )
    return table.replace(AGAIN, AGAIN_OF_SUITE)
