"""Groups of clients, as a hyper-parameter: a number of them, or the clients of each."""

import itertools
from typing import Annotated

import numpy as np
from annotated_types import Ge, MinLen
from jaxtyping import Int

Group = Annotated[list[Annotated[int, Ge(0)]], MinLen(1)]
Groups = Annotated[int, Ge(1)] | Annotated[list[Group], MinLen(1)]

NOBODY = -1  # the group of a client in none


def members_of(groups: int | list[list[int]], clients: int) -> list[np.ndarray]:
    """Return the clients of each group: of a number, consecutive ones, as even as possible.

    >>> [group.tolist() for group in members_of(2, 5)]
    [[0, 1, 2], [3, 4]]
    """
    if isinstance(groups, int):
        return np.array_split(np.arange(clients), groups)
    return [np.asarray(group) for group in groups]


def group_of(groups: int | list[list[int]], clients: int) -> Int[np.ndarray, " N"]:
    """Return the group of every client; NOBODY for one in none.

    >>> group_of([[2], [0]], 3).tolist()
    [1, -1, 0]
    """
    number = np.full(clients, NOBODY, np.int32)
    for group, members in enumerate(members_of(groups, clients)):
        number[members] = group
    return number


def require_disjoint(groups: int | list[list[int]]) -> None:
    """Refuse groups that share a client.

    Raises:
      ValueError: naming it.
    """
    if isinstance(groups, int):
        return
    listed = sorted(client for group in groups for client in group)
    for client, following in itertools.pairwise(listed):
        if client == following:
            raise ValueError(f"groups: client {client} is listed twice; name every client once")
