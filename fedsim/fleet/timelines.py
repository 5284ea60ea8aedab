"""What clients do when, for a picture: in the first round, or in the first flights."""

from typing import NamedTuple

import numpy as np

MAX_ROWS = 60  # of the picture: clients of a round, or clients that train at a time

JOINED = "joined"
LEFT = "left"


class Timeline(NamedTuple):
    """Clients that train; arrays `[m]`, in seconds since the start of the run.

    Attributes:
      place: row of the picture, from 0; a row of an asynchronous server has one flight after
        another.
      client: id of the client.
      begins: when the client is sent the model.
      trains: when it has received it.
      sends: when its training ends.
      ends: when its message arrives, it leaves, or the round ends without it.
      closes: when the server steps, with the message or without it.
      outcome: `joined`, `partial` (fewer steps, in time), `late`, `over-selected`, `left`, or
        `in flight`.
    """

    place: np.ndarray
    client: np.ndarray
    begins: np.ndarray
    trains: np.ndarray
    sends: np.ndarray
    ends: np.ndarray
    closes: np.ndarray
    outcome: np.ndarray

    def rows(self, selected: np.ndarray) -> "Timeline":
        """Return the selected entries, given as a mask or as positions."""
        return Timeline(*(column[selected] for column in self))
