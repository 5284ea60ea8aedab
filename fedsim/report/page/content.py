"""The content of the page; all of it comes from the tables and the records of runs."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fedsim.report.mark import marks_of_fields, unfinished_mark
from fedsim.report.page import (
    charts,
    costs,
    endings,
    fairness,
    left_out,
    pictures,
    setting,
)
from fedsim.report.page import clients as clients_page
from fedsim.report.page.added import Section, maps, sections
from fedsim.report.page.along import along
from fedsim.report.page.folding import columns
from fedsim.report.page.opening import TITLES, opening_axis
from fedsim.report.page.outcome import numbers
from fedsim.report.page.partition import partition
from fedsim.report.page.render import rendered
from fedsim.report.page.sources import (
    Result,
    Source,
    lines_of,
    result_of,
    rounds_of_one,
    tables_of,
)
from fedsim.report.page.table import table_of
from fedsim.report.pictures.attacks import grids
from fedsim.report.pictures.looks import STRONG, curve_classes
from fedsim.study.cost_axes import AXES, BYTES, is_about_cost
from fedsim.study.summary import two_halves
from fedsim.study.worst_case import by_attack


def page_of(sources: Sequence[Source], refresh: int = 0) -> bytes:
    """The page of one run or comparison, or of several runs side by side.

    Args:
      refresh: seconds after which a browser loads the page again, while a run goes on; 0: never.
    """
    result = result_of(sources)
    context = result.context
    first = sources[0]
    clients = tables_of(sources, "clients")
    title = f"{len(sources)} runs"
    if len(sources) == 1:
        scenario = first.record["scenario"]
        title = scenario.get("title") or scenario["name"]
    rounds = tables_of(sources, "rounds")
    table = table_of(result.runs, result.compared, result.standings, context, rounds)
    if table is not None and table["count"] < 2:
        table = None
    has_table = table is not None
    records = [(source.label, source.record) for source in sources]
    added = sections(sources, context)
    content = {
        "title": title,
        "marks": [*endings.marks(records), *_of_fields(sources)],
        "reasons": endings.reasons(records),
        "refresh": refresh,
        "baseline": result.baseline,
        "columns": columns,
        **_first_screen(sources, result, added),
        **curves_of(sources, result),
        "costs": _costs(result, has_table),
        "fairness": fairness.fairness(clients, context),
        "left_out": left_out.left_out(clients, context),
        "attacks": grids(result.runs, context),
        "along": along(result.compared, context),
        "added": added,
        "forests": pictures.differences(result.compared, context),
        "table": table,
        "halves": two_halves(context.metric),
        "spreads": pictures.spreads(clients, context),
        "client_tables": clients_page.tables(clients, context),
        "setting": [setting.setting(source.record, source.label) for source in sources],
        "partition": partition(first.table("partition")),
        "maps": maps(first.record["scenario"], first.table("partition")),
        "again": [shlex.join(source.record["surroundings"]["command"]) for source in sources],
        "provenance": [_provenance(source) for source in sources],
    }
    content["sections"] = _sections(content)
    return rendered(content)


def _first_screen(
    sources: Sequence[Source], result: Result, added: Sequence[Section]
) -> dict[str, Any]:
    """The first screen: a headline, a picture or a few numbers, and further sentences."""
    context = result.context
    over = not unfinished_mark(sources[0].record)
    rounds = rounds_of_one(sources, result)
    findings = [line for section in added for line in section.lines]
    headline, *lines = [*findings, *lines_of(sources, result)]
    statistics = ""
    if result.baseline and lines and not findings:
        statistics, *lines = lines

    variants = {row.get("variant") for row in result.runs}
    several = len(context.order) > 1 or len(variants) > 1
    dots = None
    shown = []
    if several and not by_attack(result.runs):
        dots = pictures.scores(
            result.runs, result.standings, result.baseline, result.chance, context
        )
    elif result.runs and not several:
        shown = numbers(result.runs, rounds, over)
    records = [(source.label, source.record) for source in sources]
    return {
        "headline": headline,
        "statistics": statistics,
        "lines": [*lines, *endings.notes(records)],
        "numbers": shown,
        "dots": dots,
    }


def curves_of(sources: Sequence[Source], result: Result) -> dict[str, Any]:
    """The charts, as the template takes them."""
    rounds = tables_of(sources, "rounds")
    classes = curve_classes(result.context.order)
    axes = charts.lower_axes(rounds)
    opens = opening_axis(result.context.scenario, rounds, result.spent[BYTES.table])
    if opens not in dict(axes):  # in the last round methods send the same
        opens = "bytes"
    groups = charts.charts(rounds, result.context.order, result.context, opens)
    one_panel_each = all(len(group["panels"].shown) == 1 for group in groups)
    return {
        "groups": groups,
        "opens": opens,
        "over": TITLES[opens],
        "axes": axes,
        "rest_open": len(groups) - 1 <= charts.MANY_METRICS and one_panel_each,
        "names": list(classes.items()),
        "strong": STRONG,
    }


def _costs(result: Result, has_table: bool) -> list[dict[str, Any]]:
    """Scores against costs; what the comparison is about comes first.

    Args:
      has_table: whether there is a table of all results, behind which equal costs are folded.
    """
    context = result.context
    shown = []
    for axis in sorted(AXES, key=lambda axis: not is_about_cost(axis, context.scenario)):
        parts = costs.cost_parts(axis, result.spent[axis.table], result.baseline or "", context)
        if parts:
            folded = has_table and not any(map(costs.differ, parts))
            shown.append({"axis": axis, "parts": parts, "folded": folded})
    return shown


def _sections(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The sections of the page: anchor and title of each."""
    of_costs = []
    for shown in content["costs"]:
        if not shown["folded"]:
            table = shown["axis"].table
            of_costs.append((table, table.capitalize(), True))

    sections = (
        ("result", "Result", True),
        ("table", "All numbers", content["table"]),
        ("attacks", "Attacks", content["attacks"]),
        ("along", "Scores", content["along"]),
        *((section.anchor, section.title, section.first) for section in content["added"]),
        ("curves", "Curves", content["groups"]),
        *of_costs,
        *((section.anchor, section.title, not section.first) for section in content["added"]),
        ("differences", "Differences", content["forests"].shown),
        ("clients", "Clients", content["spreads"].shown or content["left_out"]),
        ("setting", "What was run", True),
        ("again", "Run it again", True),
    )
    return [(anchor, title) for anchor, title, present in sections if present]


def _of_fields(sources: Sequence[Source]) -> list[str]:
    """A line for every mark that fields give a run."""
    lines = []
    for source in sources:
        rounds = source.table("rounds")
        columns = [] if rounds is None else rounds
        for text in marks_of_fields(columns, source.record["scenario"]):
            lines.append(f"{source.label}: {text}" if source.label else text)
    return lines


def _provenance(source: Source) -> tuple[str, list[tuple[str, str]]]:
    name = source.label or str(source.record["scenario"]["name"])
    return name, setting.provenance(source.record)
