"""The virtual clock: how long a round takes a client, from its work and its speed."""

from typing import NamedTuple

import numpy as np


class Cost(NamedTuple):
    """What a client's round costs, known before it trains; one number for all clients, or `[N]`.

    Attributes:
      steps: local steps.
      down: bytes that the client receives.
      up: bytes that it sends.
      epochs: epochs that the steps make up; None: work is measured in steps.
      work: share of the model that the client trains, and so of the time of a step.
    """

    steps: np.ndarray
    down: np.ndarray | int = 0
    up: np.ndarray | int = 0
    epochs: int | None = None
    work: np.ndarray | float = 1.0


class Speed(NamedTuple):
    """How fast clients are; one number for all clients, or `[N]`.

    Attributes:
      step: seconds per local step.
      down: bytes per second to the client.
      up: bytes per second from the client.
      latency: seconds before a message travels, in each direction.
    """

    step: np.ndarray | float = 1.0
    down: np.ndarray | float = np.inf
    up: np.ndarray | float = np.inf
    latency: np.ndarray | float = 0.0


def seconds(cost: Cost, speed: Speed) -> np.ndarray:
    """Return how long a round takes every client `[N]`: it receives, trains and sends in turn.

    t_i = latency + down / down speed + steps · seconds per step + latency + up / up speed.

    >>> seconds(Cost(np.array([3, 4]), down=10), Speed(step=0.5, down=20.0)).tolist()
    [2.0, 2.5]
    """
    return cost.down / speed.down + cost.steps * speed.step + cost.up / speed.up + 2 * speed.latency
