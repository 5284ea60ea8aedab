"""What comes before the clients train, in rounds of some methods: the server's own training, and a
pass at the global model.
"""

from collections.abc import Callable

import jax

from fedsim import tree
from fedsim.engine.blocks import Block
from fedsim.engine.pieces import train_block
from fedsim.engine.records import Probed, Round, RoundWork, Space, TrainedBlock
from fedsim.engine.serving import Messages, mean_losses


def refer(round: Round, works: list[RoundWork]) -> tuple[list[RoundWork], Space]:
    """The servers' own training, where a rule asks for their update -> (works, space)."""
    referred, buffers = [], round.space.own
    for work in works:
        training = work.run.training
        if work.cohort is not None and training is not None:
            lent = training.lend(work.sent.shared, round.number)
            buffers = training.mesh.empty(buffers, lent, seats=1)
            buffers = train_block(training.mesh, lent, buffers, training.steps, round.own_pieces)
            work = work._replace(
                at=work.at._replace(reference=_first_row(buffers.rows[0].message.delta))
            )
        referred.append(work)
    return referred, round.space._replace(own=buffers)


def probe(
    round: Round,
    train: Callable[..., TrainedBlock],
    block: Block,
    works: list[RoundWork],
    space: Space,
) -> tuple[Block, list[RoundWork], Space]:
    """The pass at the global model, where method or rule asks for one -> (first block of the training, works,
    space).

    It is trained like the clients' own steps, on other lanes (`train`, step 2 of the round).
    """
    mesh = round.program.probe
    assert mesh is not None
    following: Block | None = block
    while following is not None:
        trained = train(round, mesh, following, works, space.probe)
        works = [
            _probed(*each, following.first) for each in zip(works, trained.messages, strict=True)
        ]
        space = space._replace(probe=trained.buffers)
        following = round.blocks.following(following)
    return round.blocks.get(round.number, 0, round.playing), list(map(_with_mean, works)), space


def _probed(work: RoundWork, messages: Messages, first: int) -> RoundWork:
    """With the messages of a block of the pass."""
    if work.cohort is None:
        return work
    programs, probed = work.run.programs, work.probed or Probed()
    total = None
    if programs.client.probe is not None:  # else the loss alone is sent
        total = programs.probing.add(probed.total, messages, work.at, first)
    return work._replace(probed=Probed(total, (*probed.losses, mean_losses(messages.rows))))


def _with_mean(work: RoundWork) -> RoundWork:
    """With the mean of the pass sent to the clients, where the method reads it."""
    if work.probed is None or work.probed.total is None or "probe" not in work.sent.shared["aux"]:
        return work
    server, sent = work.run.programs.probing.send(work.probed.total, work.at.server, work.sent)
    return work._replace(at=work.at._replace(server=server), sent=sent)


_first_row = jax.jit(lambda stack: tree.take(stack, 0))
