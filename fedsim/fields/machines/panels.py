"""What the clients of one round do and when, from the rows of `machines.csv`."""

from typing import Any, NamedTuple

import pandas as pd

# phases of a bar: name, and the columns of its begin and its end
PHASES = (("down", "begins", "trains"), ("train", "trains", "sends"), ("up", "sends", "ends"))
WORDS = {"down": "model down", "train": "training", "up": "message up"}
# outcomes of clients whose messages do not count
LOST = {"late": "late", "over-selected": "not needed any more", "left": "left"}
SHOWN = 8  # panels
MOST_CLIENTS = 60  # of a round that `machines.csv` has
WHY = "One round shows who waits for whom; rounds.csv counts what became of the clients in all."


class Bar(NamedTuple):
    """What a client does.

    Attributes:
      row: of the panel, from 0.
      phases: name, begin and end in seconds of the phases that take time.
      outcome: as in the table.
    """

    row: int
    client: str
    phases: list[tuple[str, float, float]]
    end: float
    outcome: str


class Panel(NamedTuple):
    """One round, or the first flights, of methods for which they are the same.

    Attributes:
      about: how many messages count, in words.
      steps: seconds at which the server steps.
      flights: whether clients of a row follow one another.
      seconds: to the end of the panel.
    """

    names: list[str]
    about: str
    bars: list[Bar]
    rows: int
    steps: list[float]
    flights: bool
    seconds: float


def panels(table: pd.DataFrame, names: list[str]) -> list[Panel]:
    """A panel per method, of the first seed and variation; one for methods that are alike."""
    by_method = _first_rounds(table)

    def rank(method: str) -> int:
        return names.index(method) if method in names else len(names)

    shown = _alike(by_method, sorted(by_method, key=rank))[:SHOWN]
    return [_panel(methods, by_method[methods[0]]) for methods in shown]


def _alike(by_method: dict[str, pd.DataFrame], names: list[str]) -> list[list[str]]:
    """Methods with equal rows together."""
    alike: dict[str, list[str]] = {}  # by their rows
    for method in names:
        alike.setdefault(by_method[method].to_csv(index=False), []).append(method)
    return [*alike.values()]


def omissions(table: pd.DataFrame, names: list[str]) -> list[str]:
    """What all panels leave out, a sentence each: seeds, variations, methods and clients."""
    by_method = _first_rounds(table)
    sentences = []
    seeds = list(dict.fromkeys(table["seed"]))
    if len(seeds) > 1:
        sentences.append(f"Of {len(seeds)} seeds, seed {seeds[0]} is drawn.")
    variants = len(set(table["variant"])) if "variant" in table else 1
    if variants > 1:
        sentences.append(f"Of {variants} conditions, the first is drawn.")
    ordered = [name for name in names if name in by_method]
    beyond = []
    for methods in _alike(by_method, ordered)[SHOWN:]:
        beyond += methods
    if beyond:
        sentences.append(f"Not drawn, for want of space: {', '.join(beyond)}.")
    if any(len(rows) == MOST_CLIENTS for rows in by_method.values()):
        sentences.append(
            f"Of more than {MOST_CLIENTS} clients, that many are drawn, evenly chosen."
        )
    return sentences


def _first_rounds(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of the first seed and variation by method."""
    if "variant" in table:
        variants = table["variant"].fillna("")
        table = pd.DataFrame(table[variants == str(variants.iloc[0])])
    table = pd.DataFrame(table[table["seed"] == table["seed"].iloc[0]])
    methods = table.groupby("method", sort=False)
    return {str(method): rows.drop(columns="method") for method, rows in methods}


def _panel(methods: list[str], rows: pd.DataFrame) -> Panel:
    bars = [_bar(row) for row in rows.to_dict("records")]
    steps = sorted({float(seconds) for seconds in rows["closes"].dropna()})
    flights = len(steps) > 1 or "in flight" in set(rows["outcome"])
    ends = [bar.end for bar in bars]
    return Panel(
        names=methods,
        about=_about(bars, steps, flights),
        bars=bars,
        rows=1 + max(bar.row for bar in bars),
        steps=steps,
        flights=flights,
        seconds=max([*ends, *steps], default=0.0),
    )


def _bar(row: dict[Any, Any]) -> Bar:
    phases = []
    for name, begin, end in PHASES:
        if row[end] > row[begin]:
            phases.append((name, row[begin], row[end]))
    return Bar(int(row["place"]), str(row["client"]), phases, row["ends"], str(row["outcome"]))


def _about(bars: list[Bar], steps: list[float], flights: bool) -> str:
    """What became of all clients, in words."""
    if flights:
        arrived = sum(bar.outcome != "in flight" for bar in bars)
        return f"the server steps {len(steps)} times for {arrived} messages"

    outcomes = [bar.outcome for bar in bars]
    counted = outcomes.count("joined") + outcomes.count("partial")
    texts = [f"{counted} of {len(bars)} count"]
    for outcome, words in {"partial": "with fewer steps", **LOST}.items():
        count = outcomes.count(outcome)
        if count:
            texts.append(f"{count} {words}")
    return ", ".join(texts)
