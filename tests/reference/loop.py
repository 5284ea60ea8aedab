"""The plain loop: rounds, clients, local steps."""

from typing import Any, NamedTuple

import numpy as np

from reference.problems import Problem


class Setting(NamedTuple):
    """How clients train.

    Attributes:
      lr: η_l.
      steps: K_i per client.
      momentum: ρ of their optimizer.
      carry: whether v is kept until the client's next round.
      nesterov: whether the step looks ahead, along g + ρ v.
      decay: λ; λ y is added to every gradient before momentum.
    """

    lr: float
    steps: tuple[int, ...]
    momentum: float = 0.0
    carry: bool = False
    nesterov: bool = False
    decay: float = 0.0


class Round(NamedTuple):
    """What the server knows of a round, and what arrived: an entry for each client of S."""

    x: np.ndarray  # the global model before the round
    clients: list[int]  # S
    updates: np.ndarray  # Δ_i `[m, D]`
    counts: np.ndarray  # n_i
    steps: np.ndarray  # K_i
    losses: np.ndarray  # f_i(x)
    work: np.ndarray  # ‖a_i‖₁
    lr: float
    N: int  # clients that can take part
    n: int  # their samples
    number: int  # from 1


class Ended(NamedTuple):
    """The final model and states of a run."""

    x: np.ndarray
    server: dict[str, Any]
    client: dict[int, dict[str, Any]]  # clients that took part


def play(
    problem: Problem, setting: Setting, cohorts: list[list[int]], client, rule, tail=None
) -> Ended:
    """Run all rounds.

    Args:
      problem: samples and losses.
      setting: how clients train.
      cohorts: client ids of each round; ids without samples do nothing.
      client: `(problem, setting) -> Client`.
      rule: `(x, able) -> Rule`.
      tail: `(x) -> Tail`, after the rule; None: the step is the aggregate.
    """
    x, able = problem.start, problem.able
    client, rule = client(problem, setting), rule(x, able)
    tail = tail and tail(x)
    joined: set[int] = set()
    for number, cohort in enumerate(cohorts, 1):
        S = sorted(i for i in cohort if i in able)
        if not S and rule.min_clients:
            continue
        joined |= set(S)
        client.start_round(S, x)
        updates = np.array([client.update(i, x) for i in S]).reshape(-1, len(x))
        round = Round(
            x=x,
            clients=S,
            updates=updates,
            counts=np.array([problem.sizes[i] for i in S]),
            steps=np.array([setting.steps[i] for i in S]),
            losses=np.array([problem.loss(i, x) for i in S]),
            work=np.array([client.work(i) for i in S]),
            lr=setting.lr,
            N=len(able),
            n=sum(problem.sizes),
            number=number,
        )
        client.finish_round(round)
        if len(S) < rule.min_clients:
            continue
        aggregate = rule.reduce(round)
        x = x + (aggregate if tail is None else tail.step(aggregate))
    server = {**client.server(), **rule.server(), **(tail.server() if tail else {})}
    return Ended(x, server, {i: client.memory(i) for i in sorted(joined)})
