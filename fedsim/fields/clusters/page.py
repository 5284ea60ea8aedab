"""Who went where when, on the page: a row per client, coloured by the model that it trained."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.page.added import Section
from fedsim.report.page.render import fragment
from fedsim.report.page.scales import Axis, short
from fedsim.report.page.sources import Source, tables_of
from fedsim.report.page.svg import element
from fedsim.report.pictures.looks import STRONG, colour_class
from fedsim.report.series import by_variant

WIDTH = 560
LEFT = 60
RIGHT = 14
TOP = 8
FOOT = 40  # below the rows
ROW = 9  # units high
MOST = 60  # clients that are drawn; of more, evenly spaced ones


def section(sources: Sequence[Source], context: Context) -> Section | None:
    """Who went where; None without clusters."""
    rounds = tables_of(sources, "rounds")
    shown = moves(tables_of(sources, "clusters"), rounds, context)
    if not shown:
        return None
    html = fragment(files("fedsim.fields.clusters").joinpath("section.html"), runs=shown)
    return Section("clusters", "Clusters", [], html, first=False)


def moves(
    clusters: pd.DataFrame | None, rounds: pd.DataFrame | None, context: Context
) -> list[dict[str, Any]]:
    """A picture of the first seed for every method and variation with clusters.

    Args:
      clusters: the columns of `clusters.csv`.
      rounds: those of `rounds.csv`.
      context: what is shown.
    """
    if clusters is None or rounds is None:
        return []
    last = int(np.asarray(rounds["round"], int).max())
    shown = []
    for variant, table in by_variant(clusters).items():
        for method in context.ordered(list(map(str, table["method"].unique()))):
            of_method = pd.DataFrame(table[table["method"] == method])
            of_seed = pd.DataFrame(of_method[of_method["seed"] == of_method["seed"].min()])
            title = ", ".join(filter(None, (method, context.words(variant))))
            shown.append({"title": title, **_drawn(title, of_seed, last)})
    return shown


def _drawn(title: str, table: pd.DataFrame, last: int) -> dict[str, Any]:
    """The picture of one run, the numbers of its clusters, and how many clients are left out."""
    by_client = dict(iter(table.groupby("client", sort=False)))

    # Clients of one cluster stand together, those that came to it first above.
    def place(client: Any) -> tuple[int, int]:
        rows = by_client[client]
        return int(rows["cluster"].iloc[-1]), int(rows["round"].iloc[-1])

    clients = sorted(by_client, key=place)
    chosen = np.unique(np.linspace(0, len(clients) - 1, min(len(clients), MOST)).astype(int))
    x = Axis(1.0, float(last + 1), LEFT, WIDTH - RIGHT)
    elements = []
    for row, index in enumerate(chosen.tolist()):
        client = clients[index]
        elements.append(_row(client, by_client[client], last, x, TOP + ROW * row))
    bottom = TOP + ROW * len(chosen)
    picture = element(
        "svg",
        _axis(x, bottom),
        *elements,
        viewBox=f"0 0 {WIDTH} {bottom + FOOT}",
        role="img",
        aria_label=f"{title}: the model of every client by round",
    )
    numbers = sorted(set(table["cluster"].astype(int)))
    keys = []
    for number in numbers:
        if number < STRONG:
            keys.append((colour_class(number), f"model {number}"))
    return {"picture": picture, "keys": keys, "hidden": len(clients) - len(chosen)}


def _axis(x: Axis, bottom: float) -> Markup:
    """The numbers of rounds below the rows."""
    elements = []
    inside = [tick for tick in x.ticks() if x.low <= tick < x.high]
    for tick in sorted(set(map(round, inside))):
        elements.append(
            element("text", short(tick), x=x.at(tick), y=bottom + 16, text_anchor="middle")
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    elements.append(element("text", "round", x=middle, y=bottom + 34, text_anchor="middle"))
    return element("g", *elements, class_="axes")


def _row(client: Any, rows: pd.DataFrame, last: int, x: Axis, top: float) -> Markup:
    """A client's stretches, each from the round of a change to the next one."""
    begins = rows["round"].astype(int).tolist()
    numbers = rows["cluster"].astype(int).tolist()
    ends = [*begins[1:], last + 1]
    elements = [
        element("text", str(client), x=LEFT - 6, y=top + ROW - 1, text_anchor="end", font_size=9)
    ]
    for begin, end, number in zip(begins, ends, numbers, strict=True):
        bar = element(
            "rect",
            class_="share",
            x=x.at(begin),
            y=top,
            width=max(x.at(end) - x.at(begin), 0.5),
            height=ROW - 2,
        )
        title = element("title", f"client {client}: model {number} from round {begin} on")
        elements.append(element("g", title, bar, class_=colour_class(number)))
    return element("g", *elements)
