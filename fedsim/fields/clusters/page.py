"""Who went where when, on the page: a row per client, coloured by the model that it trained."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.figures.drawing import literal, style
from fedsim.report.figures.lines import Lower, lower_axis
from fedsim.report.figures.marks import colour_of
from fedsim.report.figures.on_page import page_axes
from fedsim.report.page.added import Section
from fedsim.report.page.render import fragment
from fedsim.report.page.sources import Source, tables_of
from fedsim.report.pictures.looks import STRONG, colour_class
from fedsim.report.series import by_variant

WIDTH = 560
AROUND = 56  # pixels above and below the rows
ROW = 14  # pixels high
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
    """A picture of the first seed for every method and variation with clusters."""
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
    shown = {clients[index]: by_client[clients[index]] for index in chosen.tolist()}
    picture = _picture(title, shown, last)
    numbers = sorted(set(table["cluster"].astype(int)))
    keys = []
    for number in numbers:
        if number < STRONG:
            keys.append((colour_class(number), f"model {number}"))
    return {"picture": picture, "keys": keys, "hidden": len(clients) - len(chosen)}


def _picture(title: str, by_client: Mapping[Any, pd.DataFrame], last: int) -> Markup:
    """A row per client: its stretches, each from the round of a change to the next one."""
    from fedsim.report.figures.inline import PAGE_STYLE, inline, tag

    with style(PAGE_STYLE):
        axes = page_axes((WIDTH, ROW * len(by_client) + AROUND))
        for row, (client, rows) in enumerate(by_client.items()):
            begins = rows["round"].astype(int).tolist()
            numbers = rows["cluster"].astype(int).tolist()
            ends = [*begins[1:], last + 1]
            for begin, end, number in zip(begins, ends, numbers, strict=True):
                look = {"left": begin, "height": 0.8, "color": colour_of(number), "lw": 0}
                (bar,) = axes.barh(row, end - begin, **look)
                tag(bar, "share", title=f"client {client}: model {number} from round {begin} on")
        lower_axis(axes, [1.0, float(last + 1)], Lower("round", "round", whole=True))
        axes.set_ylim(len(by_client) - 0.5, -0.5)
        axes.set_yticks(range(len(by_client)), [literal(client, 7) for client in by_client])
        axes.grid(False)
        return inline(axes.figure, f"{title}: the model of every client by round")  # pyright: ignore
