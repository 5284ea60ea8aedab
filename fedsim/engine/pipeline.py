"""What a cohort's messages pass through: wire, filter, stages, rule, and the steps after it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from fedsim import tree
from fedsim.compose import (
    WRAPPED,
    add_reports,
    aggregate_chain,
    as_stage,
    chain,
    counting_wraps,
    decoding,
    decoding_step,
    finished_report,
    fresh_rows,
    labels,
    no_reports,
    with_row_stage,
)
from fedsim.engine.frozen import with_merged
from fedsim.engine.keys import Phase
from fedsim.engine.shared_leaves import shared_leaves
from fedsim.tree import Tree
from fedsim.types import (
    Aim,
    Bound,
    Client,
    Codec,
    Context,
    Info,
    Result,
    RowStage,
    Rule,
    ServerLinks,
    Shared,
    Stage,
    Task,
    Updates,
    forgetful,
)

State = dict[str, Tree]
"""States of `wire`, `stages`, `rule` and `steps`."""

Contexts = Callable[[Phase], Context]
"""Phase of a round -> what links may know besides the rows."""

# Reports that also fill a column without a link's name; the last link that reports one counts.
COMMON = ("malicious_kept", "attack_success")


class WireOutput(NamedTuple):
    """What arrives behind the wire, without the rows that are not finite."""

    updates: Updates
    state: Tree  # of the wire
    info: Info  # what its links report, by their position
    nonfinite: Bool[Array, " rows"]  # rows that were not finite


class ProcessedRows(NamedTuple):
    """Rows behind the wire, and behind the server's stages."""

    arrived: Updates  # behind the wire
    staged: Updates  # behind the stages
    nonfinite: Bool[Array, " rows"]  # rows that were not finite
    state: State  # of wire and stages
    info: Info  # what their links report, by their position


class RuleOutput(NamedTuple):
    """What becomes of a round's rows."""

    # what the rule returned, behind a linear codec still a payload; None where nobody asks for it
    reduced: Tree | None
    aggregate: Tree  # behind the steps that follow the rule
    state: State  # of all links
    info: Info  # what they report, as `krum/malicious_kept`


class Pipeline:
    """The links of a run between its clients and its optimisers, in order; pure.

    Args:
      wire: links that messages pass on their way.
      server: what the server does with them; its optimisers are not part of the pipeline.
      client: the client method, which says what travels.
      task: model and loss, for links that score models.
      drops_nonfinite: give weight 0 to a row that is not finite.
      width: rows that a row-wise stage works on at a time; None: all.
      scale: what the pair of an adapter counts, as `Context.scale`.

    Attributes:
      wire_names: names under which the wire's links report; likewise `stage_names`, `rule_name`
        and `step_names`.
      remembering: links that remember a row of every client, by name.
      rule_memory_link: name of the link whose memory belongs to the rule; None: the rule
        remembers no clients.
      decoder: decodes what the rule makes of a linear codec's payloads.
      reducing: the rule as it is applied to what arrives: it counts sums of payloads that wrap.
      least: clients that must report.
      folds: whether no link must see all rows.
      has_links: whether any link stands between clients and rule.
      bound: the published bound of stages and rule together, where there is one.
    """

    def __init__(
        self,
        wire: Sequence[Stage | RowStage | Codec | Aim],
        server: ServerLinks,
        client: Client,
        task: Task | None = None,
        *,
        drops_nonfinite: bool,
        width: int | None = None,
        scale: float = 1.0,
    ):
        rule = server.rule
        steps = server.steps
        self.rule = rule
        self.scale = scale
        self.client = client
        self.task = task
        self.drops_nonfinite = drops_nonfinite

        wire_stages = [as_stage(link, self._defence) for link in wire]
        stages = with_row_stage(server.stages, rule)
        links = [*wire_stages, *stages]

        # Every link reports under its name; a kind that occurs twice is numbered.
        names = labels([*links, rule, *steps])
        link_names = names[: len(links)]
        self.wire_names = names[: len(wire)]
        self.stage_names = names[len(wire) : len(links)]
        self.rule_name = names[len(links)]
        self.step_names = names[len(links) + 1 :]
        self.width = width
        self.has_links = bool(links)
        self.wire = chain(wire_stages, width, self.wire_names)
        self.stages = chain(stages, width, self.stage_names)
        self.aims = any(isinstance(link, Aim) for link in wire)

        # Payloads of a linear codec are summed by the rule and decoded once, after it.
        self.codec = next((link for link in wire if isinstance(link, Codec)), None)
        self.decoder = None
        self.reducing = rule
        if self.codec is not None and self.codec.linear:
            self.decoder = decoding(self.codec)
            steps = [decoding_step(self.codec), *steps]
            self.step_names = [self.codec.name, *self.step_names]
            if self.codec.wraps is not None:
                self.reducing = counting_wraps(rule, self.codec)
        self.steps = aggregate_chain(steps)

        self.remembering = {}
        for name, link in zip(link_names, links, strict=True):
            if link.memory is not forgetful:
                self.remembering[name] = link

        # The rule's own stage is the last link before it.
        self.rule_memory_link = None
        if rule.before is not None and rule.before.memory is not forgetful:
            self.rule_memory_link = link_names[-1]

        # The rule's memory must not change in a skipped round. Whether a round with clients is
        # skipped is known only when all rows are there.
        self.least = max(self.wire.least, self.stages.least, rule.least)
        may_be_skipped = self.least > 1 or rule.most is not None
        memory_waits = self.rule_memory_link is not None and may_be_skipped
        row_wise = all(isinstance(link, RowStage) for link in links)
        # A server that divides its clients by their updates must see all of them as well. One that
        # sends clients what it makes of all rows of memory must not see them change in a round.
        groups = client.bank is not None and client.bank.regroups
        needs_all = memory_waits or groups or client.travel.sends is not None
        self.folds = rule.fold is not None and row_wise and not needs_all

        self.bound = None if self.codec else _bound(stages, rule)

    def shared_params(self, shared: Shared) -> Tree:
        """Return the parameters that the client method shares."""
        return shared_leaves(self.client, shared["params"])

    def moved_params(self, shared: Shared) -> Tree:
        """Return the parameters that the server moves: the shared leaves, and merged ones."""
        return with_merged(self.shared_params(shared), shared)

    def parts(self, block: int) -> int:
        """Return in how many parts a block passes the links where no link must see all rows.

        A part has as many rows as links work on at a time; without links there is only one.
        """
        width = self.width or block
        if not self.has_links or block % width:
            return 1
        return block // width

    def init(self, params: Tree, present: Any, moved: Tree | None = None) -> State:
        """Return the states of all links at the start of a run.

        Args:
          params: the parameters that clients send.
          present: mask of the clients that can take part `[N]`.
          moved: the parameters that the server moves; None: the same ones.
        """
        moved = params if moved is None else moved
        return {
            "wire": self.wire.init(params, present),
            "stages": self.stages.init(params, present),
            "rule": self.rule.init(moved, present),
            "steps": self.steps.init(moved, present),
        }

    def arrive(
        self, updates: Updates, state: State, contexts: Contexts, phase: Phase = Phase.WIRE
    ) -> WireOutput:
        """Apply the wire, and the filter behind it for rows that are not finite.

        Args:
          updates: the rows as the clients sent them.
          phase: whose randomness the wire uses.
        """
        context = contexts(phase)
        if self.aims:
            attacked = {"stages": state["stages"], "rule": state["rule"], "memory": updates.memory}
            context = context._replace(server=attacked)
        updates, wire_state, info = self.wire.apply(updates, state["wire"], context)

        sent = (updates.delta, updates.stats, updates.aux)
        nonfinite = updates.arrived & ~tree.finite_rows(sent, len(updates.arrived))
        dropped = nonfinite & self.drops_nonfinite
        updates = updates._replace(arrived=updates.arrived & ~dropped)
        return WireOutput(updates, wire_state, info, nonfinite)

    def process(self, updates: Updates, state: State, contexts: Contexts) -> ProcessedRows:
        """Apply the wire, the filter, and the server's stages before the rule."""
        arrived, wire_state, info, nonfinite = self.arrive(updates, state, contexts)
        staged, stages_state, stages_info = self.stages.apply(
            arrived, state["stages"], contexts(Phase.SERVER)
        )

        # Positions count through wire and stages.
        first = len(self.wire_names)
        info = {**info, **{first + index: reports for index, reports in stages_info.items()}}
        row_state = {"wire": wire_state, "stages": stages_state}
        return ProcessedRows(
            arrived=arrived,
            staged=staged,
            nonfinite=nonfinite,
            state=row_state,
            info=info,
        )

    def reduce(
        self,
        apply_rule: Callable[[Tree, Context], Result],
        state: State,
        row_state: State,
        info: Info,
        contexts: Contexts,
    ) -> RuleOutput:
        """Apply the rule, and the steps on what it returns.

        Args:
          apply_rule: the rule on the round's rows or on their sum, (state, context) -> (aggregate,
            state, info).
          state: states of all links at the round's start.
          row_state: states of wire and stages behind the rows.
          info: what wire and stages report, summed over the rows of the round.
        """
        reduced, rule_state, rule_info = apply_rule(state["rule"], contexts(Phase.RULE))
        aggregate, steps_state, steps_info = self.steps.apply(
            reduced, state["steps"], contexts(Phase.AGGREGATE)
        )
        if self.reducing is not self.rule:
            # The codec reports it, whose step is the first one.
            rule_info = dict(rule_info)
            of_codec = {**steps_info.get(0, {}), WRAPPED: rule_info.pop(WRAPPED)}
            steps_info = {**steps_info, 0: of_codec}
        state = {
            **state,
            **self._state_after(row_state, info),
            "rule": rule_state,
            "steps": steps_state,
        }
        return RuleOutput(reduced, aggregate, state, self._reports(info, rule_info, steps_info))

    def apply(
        self, updates: Updates, state: State, contexts: Contexts
    ) -> tuple[ProcessedRows, RuleOutput]:
        """Apply all links to all messages of a round."""
        rows = self.process(updates, state, contexts)
        apply_rule = lambda state, context: self.reducing.apply(rows.staged, state, context)
        info = add_reports(no_reports(rows.info), rows.info)
        output = self.reduce(apply_rule, state, row_state=rows.state, info=info, contexts=contexts)
        return rows, output

    def skips(self, usable: Int[Array, ""]) -> Bool[Array, ""]:
        """Return whether a round with `usable` rows for the rule changes nothing."""
        skipped = usable < self.least
        if self.rule.most is None:
            return skipped
        return skipped | (usable > self.rule.most)

    def memory_after(
        self, rows: ProcessedRows, before: Tree, skipped: Array | bool = False
    ) -> dict[str, Tree]:
        """Return what stages remember of the clients after the round.

        The rule's own memory changes only for rows that the rule uses.
        """
        memory = dict(rows.staged.memory)
        name = self.rule_memory_link
        if name is not None:
            used = rows.staged.arrived & ~jnp.asarray(skipped)
            memory[name] = tree.select(used, memory[name], before[name])
        return memory

    def decoded(self, aggregate: Tree, shared: Shared) -> Tree:
        """Decode a sum of payloads where the codec is linear; return any other sum as it is.

        What a server remembers of earlier rounds has no part in it.
        """
        if self.decoder is None:
            return aggregate
        return self.decoder(aggregate, self.shared_params(shared))

    def _defence(self, updates: Updates, context: Context) -> Tree:
        """Return what stages and rule would make of a stack, for attacks that know them."""
        memory = {**fresh_rows(self.remembering, context), **dict(context.server["memory"])}
        updates = updates._replace(memory=memory)
        staged, _, _ = self.stages.apply(updates, context.server["stages"], context)
        return self.rule.apply(staged, context.server["rule"], context)[0]

    def _state_after(self, state: State, info: Info) -> State:
        assert self.wire.after is not None
        assert self.stages.after is not None

        first = len(self.wire_names)
        wire_info = {}
        stages_info = {}
        for index, reports in info.items():
            if index < first:
                wire_info[index] = reports
            else:
                stages_info[index - first] = reports
        return {
            "wire": self.wire.after(state["wire"], wire_info),
            "stages": self.stages.after(state["stages"], stages_info),
        }

    def _reports(self, info: Info, rule_info: Info, steps_info: Info) -> Info:
        """Name what links report, as `krum/malicious_kept`, and add the COMMON columns."""
        names = [*self.wire_names, *self.stage_names]
        reports = [(names[index], finished_report(values)) for index, values in info.items()]
        reports.append((self.rule_name, rule_info))
        reports += [(self.step_names[index], values) for index, values in steps_info.items()]

        by_link = {}
        common = {}
        for label, values in reports:
            for name, value in values.items():
                by_link[f"{label}/{name}"] = value
                if name in COMMON:
                    common[name] = value
        return by_link | common


def _bound(stages: Sequence[Stage | RowStage], rule: Rule) -> Bound | None:
    """Return the published bound of the stages and the rule behind them; None: there is none."""
    bound = rule.bound
    for stage in reversed(stages):
        widen = stage.bound if isinstance(stage, Stage) else None
        if bound is None or widen is None:
            return None
        bound = widen(bound)
    return bound


def without_counts(skipped: Array, info: Info) -> Info:
    """Return what links report, with every count 0 where the round was skipped."""
    reports = {}
    for name, value in info.items():
        is_count = jnp.issubdtype(value.dtype, jnp.integer)
        reports[name] = jnp.where(skipped & is_count, 0, value)
    return reports
