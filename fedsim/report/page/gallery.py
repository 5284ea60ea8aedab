"""The gallery: many runs on one page, each with its headline, its score and its first curves."""

import html
import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from fedsim.report.mark import unfinished_mark
from fedsim.report.page.charts import METRICS
from fedsim.report.page.content import curves_of
from fedsim.report.page.endings import ENDED
from fedsim.report.page.render import rendered
from fedsim.report.page.sources import Result, Source, lines_of, result_of
from fedsim.report.results import grouped_by
from fedsim.report.series import by_variant
from fedsim.study.summary import in_words, is_federated, larger_is_better
from fedsim.study.verdict import Verdict

# What a page that is no run's says of itself.
TITLE = "<h1>(.*?)</h1>"
SIZE = '<p class="small size">(.*?)</p>'
LEAD = '<p class="lead"[^>]*>(.*?)</p>'
NUMBER = 'data-of="(.*?)" data-number="(.*?)"'
STATES = ("finished", "running", "unfinished", "failed")


class Entry(NamedTuple):
    """A run or a comparison of the gallery.

    Attributes:
      link: the relative address of its page; empty if it has none.
      verdict: that of a comparison; None of a run, and of a comparison that has not ended.
    """

    name: str
    link: str
    state: str
    source: Source
    verdict: Verdict | None = None


class Picture(NamedTuple):
    """A picture, and what it shows."""

    drawn: Markup
    caption: str


def gallery(title: str, cards: Sequence[Mapping[str, Any]], skipped: Sequence[str]) -> bytes:
    """The page of many runs.

    Args:
      skipped: a line for every folder that holds none, or none that can be read.
    """
    counts = Counter(card["state"] for card in cards)
    content = {
        "title": title,
        "cards": cards,
        "states": [(state, counts[state]) for state in STATES if counts[state]],
        "skipped": skipped,
    }
    return rendered(content, "gallery")


def card_of(entry: Entry) -> dict[str, Any]:
    """What the gallery shows of a run."""
    record = entry.source.record
    sources = [entry.source]
    result = result_of(sources)
    best = _best(result)
    named = None
    if entry.verdict is not None:
        named = entry.verdict.main_number
    elif best is not None:
        named = in_words(result.context.metric), f"{best:.4g}"
    started = record["started"]
    return {
        "name": entry.name,
        "title": record["scenario"].get("title") or entry.name,
        "link": entry.link,
        "state": entry.state,
        "mark": _mark(entry),
        "headline": lines_of(sources, result)[0],
        "score": best,
        "named": named,
        "started": started,
        "day": started[:10],
        "picture": _picture(entry.source, result),
        "setting": _setting(entry, result),
    }


def card_of_page(name: str, link: str, page: str) -> dict[str, Any]:
    """What the gallery shows of a page that is no run's, such as the report of a suite."""
    title, size, headline = (
        html.unescape(found[1]) if (found := re.search(pattern, page)) else ""
        for pattern in (TITLE, SIZE, LEAD)
    )
    number = re.search(NUMBER, page)
    return {
        "name": name,
        "title": title or name,
        "link": link,
        "state": "finished",
        "mark": "",
        "headline": headline,
        "score": None,
        "named": tuple(map(html.unescape, number.groups())) if number else None,
        "started": "",
        "day": "",
        "picture": Picture(Markup(""), ""),
        "setting": size,
    }


def _mark(entry: Entry) -> str:
    """How a run that is not finished stands or ended; empty for one that is."""
    if entry.state == "finished":
        return ""
    record = entry.source.record
    unfinished = unfinished_mark(record)
    return unfinished or ENDED.get(record["status"], f"ended as {record['status']}")


def _best(result: Result) -> float | None:
    """The best mean score; None if no run has one."""
    context = result.context
    runs = [row for row in result.runs if is_federated(row)] or result.runs
    means = []
    for rows in grouped_by(runs, "method", "variant").values():
        values = [row[context.score] for row in rows if _is_number(row.get(context.score))]
        if values:
            means.append(statistics.fmean(values))
    best = max if larger_is_better(context.metric) else min
    return best(means, default=None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _picture(source: Source, result: Result) -> Picture:
    """The curves of the score under the last variation, as a run's own page has them."""
    rounds = source.table("rounds")
    if rounds is None:
        return Picture(Markup(""), "")
    variant, shown = list(by_variant(rounds).items())[-1]
    others = [name for name in METRICS if name != result.context.metric and name in shown]
    if result.context.metric in shown:
        shown = shown.drop(columns=others)
    shown = source._replace(tables={"rounds": shown})
    groups = curves_of([shown], result)["groups"]
    if not groups:
        return Picture(Markup(""), "")
    panel = groups[0]["panels"].shown[0]
    caption = groups[0]["title"]
    if variant:
        caption = f"{caption}, {result.context.words(variant)}"
    return Picture(panel["picture"], caption)


def _setting(entry: Entry, result: Result) -> str:
    """How much was run: `7 methods, 10 seeds, 30 rounds`."""
    scenario = entry.source.record["scenario"]
    counts = {
        "method": len(result.context.order),
        "seed": len(scenario["seeds"]),
        "round": scenario["rounds"],
    }
    texts = []
    for noun, number in counts.items():
        plural = "" if number == 1 else "s"
        texts.append(f"{number:,} {noun}{plural}")
    return ", ".join(texts)
