"""The marks of a run, lines of text in everything that shows it: not ended, or private."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

PRIVATE = (
    "Privacy is simulated, not for release: the noise is pseudo-random and in {dtype}, and epsilon "
    "supposes exact numbers. Scores are not part of what epsilon covers. Neighbouring data differ "
    "in {unit}."
)
CLIENT = "one client"
SAMPLE = "one sample of one client"
MESSAGE = "what one client sends in a round"

# Links that noise a client's message before it leaves.
LOCAL = ("local_gaussian", "local_laplace")


def private_mark(columns: Iterable[str], scenario: Mapping[str, Any]) -> str:
    """The mark of private runs; empty where no run is private.

    Args:
      columns: of their `rounds.csv`.
      scenario: resolved, as plain values.
    """
    units = []
    if "epsilon" in columns:
        units.append(CLIENT)
    if _has_dp_sgd(scenario):
        units.append(SAMPLE)
    if any(link["kind"] in LOCAL for link in scenario.get("wire") or []):
        units.append(MESSAGE)
    if not units:
        return ""
    return PRIVATE.format(dtype=scenario["numerics"]["dtype"], unit=", or in ".join(units))


def _has_dp_sgd(scenario: Mapping[str, Any]) -> bool:
    """Whether a scenario, or a method that it compares, has `client.dp_sgd`."""
    if scenario["client"].get("dp_sgd") is not None:
        return True
    compare = scenario.get("compare") or {}
    paths = [*(compare.get("vary") or {}), *(compare.get("tune") or {})]
    for method in compare.get("methods") or []:
        if isinstance(method, Mapping):
            paths += [*(method.get("set") or {}), *(method.get("tune") or {})]
    return any(path.startswith("client.dp_sgd") for path in paths)


def unfinished_mark(record: Mapping[str, Any]) -> str:
    """The mark in a record, `unfinished: 40 of 200 rounds`; empty for a run that has ended.

    Args:
      record: the content of a `run.json`.
    """
    return (record.get("unfinished") or {}).get("mark", "")


def in_latex(table: str, mark: str) -> str:
    """A LaTeX table with the mark as its last row."""
    if not mark:
        return table
    before, rule, after = table.rpartition("\\bottomrule")
    if not rule:
        return f"{table}% {mark}\n"
    columns = max(line.count(" & ") + 1 for line in table.splitlines())
    text = re.sub(r"([&%$#_{}])", r"\\\1", mark)
    row = f"\\midrule\n\\multicolumn{{{columns}}}{{l}}{{\\emph{{{text}}}}} \\\\\n"
    return f"{before}{row}{rule}{after}"


def in_markdown(table: str, mark: str) -> str:
    """A Markdown table with the mark below it."""
    if not mark:
        return table
    return f"{table}\n*{mark}*\n"
