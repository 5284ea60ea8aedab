"""A moving average of the server's model: a state on the device, which changes no other bit."""

from typing import Any

import jax

from fedsim.engine.close import Kept
from fedsim.engine.server_records import ServerState
from fedsim.field import Field, ServerParts, ServerSetting
from fedsim.types import Shared

NAME = "ema"


def _serves(parts: ServerParts, decay: Any, setting: ServerSetting) -> ServerParts:
    """Keep the average beside the server's variables."""
    if decay is None:
        return parts

    def after(average: Any, shared: Shared, weight: Any, start: Any) -> tuple[Any, Shared, dict]:
        mix = lambda old, new: decay * old + (1 - decay) * new
        return jax.tree.map(mix, average, shared["params"]), shared, {}

    average = Kept(NAME, lambda shared, present: shared["params"], after)
    return parts._replace(kept=[*parts.kept, average])


def _beside(spec: Any) -> dict[str, Any]:
    """Score the average, with the statistics of the model, beside the model."""
    if spec.ema is None:
        return {}
    return {NAME: _averaged}


def _averaged(server: ServerState) -> Shared:
    return {**server.shared, "params": server.state[NAME]}


FIELD = Field(
    server=lambda spec: spec.ema,
    serves=_serves,
    beside=_beside,
    sections={"ema": {"ema": 0.9}},
)
