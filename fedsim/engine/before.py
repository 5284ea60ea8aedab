"""What precedes the training of the clients in the rounds of some methods and rules.

A rule may ask for an update that the server trains on its own samples. A method may ask for a pass
of the clients over their samples at the global model.
"""

from typing import TYPE_CHECKING

from fedsim.engine.models import choices_of_losses
from fedsim.engine.records import ProbeState, RoundState, TrainedBlock
from fedsim.engine.server_records import Messages, mean_losses

if TYPE_CHECKING:
    from fedsim.engine.loop import Loop


def train_servers(loop: "Loop", states: list[RoundState]) -> list[RoundState]:
    """Train the servers of the runs whose rule asks for the server's own update."""
    trained = []
    for state in states:
        training = state.run.own_training
        if state.cohort is not None and training is not None:
            state = training.before(loop, state)
        trained.append(state)
    return trained


def add_probe(states: list[RoundState], trained: TrainedBlock) -> list[RoundState]:
    """Add the messages of a block of the pass at the global model."""
    first_slot = trained.block.key.first_slot
    added = []
    for state, messages in zip(states, trained.messages, strict=True):
        added.append(_with_probe(state, messages, first_slot))
    return added


def _with_probe(state: RoundState, messages: Messages, first_slot: int) -> RoundState:
    """Add a block's messages of ONE run."""
    if state.cohort is None:
        return state
    programs = state.run.program.server
    probe = state.probe or ProbeState()
    total = None
    if programs.client.probe is not None:  # else only the rule asks, and the loss alone is sent
        total = programs.probing.add(probe.total, messages, state.start, first_slot)
    losses = (*probe.losses, mean_losses(messages.rows))
    choices = probe.choices
    if programs.needs_choice:
        choices = (*choices, choices_of_losses(messages.rows.message.delta))
    return state._replace(probe=ProbeState(total, losses, choices))


def with_probe_mean(state: RoundState) -> RoundState:
    """Broadcast the mean of the pass at the global model, where the method reads it."""
    if state.probe is None or state.probe.total is None:
        return state
    if "probe" not in state.broadcast.shared["aux"]:
        return state
    server, broadcast = state.run.program.server.probing.with_mean(
        state.probe.total, state.start.server, state.broadcast
    )
    return state._replace(start=state.start._replace(server=server), broadcast=broadcast)
