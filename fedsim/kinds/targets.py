"""Which columns of a table are the target, where it is not a single one."""

from typing import Any, NamedTuple, get_args


class TimeAndEvent(NamedTuple):
    """The columns of times until an event, which some samples do not reach.

    Attributes:
      time: the column of times, of the event or until which there was none.
      event: the column of a 1 where the time is that of an event, and a 0 where it is not.
    """

    time: str
    event: str


Target = str | TimeAndEvent | list[str]


def is_target(annotation: Any) -> bool:
    """Whether a parameter is a column, or columns of times and events, or of several labels."""
    return TimeAndEvent in get_args(annotation)


def has_times(target: Any) -> bool:
    """Whether a target is times and events, as a scenario or a program names them."""
    return hasattr(target, "event")


def columns_of(target: Target) -> tuple[str, ...]:
    """Return the names of a target's columns."""
    if isinstance(target, str):
        return (target,)
    return tuple(target) if isinstance(target, list) else (target.time, target.event)
