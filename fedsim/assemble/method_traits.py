"""What client methods need, and what they take away: read from the entries of `Client`."""

from collections.abc import Iterator

import jax

from fedsim.assemble.facts import Facts
from fedsim.assemble.traits import SILENT, Reason, Voice
from fedsim.clients import hooks
from fedsim.types import Client, Shared
from fedsim.types.client import POOLED

KIND = ("client", "kind")
CLIP = ("client", "clip")
STATE = ("client", "optimizer_state")
RESET = "write optimizer_state: reset"
ROW = "a client remembers a row of its last round"
PRIVATE = "use a method such as sgd, fedprox or scaffold"
MORE = "{} sends, keeps or measures more than an update of the model"
OTHER = "use another method, such as sgd"

# Of `Client.needs`: the nouns and words of each.
OF_SAMPLES = {
    "labels": ("classes", "one_label"),
    "classes": ("classes",),
    "features": ("features", "one_label"),
    "softmax": ("softmax",),
}
SAYS = {
    "classes": "needs classes",
    "one_label": "is for samples with one label each",
    "features": "compares features",
    "softmax": "changes or compares the softmax of outputs",
}

# Attributes of a client method that do not tell what it sends or remembers; `aux` is looked at.
HARMLESS = {"aux", "needs"}


def method_voice(facts: Facts) -> Voice:
    """The client method of a scenario."""
    return voice_of_method(facts.spec.client.kind, facts.client)


def voice_of_method(kind: str, client: Client) -> Voice:
    """A client method alone."""
    return Voice(KIND, OTHER, list(_needs(kind, client)), list(_takes(kind, client)))


def voice_alone(kind: str, client: Client) -> Voice:
    """A client method alone, with what a scenario's model may show of it besides."""
    voice = voice_of_method(kind, client)
    if client.memory is not hooks.no_memory:
        voice.needs.append(Reason("rounds", ROW))
    if _has_hooks(client) or client.memory is not hooks.no_memory:
        voice.takes.append(Reason("plain_steps", MORE.format(kind)))
    return voice


def _needs(kind: str, client: Client) -> Iterator[Reason]:
    nouns = [noun for name in sorted(client.needs & OF_SAMPLES.keys()) for noun in OF_SAMPLES[name]]
    for noun in dict.fromkeys(nouns):
        yield Reason(noun, f"{kind} {SAYS[noun]}")
    if client.probe is not None:
        yield Reason("rounds", f"{kind} has a pass at the model of the round before training")
    if client.gossip is not None:
        yield Reason("graph", f"{kind} mixes over a graph")
    elif _needs_server(client):
        text = f"clients of {kind} send or remember something else than a model"
        yield Reason("server", text, "use sgd, gradient_tracking or push_sum")
    if client.model is not None or client.bank is not None:
        yield Reason("all_leaves", f"{kind} makes its models of all leaves", at_taker=True)
    bank = client.bank
    if bank is not None and bank.grouping is None:
        yield Reason("sample_losses", f"{kind} chooses models by the losses of samples")
    if bank is not None and bank.regroups and bank.grouping is not None:
        if bank.grouping.least is None:
            text = f"{kind} compares the updates of all clients in a round"
            yield Reason("everybody", text, at_taker=True)


def _needs_server(client: Client) -> bool:
    """Whether clients do something that no node of a graph can."""
    does_more = client.reduce or client.probe or client.travel.sends or client.travel.shares
    plain = client.finish is hooks.finish and client.memory is hooks.no_memory
    return bool(does_more or client.bank or client.scored.personal or not plain)


def _takes(kind: str, client: Client) -> Iterator[Reason]:
    if client.not_federated:
        remedy = f"write method: {kind}, which leaves it out"
        yield Reason("messages", f"{kind} sends no messages", remedy)
        yield Reason("federation", f"{kind} is a baseline whose clients send no messages")
        yield Reason("statistics", f"{kind} sends no statistics")
    if client.not_federated == POOLED:
        text = f"{kind} trains on the samples of all clients together"
        yield Reason("noised_gradients", text, PRIVATE)
    if client.bank is not None:
        yield Reason("one_model", f"the server of {kind} has several models")
        yield from _memories(f"the server of {kind} has several models")
    if client.bank is not None and client.bank.regroups:
        yield Reason("changes", f"{kind} compares updates as the clients made them")
    if client.travel.instead is not None:
        text = f"the server of {kind} makes something else of each update"
        yield Reason("changes", f"{text}, and a model for each client")
    if client.travel.stats == "kept":
        yield Reason("statistics", f"clients of {kind} keep their statistics")
    yield from _sends(kind, client)
    yield from _tells(kind, client)


def _memories(text: str) -> Iterator[Reason]:
    """Nobody can remember the last message of a client, nor its update."""
    yield Reason("message_memory", text)
    yield Reason("update_memory", text)


def _sends(kind: str, client: Client) -> Iterator[Reason]:
    """What a client sends, receives or remembers besides its update."""
    sent = [name for name, how in client.reduce.items() if isinstance(how, str)]
    if client.probe is not None:
        text = f"{kind} sends a gradient at the shared model first"
        yield Reason("message_memory", f"{kind} sends two messages a round, a gradient first")
        yield Reason("update_alone", text)
        yield Reason("noised_mean", text)
    elif sent:
        yield Reason("update_alone", f"{kind} sends {', '.join(sent)} as well")
    if client.travel.sends is not None:
        text = f"{kind} sends clients what it makes of the models of others"
        yield Reason("noised_mean", text)
    elif client.reduce:
        text = f"{kind} makes its shared {', '.join(client.reduce)} of more than the mean"
        yield Reason("noised_mean", text)
    if client.memory is not hooks.no_memory or client.travel.sends or client.reduce or client.probe:
        yield Reason("fresh_clients", f"{kind} remembers or shares something of one model")
    elif client.travel.shares or client.travel.stats == "kept":
        yield Reason("fresh_clients", f"{kind} keeps a part of the model at the client")


def _tells(kind: str, client: Client) -> Iterator[Reason]:
    """How a method reads samples besides the gradients of its steps."""
    if client.probe is not None:
        text = f"{kind} sends a gradient without noise before it trains"
    elif client.bank is not None:
        text = f"{kind} chooses a model by losses or updates of the client"
    elif client.phases:
        text = f"{kind} trains in phases"
    elif "labels" in client.needs:
        text = f"{kind} uses the counts of a client's labels"
    else:
        return
    yield Reason("noised_gradients", text, PRIVATE)


def row_voice(facts: Facts) -> Voice:
    """What a client remembers from round to round: a row of the method, or an optimizer's state."""
    needs = []
    rule = facts.rule
    merges = rule is not None and rule.made.adapter.merges  # which refuses such schedules itself
    if jax.tree.leaves(facts.row) and not merges:
        needs.append(Reason("rounds", ROW))
    if facts.spec.client.optimizer_state == "carry":
        return Voice(STATE, RESET, needs, [])
    return Voice(KIND, OTHER, needs, [])


def optimizer_voice(facts: Facts) -> Voice:
    """The state of an optimizer that continues from round to round."""
    if facts.spec.client.optimizer_state != "carry":
        return SILENT
    text = "a client's optimizer keeps the state of one whole model"
    needs = [Reason("one_model", text)]
    takes = [Reason("plain_steps", text)]
    return Voice(STATE, RESET, needs, takes)


def clip_voice(facts: Facts) -> Voice:
    """Gradients that are clipped in every local step."""
    if facts.spec.client.clip is None:
        return SILENT
    text = "clip would cut the noise of gradients whose samples are clipped already"
    return Voice(CLIP, "remove client.clip", [], [Reason("noised_gradients", text)])


def leaves_voice(facts: Facts) -> Voice:
    """What clients send of the scenario's model."""
    kind = facts.spec.client.kind
    takes = []
    if not jax.tree.leaves(facts.travelling["params"]):
        takes.append(Reason("parameters", f"{kind} sends no parameters"))
    return Voice(KIND, OTHER, [], takes)


def steps_voice(facts: Facts) -> Voice:
    """What clients do besides training what they receive and sending the difference."""
    takes = []
    more = _has_hooks(facts.client)
    if not more:
        facts.require("travelling")  # a method whose leaves are refused has no row
        more = _has_row(facts.client, facts.shapes)
    if more:
        takes.append(Reason("plain_steps", MORE.format(facts.spec.client.kind)))
    return Voice(KIND, "use the method sgd or fedprox", [], takes)


def does_more(client: Client, shared: Shared) -> bool:
    """Whether a method does more than to train what it receives and to send the difference."""
    return _has_hooks(client) or _has_row(client, shared)


def _has_hooks(client: Client) -> bool:
    client = client._replace(travel=client.travel._replace(stats="averaged"))
    defaults = Client._field_defaults.items()
    return any(getattr(client, name) != value for name, value in defaults if name not in HARMLESS)


def _has_row(client: Client, shared: Shared) -> bool:
    row = jax.eval_shape(client.memory, shared, jax.eval_shape(jax.random.key, 0))
    return bool(jax.tree.leaves((row, shared["aux"])))
