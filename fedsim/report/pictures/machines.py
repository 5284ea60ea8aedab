"""What the clients of one round do when, as page and figures draw it: from the rows of
`machines.csv`.
"""

from typing import NamedTuple

import pandas as pd

# of a bar: name, and the columns of its begin and its end
PARTS = (("down", "begins", "trains"), ("train", "trains", "sends"), ("up", "sends", "ends"))
WORDS = {"down": "model down", "train": "training", "up": "message up"}
LOST = {
    "late": "late",
    "over-selected": "not needed any more",
    "left": "left",
}  # whose messages do not count
SHOWN = 8  # panels


class Bar(NamedTuple):
    """What a client does.

    Attributes:
      place: row, from 0.
      client: what it is called.
      parts: name, begin and end in seconds of those parts that take time.
      end: in seconds.
      outcome: as in the table.
    """

    place: int
    client: str
    parts: list[tuple[str, float, float]]
    end: float
    outcome: str


class Panel(NamedTuple):
    """One round, or the first flights, of methods that have them alike.

    Attributes:
      names: of the methods.
      about: how many count, in words.
      bars: of all clients.
      rows: how many there are.
      steps: seconds at which the server steps.
      flights: whether clients start one after another.
      seconds: to the end of it.
    """

    names: list[str]
    about: str
    bars: list[Bar]
    rows: int
    steps: list[float]
    flights: bool
    seconds: float


def panels(table: pd.DataFrame, names: list[str]) -> list[Panel]:
    """Of the first seed and the first variation, methods in their order; those that are alike
    together.

    Args:
      table: the columns of `machines.csv`.
      names: of the methods, in the order of the result.
    """
    if "variant" in table:
        table = pd.DataFrame(
            table[table["variant"].fillna("") == str(table["variant"].fillna("").iloc[0])]
        )
    table = pd.DataFrame(table[table["seed"] == table["seed"].iloc[0]])
    alike: dict[str, list[str]] = {}
    parts = {
        str(name): part.drop(columns="method") for name, part in table.groupby("method", sort=False)
    }
    for name in sorted(parts, key=lambda name: names.index(name) if name in names else len(names)):
        alike.setdefault(parts[name].to_csv(index=False), []).append(name)
    return [_panel(same, parts[same[0]]) for same in alike.values()][:SHOWN]


def _panel(names: list[str], part: pd.DataFrame) -> Panel:
    columns = ("place", "client", "outcome", "begins", "trains", "sends", "ends")
    bars = []
    for place, client, outcome, *times in zip(
        *(part[name].tolist() for name in columns), strict=True
    ):
        at: dict[str, float] = dict(zip(columns[3:], times, strict=True))
        spans = [(name, at[begin], at[end]) for name, begin, end in PARTS if at[end] > at[begin]]
        bars.append(Bar(int(place), str(client), spans, at["ends"], str(outcome)))
    steps = sorted({float(value) for value in part["closes"].dropna()})
    flights = "in flight" in set(part["outcome"]) or len(steps) > 1
    last = max([*(bar.end for bar in bars), *steps], default=0.0)
    return Panel(
        names,
        _about(bars, steps, flights),
        bars,
        1 + max(bar.place for bar in bars),
        steps,
        flights,
        last,
    )


def _about(bars: list[Bar], steps: list[float], flights: bool) -> str:
    """What became of everybody, in words."""
    if flights:
        arrived = sum(bar.outcome != "in flight" for bar in bars)
        return f"the server steps {len(steps)} times for {arrived} messages"
    counts = {
        name: sum(bar.outcome == name for bar in bars)
        for name in ("partial", "late", "over-selected", "left")
    }
    words = {**LOST, "partial": "with fewer steps"}
    counted = sum(bar.outcome in ("joined", "partial") for bar in bars)
    more = [f"{count} {words[name]}" for name, count in counts.items() if count]
    return ", ".join([f"{counted} of {len(bars)} count", *more])
