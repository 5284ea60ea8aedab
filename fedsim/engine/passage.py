"""What the messages of a cohort go through: wire, filter, stages, rule, and steps on the aggregate."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from fedsim import tree
from fedsim.compose import (
    aggregate_line,
    as_stages,
    decoding,
    decoding_step,
    fresh_rows,
    labels,
    line,
    settled,
    with_before,
)
from fedsim.engine.keys import Phase, round_key
from fedsim.engine.own_samples import server_loss
from fedsim.engine.serving import RoundInfo, ServerState, Travelled
from fedsim.engine.shared_leaves import travelling
from fedsim.engine.slots import Slots
from fedsim.tree import Tree
from fedsim.types import (
    AggregateStage,
    Aim,
    Bound,
    Client,
    Codec,
    Context,
    Info,
    RowStage,
    Rule,
    Shared,
    Stage,
    Task,
    Updates,
    forgetful,
)

COMMON = ("malicious_kept", "attack_success")  # columns of their own: the last link that reports them


class Passage:
    """The links of a run between its clients and its optimisers, in their order; pure.

    Args:
      wire: what happens to messages on their way.
      stages: what the server does with the stack before the rule.
      rule: the reducing rule.
      steps: what happens to the aggregate before the optimisers.
      client: the client method, which says what travels.
      task: of losses on the server's own samples.
      drop: give weight 0 to a row that is not finite.
      width: rows that a row-wise stage works on at a time.

    Attributes:
      remembering: links that remember a row of every client, by name.
      of_memory: the name of the one before the rule, which is the server's; None: it remembers nothing.
      codec: of the wire.
      least: clients that must report.
      folds: whether no link must see all rows.
      bound: of stages and rule together, where one is published.
    """

    def __init__(
        self,
        wire: Sequence[Stage | RowStage | Codec | Aim],
        stages: Sequence[Stage | RowStage],
        rule: Rule,
        steps: Sequence[AggregateStage],
        client: Client,
        task: Task,
        *,
        drop: bool,
        width: int,
    ):
        stages = with_before(stages, rule)
        links, self.rule, self.client, self.drop = [*as_stages(wire, self._defence), *stages], rule, client, drop
        self.task = task
        names = labels([*links, rule, *steps])
        self.of_wire, self.of_stages = names[: len(wire)], names[len(wire) : len(links)]
        self.of_rule = names[len(links)]
        self.wire, self.stages = line(links[: len(wire)], width, self.of_wire), line(stages, width, self.of_stages)
        self.aims = any(isinstance(link, Aim) for link in wire)
        self.codec = next((link for link in wire if isinstance(link, Codec)), None)
        linear = [self.codec] if self.codec and self.codec.linear else []
        self.decoder = decoding(linear[0]) if linear else None
        self.steps = aggregate_line([*map(decoding_step, linear), *steps])
        self.of_steps = [*(codec.name for codec in linear), *names[len(links) + 1 :]]
        self.remembering = {
            name: link for name, link in zip(names, links, strict=False) if link.memory is not forgetful
        }
        self.of_memory = names[len(links) - 1] if rule.before and rule.before.memory is not forgetful else None
        self.least = max(self.wire.least, self.stages.least, rule.least)
        # what the rule remembers waits for all rows where a round that has some may be skipped
        together = self.of_memory is not None and (self.least > 1 or rule.most is not None)
        self.folds = rule.fold is not None and not together and all(isinstance(link, RowStage) for link in links)
        self.bound = None if self.codec else _bound(stages, rule)

    def travelling(self, shared: Shared) -> Tree:
        """The parameters that the client method shares."""
        return travelling(self.client, shared["params"])

    def init(self, params: Tree, present: Any) -> dict[str, Tree]:
        """The states of all links."""
        links = {"wire": self.wire, "stages": self.stages, "rule": self.rule, "steps": self.steps}
        return {name: link.init(params, present) for name, link in links.items()}

    def context(self, server: ServerState, slots: Slots, info: RoundInfo, phase: Phase) -> Context:
        """What links may know beside the rows."""
        return Context(
            key=round_key(info.root, info.round, phase),
            round=info.round,
            N=info.clients,
            lr=slots.work.lr[0],
            shared={**server.shared, "params": self.travelling(server.shared)},
            ids=slots.work.id,
            malicious=slots.work.malicious,
            samples=info.samples,
            expected=info.expected[0],
            expected_samples=info.expected[1],
            server={name: server.state[name] for name in ("stages", "rule")} if self.aims else (),
            reference=info.reference,
            share=slots.share,
            server_loss=None if info.own is None else server_loss(self.task, server.shared, info.own),
            flown=info.flown,
        )

    def arrive(
        self, updates: Updates, server: ServerState, slots: Slots, info: RoundInfo, phase: Phase = Phase.WIRE
    ) -> tuple[Updates, Tree, Info, Array]:
        """The wire and the filter behind it -> (updates, the wire's state and reports, which rows were not finite)."""
        context = self.context(server, slots, info, phase)
        if self.aims:
            context = context._replace(server={**context.server, "memory": updates.memory})
        updates, state, reports = self.wire.apply(updates, server.state["wire"], context)
        sent = (updates.delta, updates.stats, updates.aux)
        bad = updates.arrived & ~tree.finite_rows(sent, len(updates.arrived))
        return updates._replace(arrived=updates.arrived & ~(bad & self.drop)), state, reports, bad

    def through(self, updates: Updates, server: ServerState, slots: Slots, info: RoundInfo) -> Travelled:
        """Wire, filter and the server's stages before the rule."""
        arrived, wire, of_wire, bad = self.arrive(updates, server, slots, info)
        context = self.context(server, slots, info, Phase.SERVER)
        kept, stages, reports = self.stages.apply(arrived, server.state["stages"], context)
        of_stages = {len(self.of_wire) + place: more for place, more in reports.items()}
        return Travelled(arrived, kept, bad, {"wire": wire, "stages": stages}, {**of_wire, **of_stages})

    def closed(
        self,
        reduce: Callable[[Tree, Context], tuple[Tree, Tree, Info]],
        states: dict[str, Tree],
        reports: Info,
        server: ServerState,
        slots: Slots,
        info: RoundInfo,
    ) -> tuple[Tree, Tree, dict[str, Tree], Info]:
        """The end of a round -> (what the rule returned, aggregate behind all steps, states, what links report).

        Args:
          reduce: the rule on the round's rows or on their sum, (state, context) -> (aggregate, state, info).
          states: of wire and stages.
          reports: of wire and stages, as sums over the rows of the round.
          server: of the round's start.
          slots: of the round's last block.
          info: of the round.
        """
        reduced, rule, of_rule = reduce(server.state["rule"], self.context(server, slots, info, Phase.RULE))
        context = self.context(server, slots, info, Phase.AGGREGATE)
        aggregate, steps, of_steps = self.steps.apply(reduced, server.state["steps"], context)
        state = {**server.state, **self._after(states, reports), "rule": rule, "steps": steps}
        return reduced, aggregate, state, self._reports(reports, of_rule, of_steps)

    def decoded(self, aggregate: Tree, shared: Shared) -> Tree:
        """A sum of messages, where the codec is linear from a sum of payloads; no memory of the server's has a part in it."""
        return aggregate if self.decoder is None else self.decoder(aggregate, self.travelling(shared))

    def _defence(self, updates: Updates, context: Context) -> Tree:
        """What stages and rule of the round would make of a stack: for attacks that know them."""
        rows = {**fresh_rows(self.remembering, context), **dict(context.server["memory"])}
        kept, _, _ = self.stages.apply(updates._replace(memory=rows), context.server["stages"], context)
        return self.rule.apply(kept, context.server["rule"], context)[0]

    def _after(self, state: dict[str, Tree], info: Info) -> dict[str, Tree]:
        """The states of wire and stages when the round is over."""
        assert self.wire.after is not None and self.stages.after is not None
        first = len(self.of_wire)
        wire = {place: more for place, more in info.items() if place < first}
        stages = {place - first: more for place, more in info.items() if place >= first}
        return {"wire": self.wire.after(state["wire"], wire), "stages": self.stages.after(state["stages"], stages)}

    def _reports(self, info: Info, rule: Info, steps: Info) -> Info:
        """What links report, as `krum/malicious_kept`; the last of those that say so is `malicious_kept` alone."""
        before = [*self.of_wire, *self.of_stages]
        reports = [(before[place], settled(more)) for place, more in info.items()] + [(self.of_rule, rule)]
        reports += [(self.of_steps[place], more) for place, more in steps.items()]
        common = {name: value for _, more in reports for name, value in more.items() if name in COMMON}
        return {f"{label}/{name}": value for label, more in reports for name, value in more.items()} | common


def _bound(stages: Sequence[Stage | RowStage], rule: Rule) -> Bound | None:
    """The published bound of stages and the rule behind them."""
    bound = rule.bound
    for stage in reversed(stages):
        widen = stage.bound if isinstance(stage, Stage) else None
        bound = None if bound is None or widen is None else widen(bound)
    return bound


def uncounted(skipped: Array, reports: Info) -> Info:
    """What links report of a round, nothing of which counts where it was skipped."""
    whole = lambda value: jnp.issubdtype(value.dtype, jnp.integer)
    return {name: jnp.where(skipped & whole(value), 0, value) for name, value in reports.items()}
