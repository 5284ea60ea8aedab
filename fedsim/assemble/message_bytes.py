"""How many bytes a message has, up and down."""

from typing import Any

from fedsim import tree
from fedsim.assemble.facts import Facts
from fedsim.assemble.fields import fields, first_answer
from fedsim.assemble.links import Link
from fedsim.compose import max_bytes
from fedsim.engine.models import choice_bytes
from fedsim.engine.shared_leaves import bytes_at_server
from fedsim.types import Codec, Updates


def message_bytes(facts: Facts) -> tuple[int, int]:
    """Return the most bytes that a client sends in a round, and receives."""
    of_fields = first_answer(lambda field: field.message_bytes(facts))
    return of_fields or (bytes_up(facts), bytes_down(facts, []))


def bytes_up(facts: Facts) -> int:
    """Return the most bytes that a client sends its server in a round."""
    links = facts.links
    for field in fields().values():
        links = field.passed(facts, links)
    client = facts.trained.client
    params = facts.travelling["params"]
    up = _encoded_bytes(_message(facts.stack.updates), params, links) + choice_bytes(client)
    return up - bytes_at_server(client, facts.shapes["params"])


def bytes_down(facts: Facts, links: list[Link]) -> int:
    """Return the most bytes that a client receives in a round."""
    client = facts.trained.client
    down = _encoded_bytes(facts.travelling, facts.travelling["params"], links)
    return down * client.travel.models - bytes_at_server(client, facts.shapes["params"])


def _message(updates: Updates) -> Any:
    """Shapes of one client's message `[...]`, from those of a stack `[K, ...]`."""
    return tree.row_shapes((updates.delta, updates.stats, updates.aux))


def _encoded_bytes(message: Any, params: Any, links: list[Link]) -> int:
    """The most bytes of a message, whose parameters a codec among the links encodes."""
    message_bytes = tree.payload_bytes(message)
    codec = next((link.made for link in links if isinstance(link.made, Codec)), None)
    if codec is None:
        return message_bytes
    return message_bytes - tree.payload_bytes(params) + max_bytes(codec, params)
