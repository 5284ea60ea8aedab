"""What is measured of a round on request (`evaluate.diagnostics`).

The programs are separate from the training and change no bit of it.
"""

from fedsim.engine.diagnosis import UpdateSums, add_updates
from fedsim.engine.records import RoundState, TrainedBlock
from fedsim.engine.server_records import Messages, ServerUpdate
from fedsim.engine.summing import Sum
from fedsim.engine.threads import run_in_threads


def measure(
    states: list[RoundState], trained: TrainedBlock, sums: UpdateSums | None
) -> tuple[list[RoundState], UpdateSums]:
    """Measure the updates of a block.

    Args:
      states: the state of every run.
      trained: the trained block.
      sums: the sums over the updates of the blocks before; None: this is the first.

    Returns:
      The states, with the sums of their honest rows; and the sums over all updates.
    """
    first_slot = trained.block.key.first_slot
    calls = []
    for state, messages in zip(states, trained.messages, strict=True):
        calls.append((state, messages, first_slot))
    programs = [state.run.program.server.distances.add for state in states]
    states = run_in_threads(_with_honest, calls, programs)

    delta = trained.stack.message.delta
    return states, add_updates(sums, delta, trained.slots.weight, runs=len(states))


def with_deviations(
    states: list[RoundState], updates: list[ServerUpdate | None]
) -> list[ServerUpdate | None]:
    """Add to the reports how far the aggregates lie from the honest clients."""
    calls = list(zip(states, updates, strict=True))
    programs = [state.run.program.server.distances.report for state in states]
    return run_in_threads(_with_deviation, calls, programs)


def _with_honest(state: RoundState, messages: Messages, first_slot: int) -> RoundState:
    """Add the honest rows of a block where the block is summed and forgotten."""
    if not state.has_block(first_slot) or not isinstance(state.received, Sum):
        return state
    honest = state.run.program.server.distances.add(state.honest, messages, state.start)
    return state._replace(honest=honest)


def _with_deviation(state: RoundState, update: ServerUpdate | None) -> ServerUpdate | None:
    """Add to a run's report how far its aggregate lies from its honest clients."""
    if update is None:
        return None
    assert state.received is not None
    assert state.slots is not None
    deviation = state.run.program.server.distances.report(
        received=state.received,
        reduced=update.reduced,
        honest=state.honest,
        slots=state.slots,
        start=state.start,
    )
    info = {**update.report.info, **deviation}
    return update._replace(report=update.report._replace(info=info))
