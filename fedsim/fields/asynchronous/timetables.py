"""Schedules whose server does not wait for a cohort: clients train all the time."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from fedsim.compose import timetable
from fedsim.fields.asynchronous import rounds as steps
from fedsim.fleet import Timetable

Staleness = Literal["polynomial", "constant", "hinge"]
Slope = Annotated[float, Gt(0)]
Threshold = Annotated[int, Ge(0)]


@timetable
def fedbuff(
    buffer: Annotated[int, Ge(1), Le(100_000)] = 10,
    concurrency: Annotated[int, Ge(1)] = 10,
    staleness: Staleness = "polynomial",
    exponent: Annotated[float, Gt(0)] = 0.5,
    slope: Slope = 10.0,
    threshold: Threshold = 4,
    restart: Literal["once", "flush"] = "once",
) -> Timetable:
    """Clients train all the time; the server steps when its buffer is full. A round is one step.

    x ← x + η_g · 1/K_b Σ_{i in the buffer} s(τ_i) Δ_i

    under `server: [mean(weights: uniform), sgd(lr: η_g)]`, where Δ_i is relative to the model that
    the client was given, and τ_i counts the server's steps since then. The rule that reduces the
    buffer, whichever it is, receives s(τ_i) Δ_i after all stages; its weights do not depend on s.

    A client that reports is replaced at once by the next client, which starts from the newest
    model. Messages count in the order in which they arrive; of two at the same time, the one that
    started first. The next client is the next one drawn by `cohort` (the clients of a draw start in
    its order, followed by those of the next draw) that is not training already; `cohort: listed` is
    followed exactly. If the fleet has availability, clients start only while they can be reached. A
    client that leaves is replaced without a message (under `restart: flush` after the step). If no
    client is left for a step, the server steps with the messages that are there.

    Cost: one start model in memory for each version that some client still trains from.

    Args:
      buffer: K_b, messages per step of the server.
      concurrency: clients that train at any time.
      staleness: s(τ): `polynomial` (1 + τ)^−a, `constant` 1, or `hinge` 1 if τ ≤ b else
        1 / (a (τ − b) + 1).
      exponent: a of `polynomial`; 0.5 is FedBuff's 1/√(1 + τ).
      slope: a of `hinge`.
      threshold: b of `hinge`.
      restart: when the next client starts: `once` a client has reported, or after a `flush` of the
        buffer, for all clients that have.

    References:
      Nguyen et al. 2022, Federated Learning with Buffered Asynchronous Aggregation,
      arXiv:2106.06639, Algorithm 1 and section 6; staleness: Xie et al. 2019, Asynchronous
      Federated Optimization, arXiv:1903.03934.
    """
    if restart == "flush" and concurrency < buffer:
        raise ValueError(
            f"restart: flush needs {buffer} clients to fill the buffer, "
            f"and only {concurrency} train at a time"
        )
    return Timetable(
        buffer=buffer,
        concurrency=concurrency,
        waits=restart == "flush",
        discount=_discount(staleness, exponent, slope, threshold),
        steps=steps,
    )


@timetable
def fedasync(
    alpha: Annotated[float, Gt(0), Le(1)] = 0.6,
    concurrency: Annotated[int, Ge(1)] = 10,
    staleness: Staleness = "polynomial",
    exponent: Annotated[float, Gt(0)] = 0.5,
    slope: Slope = 10.0,
    threshold: Threshold = 4,
) -> Timetable:
    """Clients train all the time; the server mixes each arriving model in. A round is one message.

    x ← (1 − α_τ) x + α_τ y_i,  y_i = Δ_i + the model that client i was given,  α_τ = α s(τ),

    where τ counts the server's steps since then. Rule and stages see the single update Δ_i; after
    them, the optimisers receive α_τ (y_i − x), so that `server: mean` alone is the paper's method.
    Normalisation statistics are mixed in the same way. The paper's local proximal term is that of
    `client: fedprox`. Clients start as under `fedbuff(buffer: 1)`.

    Refused: rules and stages that need more than one message, and whatever `fedbuff` refuses.

    Cost: one start model in memory for each version that some client still trains from.

    Args:
      alpha: α, share of a client's model if the server has taken no step since the client started.
      concurrency: clients that train at any time.
      staleness: s(τ): `polynomial` (1 + τ)^−a, `constant` 1, or `hinge` 1 if τ ≤ b else
        1 / (a (τ − b) + 1).
      exponent: a of `polynomial`.
      slope: a of `hinge`.
      threshold: b of `hinge`.

    References:
      Xie, Koyejo, Gupta 2019, Asynchronous Federated Optimization, arXiv:1903.03934, Algorithm 1
      and section 5.
    """
    factor = staleness_factor(staleness, exponent, slope, threshold)
    return Timetable(
        buffer=1,
        concurrency=concurrency,
        mixing=lambda age: alpha * factor(age),
        steps=steps,
    )


@timetable
def semi_sync(
    seconds: Annotated[float, Gt(0)] = 10.0,
    concurrency: Annotated[int, Ge(1), Le(100_000)] = 10,
    staleness: Staleness = "polynomial",
    exponent: Annotated[float, Gt(0)] = 0.5,
    slope: Slope = 10.0,
    threshold: Threshold = 4,
) -> Timetable:
    """The server steps at fixed times, with what has arrived since. A round is a window of time.

    x ← x + η_g · 1/K Σ_{i that arrived in the window} s(τ_i) Δ_i

    under `server: [mean(weights: uniform), sgd(lr: η_g)]`, where τ_i counts the windows that have
    ended since client i was given its model, and K the messages of this window.

    Clients that have reported wait for the end of the window; then as many clients start from the
    newest model, drawn as under `fedbuff`. A client that takes longer than a window keeps training,
    and counts in the window in which it ends. If a window is empty, the round is skipped. In the
    paper every client trains until the window ends; here each does its planned number of steps.

    Cost: as `fedbuff`; a round reserves memory for the messages of all clients that train.

    Args:
      seconds: length of a window.
      concurrency: clients that train from the start of a window.
      staleness: s(τ): `polynomial` (1 + τ)^−a, `constant` 1, or `hinge` 1 if τ ≤ b else
        1 / (a (τ − b) + 1).
      exponent: a of `polynomial`.
      slope: a of `hinge`.
      threshold: b of `hinge`.

    References:
      Stripelis, Thompson, Ambite 2022, Semi-Synchronous Federated Learning for Energy-Efficient
      Training and Accelerated Convergence in Cross-Silo Settings, arXiv:2102.02849; late messages
      that count in a later step: Wu et al. 2021, SAFA, arXiv:1910.01355.
    """
    return Timetable(
        buffer=concurrency,
        concurrency=concurrency,
        waits=True,
        discount=_discount(staleness, exponent, slope, threshold),
        window=seconds,
        steps=steps,
    )


def _discount(
    staleness: Staleness, exponent: float, slope: float, threshold: int
) -> Callable[[Any], Any] | None:
    """Return s(τ), or None where it is 1 at every age."""
    if staleness == "constant":
        return None
    return staleness_factor(staleness, exponent, slope, threshold)


def staleness_factor(
    kind: Staleness, exponent: float, slope: float, threshold: int
) -> Callable[[Any], Any]:
    """Return s(τ), for ages τ that are a NumPy or JAX array of server steps.

    `polynomial`: (1 + τ)^−exponent; `constant`: 1; `hinge`: 1 if τ ≤ threshold, else
    1 / (slope (τ − threshold) + 1).

    >>> [round(staleness_factor("hinge", 0.5, 10.0, 4)(age), 4) for age in (0, 4, 5)]
    [1.0, 1.0, 0.0909]
    """
    if kind == "polynomial":
        return lambda age: (1.0 + age) ** -exponent
    if kind == "hinge":
        # Up to the threshold, the comparison makes this 1 / (a · 0 + 1) = 1.
        return lambda age: 1.0 / (slope * (age - threshold) * (age > threshold) + 1.0)
    return lambda age: 1.0 + 0.0 * age
