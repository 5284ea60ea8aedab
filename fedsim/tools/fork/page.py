"""Forks next to their original, on the page: the difference by round, paired by seed."""

from collections.abc import Sequence
from importlib.resources import files

import numpy as np
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.figures.lines import Lower
from fedsim.report.figures.on_page import lines_on_page
from fedsim.report.page.added import Section
from fedsim.report.page.render import fragment
from fedsim.report.page.sources import Source, rows_in
from fedsim.report.pictures.curves import Line
from fedsim.report.pictures.looks import curve_class
from fedsim.study.summary import in_words
from fedsim.tools.fork.differences import Forked, fork_lines, paired_rounds


def section(sources: Sequence[Source], context: Context) -> Section | None:
    """Forks among several runs, next to their original or one another; None where none is."""
    other = _compared_with(sources)
    if other is None:
        return None
    before = other.table("rounds")
    forked = []
    for source in sources:
        if source is other or _origin(source) != _origin(other) or "fork" not in source.record:
            continue
        after = source.table("rounds")
        if after is None or before is None:
            continue
        rounds = paired_rounds(after, before, context.metric)
        if rounds:
            forked.append(Forked(source.label, _last_in_common(source, other), rounds))
    if not forked:
        return None

    shown = {other.label, *(fork.name for fork in forked)}
    summary = []
    for source in sources:
        if source.label in shown:
            summary += rows_in(source.table("summary"))
    html = fragment(
        files("fedsim.tools.fork").joinpath("section.html"),
        metric=in_words(context.metric),
        other=other.label,
        names=[(fork.name, curve_class(context.rank_of(fork.name))) for fork in forked],
        several=any(each.low is not None for fork in forked for each in fork.rounds),
        picture=_picture(forked, context),
    )
    return Section("forks", "By round", fork_lines(summary, other.label, context.score), html)


def _origin(source: Source) -> str:
    """The hash of the scenario of a run, or of the run that it goes on from."""
    fork = source.record.get("fork")
    return fork["scenario"] if fork else source.record["hashes"]["scenario"]


def _compared_with(sources: Sequence[Source]) -> Source | None:
    """The run that forks are compared with: an original, else the first of several forks."""
    origins = [_origin(source) for source in sources if "fork" in source.record]
    if len(sources) < 2 or not origins:
        return None
    for source in sources:
        if "fork" not in source.record and _origin(source) in origins:
            return source
    first = next(source for source in sources if "fork" in source.record)
    return first if origins.count(_origin(first)) > 1 else None


def _last_in_common(source: Source, other: Source) -> int:
    """The last round that a fork has in common with its original, or with another fork."""
    rounds = [each.record["fork"]["round"] for each in (source, other) if "fork" in each.record]
    return min(rounds)


def _picture(forked: Sequence[Forked], context: Context) -> Markup:
    """The differences by round, with bands, a line at 0, and one where each fork begins."""
    lines = []
    for fork in forked:
        rounds = np.array([each.round for each in fork.rounds], float)
        means = np.array([each.difference for each in fork.rounds], float)
        ends = np.array([(each.low, each.high) for each in fork.rounds], float)
        low, high = (None, None) if np.isnan(ends).all() else ends.T
        lines.append(Line(fork.name, context.rank_of(fork.name), rounds, means, low, high))
    return lines_on_page(
        lines,
        Lower("round", "rounds", whole=True),
        f"difference of {in_words(context.metric)} by round",
        levels=[0.0],
        uprights=sorted({fork.round for fork in forked}),
    )
