"""What the messages of a cohort go through: wire, filter, stages, rule, steps behind it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from fedsim import tree
from fedsim.compose import (
    add_reports,
    aggregate_line,
    as_stages,
    decoding,
    decoding_step,
    fresh_rows,
    labels,
    line,
    no_reports,
    settled,
    with_before,
)
from fedsim.engine.keys import Phase
from fedsim.engine.shared_leaves import travelling
from fedsim.tree import Tree
from fedsim.types import (
    AggregateStage,
    Aim,
    Bound,
    Client,
    Codec,
    Context,
    Info,
    Result,
    RowStage,
    Rule,
    Shared,
    Stage,
    Updates,
    forgetful,
)

State = dict[str, Tree]
"""Of `wire`, `stages`, `rule` and `steps`."""

Contexts = Callable[[Phase], Context]
"""What links may know beside the rows, in each phase of a round."""

# columns of their own: the last link that reports them
COMMON = ("malicious_kept", "attack_success")


class Travelled(NamedTuple):
    """Rows behind the wire, and behind the server's stages."""

    arrived: Updates
    kept: Updates
    bad: Bool[Array, " rows"]  # those that were not finite
    state: State  # of wire and stages
    info: Info  # what they report, by their place


class Reduced(NamedTuple):
    """What becomes of a round's rows."""

    row: Tree  # what the rule made of them
    aggregate: Tree  # behind the steps that follow it
    state: State  # of all links
    info: Info  # what they report, as `krum/malicious_kept`


class Pipeline:
    """The links of a run between its clients and its optimisers, in their order; pure.

    Args:
      wire: what happens to messages on their way.
      stages: what the server does with the stack before the rule.
      rule: the reducing rule.
      steps: what happens to the aggregate before the optimisers.
      client: the client method, which says what travels.
      drop: give weight 0 to a row that is not finite.
      width: rows that a row-wise stage works on at a time; None: all.

    Attributes:
      wire_names: of the links of the wire, where they report; likewise `stage_names`, `rule_name`
        and `step_names`.
      remembering: links that remember a row of every client, by name.
      of_memory: the name of the one before the rule, which is the server's; None: it remembers
        nothing.
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
        *,
        drop: bool,
        width: int | None = None,
    ):
        self.rule = rule
        self.client = client
        self.drop = drop

        travels = as_stages(wire, self._defence)
        stages = with_before(stages, rule)
        links = [*travels, *stages]

        # Every link reports under its name; a kind that stands twice is numbered.
        names = labels([*links, rule, *steps])
        self.wire_names = names[: len(wire)]
        self.stage_names = names[len(wire) : len(links)]
        self.rule_name = names[len(links)]
        self.wire = line(travels, width, self.wire_names)
        self.stages = line(stages, width, self.stage_names)
        self.aims = any(isinstance(link, Aim) for link in wire)

        # What arrives of a linear codec is decoded once, behind the rule.
        self.codec = next((link for link in wire if isinstance(link, Codec)), None)
        linear = [self.codec] if self.codec and self.codec.linear else []
        self.decoder = decoding(linear[0]) if linear else None
        self.steps = aggregate_line([*map(decoding_step, linear), *steps])
        self.step_names = [*(codec.name for codec in linear), *names[len(links) + 1 :]]

        owners = zip(names, links, strict=False)
        self.remembering = {name: link for name, link in owners if link.memory is not forgetful}
        self.of_memory = (
            names[len(links) - 1] if rule.before and rule.before.memory is not forgetful else None
        )

        self.least = max(self.wire.least, self.stages.least, rule.least)
        # What the rule remembers waits for all rows where a round that has some may be skipped.
        together = self.of_memory is not None and (self.least > 1 or rule.most is not None)
        self.folds = (
            rule.fold is not None
            and not together
            and all(isinstance(link, RowStage) for link in links)
        )
        self.bound = None if self.codec else _bound(stages, rule)

    def travelling(self, shared: Shared) -> Tree:
        """The parameters that the client method shares."""
        return travelling(self.client, shared["params"])

    def init(self, params: Tree, present: Any) -> State:
        """The states of all links."""
        links = {"wire": self.wire, "stages": self.stages, "rule": self.rule, "steps": self.steps}
        return {name: link.init(params, present) for name, link in links.items()}

    def arrive(
        self, updates: Updates, state: State, contexts: Contexts, phase: Phase = Phase.WIRE
    ) -> tuple[Updates, Tree, Info, Array]:
        """The wire and the filter behind it -> (updates, the wire's state and reports, which rows
        were not finite).
        """
        context = contexts(phase)
        if self.aims:
            attacked = {"stages": state["stages"], "rule": state["rule"], "memory": updates.memory}
            context = context._replace(server=attacked)
        updates, wire, reports = self.wire.apply(updates, state["wire"], context)
        sent = (updates.delta, updates.stats, updates.aux)
        bad = updates.arrived & ~tree.finite_rows(sent, len(updates.arrived))
        return updates._replace(arrived=updates.arrived & ~(bad & self.drop)), wire, reports, bad

    def through(self, updates: Updates, state: State, contexts: Contexts) -> Travelled:
        """Wire, filter and the server's stages before the rule; `state` is that of all links."""
        arrived, wire, of_wire, bad = self.arrive(updates, state, contexts)
        kept, stages, reports = self.stages.apply(arrived, state["stages"], contexts(Phase.SERVER))
        of_stages = {len(self.wire_names) + place: more for place, more in reports.items()}
        return Travelled(
            arrived, kept, bad, {"wire": wire, "stages": stages}, {**of_wire, **of_stages}
        )

    def reduced(
        self,
        reduce: Callable[[Tree, Context], Result],
        state: State,
        moved: State,
        reports: Info,
        contexts: Contexts,
    ) -> Reduced:
        """The end of a round: the rule, and the steps on what it returns.

        Args:
          reduce: the rule on the round's rows or on their sum, (state, context) -> (aggregate,
            state, info).
          state: of all links, at the round's start.
          moved: of wire and stages, behind the rows.
          reports: of wire and stages, as sums over the rows of the round.
          contexts: of the round.
        """
        row, rule, of_rule = reduce(state["rule"], contexts(Phase.RULE))
        aggregate, steps, of_steps = self.steps.apply(
            row, state["steps"], contexts(Phase.AGGREGATE)
        )
        state = {**state, **self._after(moved, reports), "rule": rule, "steps": steps}
        return Reduced(row, aggregate, state, self._reports(reports, of_rule, of_steps))

    def over(self, updates: Updates, state: State, contexts: Contexts) -> tuple[Travelled, Reduced]:
        """All messages of a round: what arrives of them, and what becomes of that."""
        travelled = self.through(updates, state, contexts)
        reduce = lambda state, context: self.rule.apply(travelled.kept, state, context)
        reports = add_reports(no_reports(travelled.info), travelled.info)
        return travelled, self.reduced(reduce, state, travelled.state, reports, contexts)

    def skips(self, usable: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether a round with so many rows for the rule changes nothing."""
        skipped, most = usable < self.least, self.rule.most
        return skipped if most is None else skipped | (usable > most)

    def rows_to_keep(
        self, travelled: Travelled, before: Tree, skipped: Array | bool = False
    ) -> dict[str, Tree]:
        """What stages remember of the clients from now on; the rule's own memory changes where the
        rule takes the row.

        Args:
          travelled: the rows.
          before: what stages remembered before the round.
          skipped: whether the round is.
        """
        kept, name = travelled.kept, self.of_memory
        rows = dict(kept.memory)
        if name is not None:
            rows[name] = tree.select(kept.arrived & ~jnp.asarray(skipped), rows[name], before[name])
        return rows

    def decoded(self, aggregate: Tree, shared: Shared) -> Tree:
        """A sum of messages, where the codec is linear from a sum of payloads; no memory of the
        server's has a part in it.
        """
        if self.decoder is None:
            return aggregate
        return self.decoder(aggregate, self.travelling(shared))

    def _defence(self, updates: Updates, context: Context) -> Tree:
        """What stages and rule of the round would make of a stack: for attacks that know them."""
        rows = {**fresh_rows(self.remembering, context), **dict(context.server["memory"])}
        kept, _, _ = self.stages.apply(
            updates._replace(memory=rows), context.server["stages"], context
        )
        return self.rule.apply(kept, context.server["rule"], context)[0]

    def _after(self, state: State, info: Info) -> State:
        """The states of wire and stages when the round is over."""
        assert self.wire.after is not None and self.stages.after is not None
        first = len(self.wire_names)
        wire = {place: more for place, more in info.items() if place < first}
        stages = {place - first: more for place, more in info.items() if place >= first}
        return {
            "wire": self.wire.after(state["wire"], wire),
            "stages": self.stages.after(state["stages"], stages),
        }

    def _reports(self, info: Info, rule: Info, steps: Info) -> Info:
        """What links report, as `krum/malicious_kept`; the last of those that say so is
        `malicious_kept` alone.
        """
        before = [*self.wire_names, *self.stage_names]
        reports = [(before[place], settled(more)) for place, more in info.items()]
        reports.append((self.rule_name, rule))
        reports += [(self.step_names[place], more) for place, more in steps.items()]
        common = {
            name: value for _, more in reports for name, value in more.items() if name in COMMON
        }
        return {
            f"{label}/{name}": value for label, more in reports for name, value in more.items()
        } | common


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
