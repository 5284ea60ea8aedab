"""What fits together: what the kinds and sections of a scenario need, and what they take away.

A voice speaks for one of them. Both are nouns, such as `rounds` or `rows`. Where one voice needs
what another takes away, the scenario is refused at one of the two, with the reasons of both. No
voice knows of another.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fedsim.assemble.problems import Findings
from fedsim.scenario.reader import KeyPath

# What is there unless something takes it away.
NOUNS = {
    "server": "a server adds up what clients send",
    "graph": "clients have neighbours that they mix with",
    "messages": "clients send messages",
    "federation": "clients train their own models, and share them",
    "parameters": "what they send are parameters",
    "rounds": "the clients of a round begin together, from the newest model",
    "one_model": "the server has one model for all clients",
    "everybody": "all clients train in every round",
    "server_leaves": "clients train the leaves that the server steps",
    "all_leaves": "all leaves of the model are trained",
    "whole_messages": "a client trains and sends the whole model",
    "whole_rows": "every update has a value for every number",
    "same_ranks": "the pairs A B of all clients have the same rank",
    "changes": "links may change what travels",
    "seen_messages": "the server sees every message by itself",
    "rows": "the server decodes the update of every client",
    "factors": "an update may count twice, or by a factor",
    "mean": "the rule is a mean",
    "message_memory": "a link may remember the last message of every client",
    "update_memory": "a rule may remember the last update of every client",
    "update_alone": "clients send their update and nothing besides",
    "fresh_clients": "a client knows nothing but the model that it receives",
    "plain_steps": "a client takes plain steps, and sends the difference",
    "known_share": "how often a client is drawn is known",
    "counted_draws": "an accountant counts how clients are drawn",
    "noised_mean": "what leaves a client is used in the noised mean alone",
    "noised_gradients": "samples are read by gradients alone, which have noise",
    "sample_gradients": "every sample of a batch has a gradient of its own",
    "sample_losses": "every sample has a loss of its own",
    "softmax": "outputs are logits of a softmax",
    "classes": "targets are classes",
    "one_label": "a sample has one label",
    "features": "the model returns features",
    "statistics": "clients send running statistics",
    "stateless_model": "the model has no running statistics",
}


class Reason(NamedTuple):
    """Why something is needed, or taken away.

    Attributes:
      noun: what.
      text: the reason, a clause with a subject.
      remedy: what to write in its place; empty: what the voice says.
      path: where it stands; empty: at the voice.
      at_taker: whether the refusal stands at the voice that takes away; otherwise at the other.
    """

    noun: str
    text: str
    remedy: str = ""
    path: KeyPath = ()
    at_taker: bool = False


class Voice(NamedTuple):
    """What speaks for a kind or a section.

    Attributes:
      path: its place in the scenario.
      instead: what to write in its place.
      needs: what it cannot do without; of another voice, the first that fits counts.
      takes: what is not there beside it.
    """

    path: KeyPath
    instead: str
    needs: list[Reason]
    takes: list[Reason]


SILENT = Voice((), "", [], [])  # of what a scenario does not have


def conflicts(voices: Iterable[Voice]) -> Findings:
    """Yield a problem for every two voices of which one takes away what the other needs."""
    for one, other in itertools.combinations(voices, 2):
        yield from itertools.islice(_between(one, other), 1)


def _between(one: Voice, other: Voice) -> Findings:
    """All problems of two voices, the first of which is enough."""
    for needing, taking in ((one, other), (other, one)):
        for need, taken in _met(needing.needs, taking.takes):
            if need.at_taker or taken.at_taker:
                yield _refusal(taking, taken, needing, need)
            else:
                yield _refusal(needing, need, taking, taken)


def _met(needs: list[Reason], takes: list[Reason]) -> Iterator[tuple[Reason, Reason]]:
    """What is needed and taken away, in the order of needs."""
    for need in needs:
        for taken in takes:
            if need.noun == taken.noun:
                yield need, taken


def _refusal(here: Voice, reason: Reason, other: Voice, others: Reason) -> tuple[KeyPath, str]:
    """The problem of two voices, at the place of one of them."""
    both = f"{reason.text}, and {others.text}"
    remedies = f"{reason.remedy or here.instead}, or {others.remedy or other.instead}"
    return reason.path or here.path, f"{both}; {remedies}"
