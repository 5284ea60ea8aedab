"""Forks next to their original, on the page: the difference by round, paired by seed."""

from collections.abc import Sequence
from importlib.resources import files

from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.page.added import Section
from fedsim.report.page.plot import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, path
from fedsim.report.page.render import fragment
from fedsim.report.page.scales import Axis, axis
from fedsim.report.page.sources import Source, rows_in
from fedsim.report.page.svg import axes_grid, element
from fedsim.report.pictures.looks import curve_class
from fedsim.study.summary import in_words
from fedsim.tools.fork.differences import Forked, PairedRound, fork_lines, paired_rounds


def section(sources: Sequence[Source], context: Context) -> Section | None:
    """The forks among several runs, next to their original or to one another; None where none is.

    Args:
      sources: runs.
      context: what is shown.
    """
    other = _compared_with(sources)
    if other is None:
        return None
    before = rows_in(other.table("rounds"))
    forked = []
    for source in sources:
        if source is other or _origin(source) != _origin(other) or "fork" not in source.record:
            continue
        seeds, rounds = paired_rounds(rows_in(source.table("rounds")), before, context.metric)
        if rounds:
            round = _last_in_common(source, other)
            forked.append(Forked(source.label, other.label, round, seeds, rounds))
    if not forked:
        return None

    summaries = {source.label: rows_in(source.table("summary")) for source in sources}
    html = fragment(
        files("fedsim.tools.fork").joinpath("section.html"),
        metric=in_words(context.metric),
        other=other.label,
        names=[(fork.name, curve_class(context.rank_of(fork.name))) for fork in forked],
        several=any(each.low is not None for fork in forked for each in fork.rounds),
        picture=_picture(forked, context),
    )
    return Section("forks", "By round", fork_lines(forked, summaries, context.score), html)


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
    rounds = [float(each.round) for fork in forked for each in fork.rounds]
    ends = [0.0]
    for fork in forked:
        for each in fork.rounds:
            ends += [value for value in (each.difference, each.low, each.high) if value is not None]
    x = axis(rounds, LEFT, WIDTH - RIGHT, exact=True)
    low = min(ends)
    high = max(ends)
    margin = 0.06 * (high - low) or 0.5
    y = Axis(low - margin, high + margin, HEIGHT - BOTTOM, TOP)  # never logarithmic

    label = f"difference of {in_words(context.metric)}"
    elements = [axes_grid(x, y, "rounds"), _level(x, y)]
    for round in sorted({fork.round for fork in forked}):
        at = x.at(round)
        elements.append(element("line", class_="target", x1=at, x2=at, y1=TOP, y2=HEIGHT - BOTTOM))
    for fork in reversed(forked):  # the first is drawn last
        classes = curve_class(context.rank_of(fork.name))
        elements.append(_curve(fork.rounds, x, y, classes))
    return element(
        "svg",
        *elements,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{label} by round",
    )


def _level(x: Axis, y: Axis) -> Markup:
    """A line at 0, where a fork and the other run are the same."""
    at = y.at(0.0)
    return element("line", class_="target", x1=x.begin, x2=x.end, y1=at, y2=at)


def _curve(rounds: Sequence[PairedRound], x: Axis, y: Axis, classes: str) -> Markup:
    """The mean differences as a line, above the band of their intervals."""
    elements = []
    lows = [(each.round, each.low) for each in rounds if each.low is not None]
    highs = [(each.round, each.high) for each in rounds if each.high is not None]
    if lows:
        outline = path([*highs, *reversed(lows)], x, y)
        elements.append(element("path", class_="band", d=f"{outline}Z"))
    means = [(each.round, each.difference) for each in rounds]
    elements.append(element("path", class_="line", d=path(means, x, y)))
    return element("g", *elements, class_=f"series {classes}")
