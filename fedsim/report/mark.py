"""The marks of a run, lines of text in everything that shows it: not ended, or what fields say."""

from collections.abc import Iterable, Mapping
from typing import Any

from fedsim.installed import modules_with
from fedsim.report.latex import escaped


def marks_of_fields(columns: Iterable[str], scenario: Mapping[str, Any]) -> list[str]:
    """The marks of fields; none of most runs."""
    marks = [module.mark(columns, scenario) for module in modules_with("MARK")]
    return [mark for mark in marks if mark]


def unfinished_mark(record: Mapping[str, Any]) -> str:
    """The mark in a record, `unfinished: 40 of 200 rounds`; empty for a run that has ended."""
    return (record.get("unfinished") or {}).get("mark", "")


def in_latex(table: str, mark: str) -> str:
    """A LaTeX table with the mark as its last row."""
    if not mark:
        return table
    before, rule, after = table.rpartition("\\bottomrule")
    if not rule:
        return f"{table}% {mark}\n"
    last_row = before.splitlines()[-1]
    columns = last_row.count(" & ") + 1
    row = f"\\midrule\n\\multicolumn{{{columns}}}{{l}}{{\\emph{{{escaped(mark)}}}}} \\\\\n"
    return f"{before}{row}{rule}{after}"


def in_markdown(table: str, mark: str) -> str:
    """A Markdown table with the mark below it."""
    if not mark:
        return table
    return f"{table}\n*{mark}*\n"
