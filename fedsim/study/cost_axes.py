"""What a score is set against: the bytes that were sent for it, or the virtual seconds that it took."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.scenario.shorthand import top_level
from fedsim.study.methods import text_of
from fedsim.study.words import codec_axes

UP, DOWN, SECONDS = "up_per_client_round", "down_per_client_round", "virtual_seconds"
TIMED = re.compile(
    r"schedule\b|fleet\.(deadline|partial_work|over_select)\b"
)  # paths that decide how long a round is
WORK = re.compile(r"cohort\b|client\.(steps|epochs|batch)\b")  # or how much is done in it


class Way(NamedTuple):
    """One way to count what was spent.

    Attributes:
      columns: of the table, whose sum is the cost of a row.
      grown: of `rounds.csv`, whose sum grows over the rounds.
      words: what is counted.
      of: whose the cost of a row is, as it stands behind `words`.
    """

    columns: tuple[str, ...]
    grown: tuple[str, ...]
    words: str
    of: str


class Axis(NamedTuple):
    """What a score is set against.

    Attributes:
      table: that holds it, without `.csv`.
      title: of its section of a page.
      ways: in which rows may differ.
      several: the way that counts where they differ in more than one.
      target: column of `summary.csv`, and of the table: what was spent by the target.
      target_title: of its column for readers.
      noun: what is counted.
      so_far: behind the words of a way, on the axis of what grows over the rounds.
      verb: what a method does with it, of several and of one.
      note: below the title of a table.
      about: what the numbers of a page are.
      by_target: what the median is of.
      unit: in which the target is written.
      amount: a number of it, in words.
      tick: a number of it, on an axis.
      compared: variations -> paths along which rows are compared with each other.
      equal: whether scores are compared at an equal amount too.
    """

    table: str
    title: str
    ways: tuple[str, ...]
    several: str
    target: str
    target_title: str
    noun: str
    so_far: str
    verb: tuple[str, str]
    note: str
    about: str
    by_target: str
    unit: float
    amount: Callable[[float], str]
    tick: Callable[[float], str]
    compared: Callable[[Iterable[str]], set[str]]
    equal: bool = False


WAYS = {
    "up": Way((UP,), ("bytes_up",), "bytes up", " of a client in a round"),
    "down": Way((DOWN,), ("bytes_down",), "bytes down", " of a client in a round"),
    "both": Way(
        (UP, DOWN), ("bytes_up", "bytes_down"), "bytes, both ways", " of a client in a round"
    ),
    "seconds": Way((SECONDS,), (SECONDS,), "virtual seconds", " to the end of a run"),
}


def in_bytes(count: float) -> str:
    """Bytes on an axis.

    >>> in_bytes(1500.0), in_bytes(2e6), in_bytes(40), in_bytes(0)
    ('1.5 kB', '2 MB', '40 B', '0')
    """
    if count == 0:
        return "0"
    unit, size = next(
        (u for u in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if abs(count) >= 0.9999 * u[1]),
        ("B", 1.0),
    )
    return f"{count / size:.3g} {unit}"


def in_seconds(value: float) -> str:
    """Virtual seconds.

    >>> in_seconds(0.25), in_seconds(99.0), in_seconds(12345.6), in_seconds(0)
    ('0.25 s', '99 s', '12,346 s', '0')
    """
    if value == 0:
        return "0"
    return f"{value:,.0f} s" if abs(value) >= 100 else f"{value:.3g} s"


def time_axes(variants: Iterable[str]) -> set[str]:
    """Paths that vary and decide how long a round is, or how much is done in it.

    >>> sorted(time_axes(["fleet.deadline=3, client.lr=0.1, fleet.speed=pareto", "client.epochs=2"]))
    ['client.epochs', 'fleet.deadline']
    """
    variants = list(variants)
    paths = {
        part.partition("=")[0].strip()
        for variant in variants
        if variant
        for part in top_level(variant)
    }
    return codec_axes(variants) | {path for path in paths if TIMED.match(path) or WORK.match(path)}


BYTES = Axis(
    table="bytes",
    title="What it costs in bytes",
    ways=("up", "down"),
    several="both",
    target="bytes_to_target",
    target_title="MB to target",
    noun="bytes",
    so_far=", all clients together",
    verb=("send", "sends"),
    note="Bytes are those of a client in a round.",
    about="Bytes of a client in a round, means over the seeds",
    by_target="bytes to the target, both ways together,",
    unit=1e6,
    amount=lambda count: f"{count / 1e6:.3g} MB" if math.isfinite(count) else "without bound",
    tick=in_bytes,
    compared=codec_axes,
)
TIME = Axis(
    table="seconds",
    title="What it takes in virtual seconds",
    ways=("seconds",),
    several="seconds",
    target="virtual_seconds_to_target",
    target_title="seconds to target",
    noun="virtual seconds",
    so_far=" since the start",
    verb=("take", "takes"),
    note="Seconds are those of the virtual clock to the end of a run.",
    about="Seconds of the virtual clock to the end of a run, means over the seeds; in equal time: the score when the first "
    "run of a seed ends",
    by_target="seconds to the target",
    unit=1.0,
    amount=lambda value: in_seconds(value) if math.isfinite(value) else "without bound",
    tick=in_seconds,
    compared=time_axes,
    equal=True,
)
AXES = (BYTES, TIME)


def leads(axis: Axis, scenario: Mapping[str, Any] | None) -> bool:
    """Whether an axis is what a comparison is about: codecs, or what decides how long a round is, vary or differ by method.

    >>> leads(BYTES, {"compare": {"methods": [{"method": "fedavg", "set": {"wire": [{"kind": "top_k", "k": 5}]}}]}})
    True
    >>> [leads(axis, {"compare": {"vary": {"fleet.deadline": [1, 2]}}}) for axis in (BYTES, TIME)]
    [False, True]
    """
    changes = _changes(scenario)
    return (
        any(TIMED.match(change) for change in changes)
        if axis is TIME
        else bool(codec_axes(changes))
    )


def timed(scenario: Mapping[str, Any] | None) -> bool:
    """Whether machines or a schedule decide how long rounds take; else a second of the virtual clock is a local step.

    >>> timed({"fleet": {"deadline": 3.0}}), timed({"fleet": {"malicious": 0.1}}), timed(None)
    (True, False, False)
    """
    scenario = scenario or {}
    fleet = scenario.get("fleet") or {}
    kind = (scenario.get("schedule") or {}).get("kind", "sync")
    return (
        kind != "sync"
        or any(fleet.get(key) is not None for key in ("speed", "links", "deadline"))
        or any(
            re.match(r"schedule\b|fleet\.(speed|links|deadline)\b", change)
            for change in _changes(scenario)
        )
    )


def _changes(scenario: Mapping[str, Any] | None) -> list[str]:
    """Everything that a comparison changes, as `PATH=VALUE`."""
    compare = (scenario or {}).get("compare") or {}
    methods = [method for method in compare.get("methods") or [] if isinstance(method, Mapping)]
    changes: list[tuple[str, Sequence[Any]]] = [*(compare.get("vary") or {}).items()]
    changes += [
        (path, [value]) for method in methods for path, value in (method.get("set") or {}).items()
    ]
    return [f"{path}={text_of(value)}" for path, values in changes for value in values]
