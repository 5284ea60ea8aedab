"""Timetables: when the server steps. A factory returns a `Timetable`; a scenario names its kind in `schedule`."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import Ge, Gt, Le

from fedsim.compose import timetable
from fedsim.fleet.staleness import Staleness, staleness_factor

Slope = Annotated[float, Gt(0)]
Threshold = Annotated[int, Ge(0)]


class Timetable(NamedTuple):
    """When the server takes a step."""

    buffer: int = 0  # messages of a step of an asynchronous server; 0: a step ends when its whole cohort has reported
    concurrency: int = 0  # clients that train at any time, of an asynchronous server
    waits: bool = (
        False  # whether clients start after a step of the server, in place of all that have ended
    )
    discount: Callable[[Any], Any] | None = (
        None  # age of an update -> factor on it; None: there is none
    )
    window: float = (
        0.0  # seconds after which the server steps with what is there; 0: when the buffer is full
    )
    mixing: Callable[[Any], Any] | None = (
        None  # age of a client's model -> its share; None: updates are added
    )

    @property
    def asynchronous(self) -> bool:
        """Whether clients report one by one."""
        return self.buffer > 0


SYNC = Timetable()


@timetable
def sync() -> Timetable:
    """The server waits for all clients of a round; the round is as long as its longest client."""
    return SYNC


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
    """Clients train all the time; the server steps whenever its buffer is full. A round is a step of the server.

    x ← x + η_g · 1/K_b Σ_{i in the buffer} s(τ_i) Δ_i  under  server: [mean(weights: uniform), sgd(lr: η_g)], where Δ_i is
    relative to the model that the client was given, and τ_i counts the server's steps since. Whichever rule reduces the
    buffer gets s(τ_i) Δ_i behind all stages; its weights do not know s. Whoever reports makes room for the next client,
    which starts at once from the newest model; who ends first comes first, of two at the same time who started first.
    The next client is the next one that `cohort` draws (a draw's clients start in its order, then come those of the next
    draw) and that does not train already; `cohort: listed` is followed as it is written. Where the fleet says so, clients
    start only while they can be reached, at the moment at which they start, and one that leaves makes room without a message
    (under `restart: flush` after the step). A step for which nobody is left is taken with the messages that are there.

    Cost: one start model in memory for each version that a client still trains from.

    Args:
      buffer: K_b, messages that make a step of the server.
      concurrency: clients that train at any time.
      staleness: s(τ): `polynomial` (1 + τ)^−a, `constant` 1, or `hinge` 1 if τ ≤ b else 1 / (a (τ − b) + 1).
      exponent: a of `polynomial`; 0.5 is FedBuff's 1/√(1 + τ).
      slope: a of `hinge`.
      threshold: b of `hinge`.
      restart: when the next client starts: `once` one has reported, or after a `flush` of the buffer, for all that have.

    References:
      Nguyen et al. 2022, Federated Learning with Buffered Asynchronous Aggregation, arXiv:2106.06639, Algorithm 1 and
      section 6; staleness: Xie et al. 2019, Asynchronous Federated Optimization, arXiv:1903.03934.
    """
    factor = staleness_factor(staleness, exponent, slope, threshold)
    if restart == "flush" and concurrency < buffer:
        raise ValueError(
            f"restart: flush needs {buffer} clients to fill the buffer, and {concurrency} train at a time"
        )
    return Timetable(
        buffer, concurrency, restart == "flush", None if staleness == "constant" else factor
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
    """Clients train all the time; the server mixes every model that arrives into its own. A round is one message.

    x ← (1 − α_τ) x + α_τ y_i,  y_i = Δ_i + the model that client i was given,  α_τ = α s(τ), where τ counts the server's
    steps since. Behind rule and stages, which see the one update Δ_i, the optimisers get α_τ (y_i − x), so that
    server: mean alone is the paper's; normalisation statistics are mixed alike. The paper's local proximal term is that of
    `client: fedprox`. Who starts when is as under `fedbuff(buffer: 1)`.

    Refused: rules and stages that need more than one message, and what `fedbuff` refuses.

    Cost: one start model in memory for each version that a client still trains from.

    Args:
      alpha: α, share of a client's model where nothing happened since it was given its own.
      concurrency: clients that train at any time.
      staleness: s(τ): `polynomial` (1 + τ)^−a, `constant` 1, or `hinge` 1 if τ ≤ b else 1 / (a (τ − b) + 1).
      exponent: a of `polynomial`.
      slope: a of `hinge`.
      threshold: b of `hinge`.

    References:
      Xie, Koyejo, Gupta 2019, Asynchronous Federated Optimization, arXiv:1903.03934, Algorithm 1 and section 5.
    """
    factor = staleness_factor(staleness, exponent, slope, threshold)
    return Timetable(1, concurrency, mixing=lambda age: alpha * factor(age))


@timetable
def semi_sync(
    seconds: Annotated[float, Gt(0)] = 10.0,
    concurrency: Annotated[int, Ge(1), Le(100_000)] = 10,
    staleness: Staleness = "polynomial",
    exponent: Annotated[float, Gt(0)] = 0.5,
    slope: Slope = 10.0,
    threshold: Threshold = 4,
) -> Timetable:
    """The server steps at fixed times, with whatever has arrived since the last one. A round is a window of time.

    x ← x + η_g · 1/K Σ_{i that arrived in the window} s(τ_i) Δ_i  under  server: [mean(weights: uniform), sgd(lr: η_g)],
    where τ_i counts the windows that ended since client i was given its model, and K the messages of this window. Clients
    that have reported wait for the end of the window; then as many start from the newest model, drawn as under `fedbuff`. Who
    takes longer than a window goes on, and counts in the window in which it ends. In an empty window the round is skipped.
    In the paper every client trains until the window ends; here each does its own number of steps.

    Cost: as `fedbuff`; messages of a round take room for all clients that train.

    Args:
      seconds: of a window.
      concurrency: clients that train from the start of a window.
      staleness: s(τ): `polynomial` (1 + τ)^−a, `constant` 1, or `hinge` 1 if τ ≤ b else 1 / (a (τ − b) + 1).
      exponent: a of `polynomial`.
      slope: a of `hinge`.
      threshold: b of `hinge`.

    References:
      Stripelis, Thompson, Ambite 2022, Semi-Synchronous Federated Learning for Energy-Efficient Training and Accelerated
      Convergence in Cross-Silo Settings, arXiv:2102.02849; late messages that count in a later step: Wu et al. 2021, SAFA,
      arXiv:1910.01355.
    """
    factor = (
        None if staleness == "constant" else staleness_factor(staleness, exponent, slope, threshold)
    )
    return Timetable(concurrency, concurrency, True, factor, window=seconds)
