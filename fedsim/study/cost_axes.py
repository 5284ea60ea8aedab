"""Axes of cost: what a score is set against, the bytes or the virtual seconds spent on it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.study.methods import text_of
from fedsim.study.words import codec_axes, settings_in

UP = "up_per_client_round"
DOWN = "down_per_client_round"
SECONDS = "virtual_seconds"

# Paths that decide how long a round is, and how much is done in it.
TIMED = re.compile(r"schedule\b|fleet\.(deadline|partial_work|over_select)\b")
WORK = re.compile(r"cohort\b|client\.(steps|epochs|batch)\b")

# Paths that make the virtual clock one of machines; without them a second is a local step.
CLOCKED = re.compile(r"schedule\b|fleet\.(speed|links|deadline)\b")
CLOCK_KEYS = ("speed", "links", "deadline")  # of the section `fleet`

BYTE_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
NEARLY = 0.9999  # of a unit: the least number of bytes that is shown in it


class Way(NamedTuple):
    """One way to count what was spent.

    Attributes:
      columns: columns of the table, whose sum is the cost of a row.
      cumulative_columns: columns of `rounds.csv`, whose sum grows over the rounds.
      scope: what the cost of a row covers, to follow `words`.
    """

    columns: tuple[str, ...]
    cumulative_columns: tuple[str, ...]
    words: str
    scope: str


class CostAxis(NamedTuple):
    """What a score is set against.

    Attributes:
      target: the column of `summary.csv`, and of the table: what was spent to reach the target.
      target_title: the title of that column for readers.
      so_far: follows the words of a way, on an axis of what grows over the rounds.
      caption: what the numbers of a page are.
      by_target: what the median is of.
      unit: the unit in which the target is given.
      tick: returns a number of it on an axis.
      compared_paths: returns, for variations, the paths along which rows are compared.
      equal_time: whether scores are also compared in equal time.
    """

    table: str
    title: str
    ways: tuple[str, ...]
    target: str
    target_title: str
    noun: str
    so_far: str
    verb: str
    note: str
    caption: str
    by_target: str
    unit: float
    tick: Callable[[float], str]
    compared_paths: Callable[[Iterable[str]], set[str]]
    equal_time: bool = False


WAYS = {
    "up": Way(
        columns=(UP,),
        cumulative_columns=("bytes_up",),
        words="bytes up",
        scope=" of a client in a round",
    ),
    "down": Way(
        columns=(DOWN,),
        cumulative_columns=("bytes_down",),
        words="bytes down",
        scope=" of a client in a round",
    ),
    "both": Way(
        columns=(UP, DOWN),
        cumulative_columns=("bytes_up", "bytes_down"),
        words="bytes, both ways",
        scope=" of a client in a round",
    ),
    "seconds": Way(
        columns=(SECONDS,),
        cumulative_columns=(SECONDS,),
        words="virtual seconds",
        scope=" to the end of a run",
    ),
}


def in_bytes(count: float) -> str:
    """Return a number of bytes for the tick of an axis.

    >>> in_bytes(1500.0), in_bytes(2e6), in_bytes(40), in_bytes(0)
    ('1.5 kB', '2 MB', '40 B', '0')
    """
    if count == 0:
        return "0"
    for unit, size in BYTE_UNITS:
        if abs(count) >= NEARLY * size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.3g} B"


def in_seconds(value: float) -> str:
    """Return virtual seconds for the tick of an axis.

    >>> in_seconds(0.25), in_seconds(12345.6), in_seconds(0)
    ('0.25 s', '12,346 s', '0')
    """
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f} s"
    return f"{value:.3g} s"


def time_axes(variants: Iterable[str]) -> set[str]:
    """Return the paths that vary and decide how long a round is, or how much is done in it."""
    labels = list(variants)
    paths = {path for path, _ in settings_in(labels) if TIMED.match(path) or WORK.match(path)}
    return paths | codec_axes(labels)


BYTES = CostAxis(
    table="bytes",
    title="What it costs in bytes",
    ways=("up", "down"),
    target="bytes_to_target",
    target_title="MB to target",
    noun="bytes",
    so_far=", all clients together",
    verb="sends",
    note="Bytes are those of a client in a round.",
    caption="Bytes of a client in a round, means over the seeds",
    by_target="bytes to the target, both ways together,",
    unit=1e6,
    tick=in_bytes,
    compared_paths=codec_axes,
)
TIME = CostAxis(
    table="seconds",
    title="What it takes in virtual seconds",
    ways=("seconds",),
    target="virtual_seconds_to_target",
    target_title="seconds to target",
    noun="virtual seconds",
    so_far=" since the start",
    verb="takes",
    note="Seconds are those of the virtual clock to the end of a run.",
    caption=(
        "Seconds of the virtual clock to the end of a run, means over the seeds; in equal time: "
        "the score when the first run of a seed ends"
    ),
    by_target="seconds to the target",
    unit=1.0,
    tick=in_seconds,
    compared_paths=time_axes,
    equal_time=True,
)
AXES = (BYTES, TIME)


def is_about_cost(axis: CostAxis, scenario: Mapping[str, Any] | None) -> bool:
    """Return whether an axis is what a comparison is about.

    Bytes are if codecs vary or differ by method; time is if what decides how long a round is does.

    >>> deadlines = {"compare": {"vary": {"fleet.deadline": [1, 2]}}}
    >>> is_about_cost(BYTES, deadlines), is_about_cost(TIME, deadlines)
    (False, True)
    """
    changes = _changes(scenario)
    if axis is TIME:
        return any(TIMED.match(change) for change in changes)
    return bool(codec_axes(changes))


def timed(scenario: Mapping[str, Any] | None) -> bool:
    """Return whether machines or a schedule decide how long rounds take.

    If not, a second of the virtual clock is a local step.

    >>> timed({"fleet": {"deadline": 3.0}}), timed({"fleet": {"malicious": 0.1}}), timed(None)
    (True, False, False)
    """
    scenario = scenario or {}
    schedule = scenario.get("schedule") or {}
    fleet = scenario.get("fleet") or {}
    if schedule.get("kind", "sync") != "sync":
        return True
    if any(fleet.get(key) is not None for key in CLOCK_KEYS):
        return True
    return any(CLOCKED.match(change) for change in _changes(scenario))


def _changes(scenario: Mapping[str, Any] | None) -> list[str]:
    """Everything that a comparison changes in its scenario, as `PATH=VALUE`."""
    compare = (scenario or {}).get("compare") or {}
    varied: Mapping[str, Sequence[Any]] = compare.get("vary") or {}
    changes = []
    for path, values in varied.items():
        changes += [f"{path}={text_of(value)}" for value in values]
    for method in compare.get("methods") or []:
        if isinstance(method, Mapping):
            edits = method.get("set") or {}
            changes += [f"{path}={text_of(value)}" for path, value in edits.items()]
    return changes
