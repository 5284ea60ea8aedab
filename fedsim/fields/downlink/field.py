"""What the codec of a broadcast adds to how a scenario is checked and built."""

from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Int

from fedsim.assemble.components import link_at
from fedsim.assemble.facts import Facts
from fedsim.assemble.links import factory_of
from fedsim.assemble.message_bytes import bytes_down, bytes_up
from fedsim.assemble.section_keys import hashable_sections
from fedsim.compose import max_bytes
from fedsim.engine.downlink import Downlink, bytes_of
from fedsim.engine.server import Server
from fedsim.engine.shared_leaves import shared_leaves
from fedsim.field import Field, ServerParts, ServerSetting
from fedsim.fields.downlink import checks
from fedsim.fields.downlink.sending import Encoding
from fedsim.fleet import Plan, RoundPlan
from fedsim.types import Shared

PARTIAL_CODECS = frozenset({"top_k", "rand_k", "threshold", "low_rank"})  # drop most of a vector


def _components(facts: Facts) -> None:
    sections = enumerate(facts.spec.broadcast)
    links = [link_at(facts, ("broadcast", i), section) for i, section in sections]
    facts.learn(broadcast=links, further_links=[*facts.further_links, *links])


def _server(spec: Any) -> Hashable:
    return hashable_sections(spec.broadcast)


def _serves(parts: ServerParts, key: Any, setting: ServerSetting) -> ServerParts:
    if not key:
        return parts
    codec = factory_of(key[0].section)()
    return parts._replace(sender=partial(Encoding, codec=codec))


def _message_bytes(facts: Facts) -> tuple[int, int] | None:
    if not facts.broadcast:
        return None
    return bytes_up(facts), bytes_down(facts, facts.broadcast)


class EncodedDownlink(Downlink):
    """Counts the bytes that every client receives of an encoded model."""

    def __init__(self, sender: Encoding, plan: Plan, shared: Shared):
        client = sender.pipeline.client
        super().__init__(
            plan.federation.N,
            *bytes_of(client, shared),
            recursive=sender.codec.recursive,
            left_out=plan.left_out,
        )
        self.codec = sender.codec
        self.params = shared_leaves(client, shared["params"])

    def foresee(self, plan: Plan, work: RoundPlan) -> Int[np.ndarray, " K"]:
        """Count the most that the clients of a planned round receive, as `deliver`."""
        encoded = max_bytes(self.codec, self.params)
        return self.deliver(work.receivers, self.all_bytes - self.model_bytes + encoded)


def _downlink(server: Server, plan: Plan, shared: Shared) -> Downlink | None:
    sender = server.sender
    return EncodedDownlink(sender, plan, shared) if isinstance(sender, Encoding) else None


def _notes(spec: Any) -> list[str]:
    """A broadcast that drops most of the model."""
    if not spec.broadcast or spec.broadcast[0].kind not in PARTIAL_CODECS:
        return []
    kind = spec.broadcast[0].kind
    text = f"broadcast has {kind}, and clients train from what is left of the model"
    return [f"{text}; ef21(codec: {kind}) sends them differences"]


FIELD = Field(
    voices=[checks.broadcast_voices, checks.codec_voices],
    calculations=[checks.no_downlink],
    components=_components,
    server=_server,
    serves=_serves,
    message_bytes=_message_bytes,
    downlink=_downlink,
    notes=_notes,
    sections={"broadcast": {"broadcast": ["cast"]}},
)
