"""The mark of a run that has not ended, in everything that shows it: one line of text."""

import re
from collections.abc import Mapping
from typing import Any


def mark_of(record: Mapping[str, Any]) -> str:
    """The mark in the content of a `run.json`, such as `unfinished: 40 of 200 rounds`; empty for a run that has ended."""
    return (record.get("unfinished") or {}).get("mark", "")


def in_latex(table: str, mark: str) -> str:
    """A LaTeX table with the mark as its last line."""
    if not mark:
        return table
    columns = max(line.count(" & ") + 1 for line in table.splitlines())
    text = re.sub(r"([&%$#_{}])", r"\\\1", mark)
    line = f"\\midrule\n\\multicolumn{{{columns}}}{{l}}{{\\emph{{{text}}}}} \\\\\n"
    before, rule, after = table.rpartition("\\bottomrule")
    return f"{before}{line}{rule}{after}" if rule else f"{table}% {mark}\n"


def in_markdown(table: str, mark: str) -> str:
    """A Markdown table with the mark below it."""
    return f"{table}\n*{mark}*\n" if mark else table
