"""What is measured of a round on request (`evaluate.diagnostics`): by programs of their own, which
change no bit of it.
"""

from fedsim.engine.diagnosis import Sums, measured
from fedsim.engine.records import Round, RoundWork, TrainedBlock
from fedsim.engine.serving import Messages, Served
from fedsim.engine.summing import Sum
from fedsim.engine.threads import run_in_threads


def measure(
    round: Round, works: list[RoundWork], trained: TrainedBlock, sums: Sums | None
) -> tuple[list[RoundWork], Sums]:
    """What a block's updates say about the clients -> (works, with the sums of their honest rows;
    sums over all updates).
    """
    calls = [(*each, trained.block.first) for each in zip(works, trained.messages, strict=True)]
    works = run_in_threads(_with_honest, calls, [work.run.programs.distances.add for work in works])
    return works, measured(sums, trained.stack.message.delta, trained.slots.weight, runs=len(works))


def with_deviations(works: list[RoundWork], served: list[Served | None]) -> list[Served | None]:
    """With how far the aggregates lie from the honest clients, among what the links report."""
    programs = [work.run.programs.distances.of for work in works]
    return run_in_threads(_with_deviation, list(zip(works, served, strict=True)), programs)


def _with_honest(work: RoundWork, messages: Messages, first: int) -> RoundWork:
    """With the honest rows of a block, where it was summed and is forgotten."""
    if not work.has(first) or not isinstance(work.total, Sum):
        return work
    return work._replace(honest=work.run.programs.distances.add(work.honest, messages, work.at))


def _with_deviation(work: RoundWork, served: Served | None) -> Served | None:
    if served is None:
        return None
    assert work.total is not None and work.slots is not None
    deviation = work.run.programs.distances.of(
        work.total, served.row, work.honest, work.slots, work.at
    )
    outcome = served.outcome
    return served._replace(outcome=outcome._replace(info={**outcome.info, **deviation}))
