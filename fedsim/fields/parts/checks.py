"""`client.width` and `client.rank`: clients that train a part, and what cannot work with that."""

from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim.assemble.facts import Facts
from fedsim.assemble.plans import PlanInputs
from fedsim.assemble.problems import Findings
from fedsim.assemble.traits import SILENT, Reason, Voice
from fedsim.engine.frozen import merged_section, without_frozen
from fedsim.engine.shared_leaves import bytes_without_part
from fedsim.fields.parts import levels
from fedsim.fields.parts.levels import Levels
from fedsim.fields.parts.submodels import Widths
from fedsim.scenario.added import idle_sections
from fedsim.types import Client

WIDTH = ("client", "width")
RANK = ("client", "rank")
ASSIGN = {"by_speed": levels.by_speed, "listed": levels.listed, "uniform": levels.uniform}

# Multiplications that a step makes for a number: forward, back to the activations, its gradient.
OF_FROZEN = 2
OF_TRAINED = 3


class _Parts(NamedTuple):
    """What a client section says about parts."""

    path: tuple[str, str]
    kind: str  # who has which
    values: list[Any]  # widths, or ranks


def _parts_of(section: Any) -> _Parts | None:
    """The parts of a client section; None: everybody trains the whole model."""
    if section.width is not None:
        return _Parts(WIDTH, section.width.kind, section.width.widths)
    if section.rank is not None:
        return _Parts(RANK, section.rank.kind, section.rank.ranks)
    return None


def levels_of(section: Any) -> Levels | None:
    """Return who has which part, from a client section; None: everybody trains the whole model."""
    parts = _parts_of(section)
    if parts is None:
        return None
    _, name = parts.path
    return Levels(name, levels.sizes_of(parts.values), ASSIGN[parts.kind](parts.values))


def widths_of(section: Any) -> Widths | None:
    """Return how wide the sub-models of a client section are; None: there are none."""
    if section.width is None:
        return None
    width = section.width
    return Widths(
        levels.sizes_of(width.widths),
        rolls=width.window == "rolling",
        scaler=width.scaler,
        masked_loss=width.masked_loss,
    )


def ranks_of(section: Any) -> tuple[int, ...]:
    """Return the ranks of a client section, the largest first; empty: there are none."""
    return () if section.rank is None else tuple(sorted(set(section.rank.ranks), reverse=True))


def count_savings(facts: Facts) -> None:
    """Say what each size saves: bytes of messages, and time of local steps."""
    levels = facts.levels
    client = facts.trained.client
    if levels is None or client.travel.part is None:
        return
    params = facts.travelling["params"]
    left_out = bytes_without_part(client.travel.part, params)
    shared, frozen = without_frozen(facts.shapes)
    merged = merged_section(shared)
    levels = levels._replace(
        left_out=left_out,
        left_out_down=0 if merged else left_out,  # what is merged is sent whole
        work=_work(client, params, (frozen, merged)),
    )
    facts.learn(levels=levels, plan_inputs=_with_levels(facts.plan_inputs, levels))


def _with_levels(inputs: PlanInputs, levels: Levels) -> PlanInputs:
    """Return the inputs of plans with these levels in place of those that are planned."""
    of_fields = {
        name: levels if isinstance(planned, Levels) else planned
        for name, planned in inputs.of_fields.items()
    }
    return inputs._replace(of_fields=of_fields)


def _work(client: Client, params: Any, frozen: Any) -> np.ndarray:
    """The share of the time of a local step, by level: that of its multiplications.

    Where nothing is frozen, it is that of the parameters.
    """
    assert client.travel.part is not None
    kept = np.sum(jax.tree.leaves(client.travel.part.kept(params)), axis=0)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(params))
    others = OF_FROZEN / OF_TRAINED * sum(leaf.size for leaf in jax.tree.leaves(frozen))
    return (kept + others) / (parameters + others)


def parts_voice(facts: Facts) -> Voice:
    """Widths or ranks of clients."""
    spec = facts.spec
    parts = _parts_of(spec.client)
    if parts is None:
        return SILENT
    voice = voice_of_parts(parts.path)
    # Beside servers of fields, which parts do not go with, methods are refused for those.
    if idle_sections(spec):
        return voice._replace(needs=[need for need in voice.needs if need.noun != "plain_steps"])
    return voice


def voice_of_parts(path: tuple[str, str]) -> Voice:
    """Widths of clients, or ranks."""
    text = "clients train parts of the model"
    needs = [Reason("plain_steps", text)]
    takes = [Reason("whole_messages", text)]
    if path == WIDTH:
        needs.append(Reason("all_leaves", "parts are of models of which everything is trained"))
        takes.append(Reason("whole_rows", text))
    else:
        takes.append(Reason("same_ranks", "clients send pairs of different ranks"))
    return Voice(path, f"remove {'.'.join(path)}", needs, takes)


def two_kinds_of_parts(facts: Facts) -> Findings:
    """Widths and ranks together."""
    client = facts.spec.client
    if client.width is not None and client.rank is not None:
        text = "a client has a width or a rank of its own, not both"
        yield RANK, f"{text}; remove it, or client.width"


def unknown_levels(facts: Facts) -> Findings:
    """Parts of other clients than there are, and speeds that do not differ."""
    parts = _parts_of(facts.spec.client)
    if parts is None:
        return
    values = f"{parts.path[-1]}s"
    if parts.kind == "by_speed" and getattr(facts.spec.fleet, "speed", None) is None:
        text = "all clients are equally fast"
        yield (*parts.path, "kind"), f"{text}; write fleet.speed, or kind: uniform"
    if parts.kind == "listed" and len(parts.values) != facts.N:
        text = f"{len(parts.values)} {values} for {facts.N} clients"
        yield (*parts.path, values), f"{text}; write one per client, or kind: uniform"


def loss_voice(facts: Facts) -> Voice:
    """A loss that is masked by the classes that a client lacks."""
    path = (*WIDTH, "masked_loss")
    section = facts.spec.client.width
    needs = []
    if section is not None and section.masked_loss:
        text = "a loss is masked by the classes that a client lacks"
        needs = [Reason("classes", text), Reason("one_label", text)]
    return Voice(path, "remove masked_loss", needs, [])


def model_without_parts(facts: Facts) -> Findings:
    """A model that cannot be cut."""
    section = facts.spec.model
    is_whole = not (section.freeze or section.train)
    if facts.spec.client.width is None or not is_whole or facts.model.adapter is not None:
        return
    if not facts.model.hidden:
        text = "parts are known of the models mlp, cnn and lenet"
        yield WIDTH, f"{text}; use one of them, or remove it"


def model_without_ranks(facts: Facts) -> Findings:
    """Ranks without an adapter that has one, or above its own."""
    section = facts.spec.client.rank
    if section is None:
        return
    adapter = facts.model.adapter
    if adapter is None or not adapter.rank:
        text = "ranks are of adapters with a pair A B, and the model has none"
        yield RANK, f"{text}; write model: {{adapter: lora}}, or remove it"
    elif max(section.ranks) > adapter.rank:
        text = f"{max(section.ranks)} is more than model.adapter.rank {adapter.rank}"
        yield (*RANK, "ranks"), f"{text}, which is the server's; raise that, or lower it"
