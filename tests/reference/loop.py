"""The plain loop: rounds, clients, local steps."""

from typing import Any, NamedTuple

import numpy as np

from reference.problems import Problem


class Setting(NamedTuple):
    """How clients train.

    Attributes:
      lr: η_l.
      steps: K_i of every client.
      momentum: ρ of their optimizer.
      carry: whether v goes on where the client's last round ended.
      nesterov: whether the step looks ahead, along g + ρ v.
      decay: λ, of λ y that is added to every gradient before momentum.
    """

    lr: float
    steps: tuple[int, ...]
    momentum: float = 0.0
    carry: bool = False
    nesterov: bool = False
    decay: float = 0.0


class Round(NamedTuple):
    """What the server knows of a round, and what arrived: one entry for each client of S."""

    x: np.ndarray  # what was sent out
    clients: list[int]  # S
    updates: np.ndarray  # Δ_i `[m, D]`
    counts: np.ndarray  # n_i
    steps: np.ndarray  # K_i
    losses: np.ndarray  # f_i(x)
    work: np.ndarray  # ‖a_i‖₁
    lr: float
    N: int  # clients that can take part
    n: int  # samples of all of them
    number: int  # from 1


class Ended(NamedTuple):
    """Where a run ended."""

    x: np.ndarray
    server: dict[str, Any]
    client: dict[int, dict[str, Any]]  # of those that took part


def play(
    problem: Problem, setting: Setting, cohorts: list[list[int]], client, rule, tail=None
) -> Ended:
    """Run.

    Args:
      problem: samples and losses.
      setting: how clients train.
      cohorts: of each round, by client ids; ids without samples do nothing.
      client: `(problem, setting) -> Client`.
      rule: `(x, able) -> Rule`.
      tail: `(x) -> Tail`, behind the rule; None: the step is the aggregate.
    """
    x, able = problem.start, problem.able
    client, rule = client(problem, setting), rule(x, able)
    tail = tail and tail(x)
    joined: set[int] = set()
    for number, cohort in enumerate(cohorts, 1):
        S = sorted(i for i in cohort if i in able)
        if not S and rule.least:
            continue
        joined |= set(S)
        client.meet(S, x)
        updates = np.array([client.update(i, x) for i in S]).reshape(-1, len(x))
        counts, steps = (
            np.array([problem.sizes[i] for i in S]),
            np.array([setting.steps[i] for i in S]),
        )
        losses, work = (
            np.array([problem.loss(i, x) for i in S]),
            np.array([client.work(i) for i in S]),
        )
        n = sum(problem.sizes)
        known = Round(x, S, updates, counts, steps, losses, work, setting.lr, len(able), n, number)
        client.close(known)
        if len(S) < rule.least:
            continue
        aggregate = rule.reduce(known)
        x = x + (aggregate if tail is None else tail.step(aggregate))
    server = {**client.server(), **rule.server(), **(tail.server() if tail else {})}
    return Ended(x, server, {i: client.memory(i) for i in sorted(joined)})
