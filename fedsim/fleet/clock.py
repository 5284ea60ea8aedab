"""The virtual clock: how long a client takes, from what its work costs and how fast it is."""

from typing import NamedTuple

import numpy as np


class Cost(NamedTuple):
    """What a client's round costs, known before it trains; a number that holds for all clients, or one each `[N]`."""

    steps: np.ndarray  # local steps
    down: np.ndarray | int = 0  # bytes that it is sent
    up: np.ndarray | int = 0  # bytes that it sends
    epochs: int | None = None  # that its steps are; None: they are steps alone


class Speed(NamedTuple):
    """How fast clients are; a number that holds for all of them, or one each `[N]`."""

    step: np.ndarray | float = 1.0  # seconds a local step
    down: np.ndarray | float = np.inf  # bytes a second to the client
    up: np.ndarray | float = np.inf  # bytes a second from it
    latency: np.ndarray | float = 0.0  # seconds before a message travels, in each direction


def seconds(cost: Cost, speed: Speed) -> np.ndarray:
    """Time of every client for its round `[N]`: down, training, up, one after another.

    t_i = latency + down / down speed + steps · seconds a step + latency + up / up speed.

    >>> seconds(Cost(np.array([3, 4]), down=10), Speed(step=0.5, down=20.0)).tolist()
    [2.0, 2.5]
    """
    return cost.down / speed.down + cost.steps * speed.step + cost.up / speed.up + 2 * speed.latency
