"""Targets of survival analysis `[n, 2]`: a time, and whether it is that of an event."""

import numpy as np

TIMES = frozenset({"times"})


def fault_of(kind: str, y: np.ndarray) -> str:
    """Return what is wrong with times and events; empty if nothing is."""
    time, event = y.T
    if (time <= 0).any():
        row = int((time <= 0).argmax())
        return f"{kind} is for times above 0, and there is a time {time[row]:g}"
    is_other = (event != 0) & (event != 1)
    if is_other.any():
        return f"{kind} is for events of 0 or 1, and there is an event {event[is_other.argmax()]:g}"
    return ""
