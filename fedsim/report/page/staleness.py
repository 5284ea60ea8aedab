"""How old messages are of asynchronous schedules, on the page: a histogram for each method."""

from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup, escape

from fedsim.report.about import About
from fedsim.report.page.scales import Axis, short
from fedsim.report.series import by_variant

WIDTH, HIGH, LEFT, RIGHT, TOP, BOTTOM = 560, 180, 46, 14, 8, 40
BARS = 50  # at most; of wider ages a bar is several of them


def histograms(table: pd.DataFrame | None, about: About) -> list[dict[str, Any]]:
    """A picture for every method and variation that has ages; none without a table.

    Args:
      table: the columns of `staleness.csv`.
      about: what is shown.
    """
    if table is None:
        return []
    counted = []
    for variant, part in by_variant(table).items():
        for name in [name for name in about.order if name in set(part["method"])]:
            ages = part[part["method"] == name].groupby("age")["messages"].sum()
            counted.append((", ".join(filter(None, (name, about.words(variant)))), ages))
    oldest = max((int(max(ages.index)) for _, ages in counted), default=0)
    wide = -(-(oldest + 1) // BARS)
    shares = [(title, _binned(ages, wide, oldest), _mean(ages)) for title, ages in counted]
    most = max((float(part.max()) for _, part, _ in shares), default=0.0)
    return [
        {"title": f"{title}: {mean:.3g} on average", "picture": _picture(title, part, wide, most)}
        for title, part, mean in shares
    ]


def _binned(ages: pd.Series, wide: int, oldest: int) -> np.ndarray:
    """Shares of the messages by age, so many ages together."""
    counts = np.zeros(oldest // wide + 1)
    np.add.at(counts, np.asarray(ages.index, int) // wide, np.asarray(ages, float))
    return counts / max(counts.sum(), 1)


def _mean(ages: pd.Series) -> float:
    messages = np.asarray(ages, float)
    return float(np.asarray(ages.index, float) @ messages / max(messages.sum(), 1))


def _picture(title: str, shares: np.ndarray, wide: int, most: float) -> Markup:
    foot = HIGH - BOTTOM
    x, y = (
        Axis(0.0, float(len(shares) * wide), LEFT, WIDTH - RIGHT),
        Axis(0.0, 1.05 * most or 1.0, foot, TOP),
    )
    parts = ['<g class="axes">']
    for tick in y.ticks(4):
        at = f"{y.at(tick):.1f}"
        parts.append(
            f'<g class="tick"><line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/></g>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y.at(tick) + 4:.1f}" text-anchor="end">{short(tick)}</text>'
        )
    for age in sorted({round(tick) for tick in x.ticks() if tick < x.high}):
        middle = x.at(age + (0.5 if wide == 1 else 0.0))
        parts.append(
            f'<text x="{middle:.1f}" y="{foot + 16}" text-anchor="middle">{short(age)}</text>'
        )
    label = "steps of the server since it sent the model"
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HIGH - 6}" text-anchor="middle">{label}</text></g>'
    )
    for place, share in enumerate(shares):
        begin, end = x.at(place * wide), x.at((place + 1) * wide)
        ages = f"{place * wide}" if wide == 1 else f"{place * wide} to {(place + 1) * wide - 1}"
        parts.append(
            f'<g class="work"><title>{ages}: {share:.2%} of the messages</title><rect class="train" x="{begin + 0.5:.1f}" '
            f'y="{y.at(share):.1f}" width="{max(end - begin - 1, 0.5):.1f}" height="{foot - y.at(share):.1f}"/></g>'
        )
    head = f'<svg viewBox="0 0 {WIDTH} {HIGH}" role="img" aria-label="{escape(title)}: share of the messages by age">'
    return Markup("".join([head, *parts, "</svg>"]))
