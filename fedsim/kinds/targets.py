"""Which columns of a table are the target, where it is not a single one."""

from typing import Annotated

from annotated_types import MinLen
from pydantic import BaseModel, ConfigDict

Name = Annotated[str, MinLen(1)]


class TimeAndEvent(BaseModel):
    """The columns of times until an event, which some samples do not reach."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    time: Name
    """The column of times, of the event or until which there was none."""
    event: Name
    """The column of a 1 where the time is that of an event, and a 0 where it is not."""


def columns_of(target: str | TimeAndEvent) -> tuple[str, ...]:
    """Return the names of a target's columns."""
    return (target,) if isinstance(target, str) else (target.time, target.event)
