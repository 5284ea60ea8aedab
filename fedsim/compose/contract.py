"""What the hooks of a link must return, checked by their shapes alone: nothing is computed.

Every check takes shapes (or arrays, or tracers) in place of values, and raises a `ContractError`:

  updates: of a stack `[K, ...]`.
  context: of what may be known about it.
  present: of the mask of all clients `[N]`.
  shared: of the shared variables.
  batch: of a batch.
  work: of what is known about one client.
  file: the factory's file, to name the line of an error.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from fedsim import tree
from fedsim.compose.codecs import max_bytes
from fedsim.compose.shapes import (
    ContractError,
    kind_of,
    reported,
    require_like,
    require_parts,
    traced,
)
from fedsim.tree import Tree
from fedsim.types import (
    AggregateStage,
    Aim,
    Batch,
    Client,
    Codec,
    Context,
    Message,
    RowStage,
    Rule,
    Shared,
    Size,
    Stage,
    Task,
    Updates,
    Work,
)

Shape: Any = jax.ShapeDtypeStruct


def check_rule(
    rule: Rule, updates: Updates, context: Context, present: Any, file: str = "", types: bool = True
) -> None:
    """A rule makes one row of a stack `[K, ...]`, and its state stays what it was.

    Args:
      updates: see above, like the other arguments.
      types: whether what it returns must have the dtype of a row.
    """
    row = tree.row_shapes(updates.delta)
    params = context.shared["params"]
    context = _with_needs(rule, context)
    with reported(file, "init"):
        state = traced(rule.init, params, present)

    def require_result(returned: Any) -> None:
        require_parts(returned, ("tree", "state", "info"))
        require_like(returned[0], row, "one row", types=types)
        require_like(returned[1], state, "what init made", "state")

    with reported(file):
        require_result(traced(rule.apply, updates, state, context))
    if rule.fold is not None:
        with reported(file, "fold"):
            total = traced(rule.fold.zero, updates)
            added = traced(rule.fold.add, total, updates, context)
            require_like(added, total, "what zero made")
            require_result(traced(rule.fold.finish, total, state, context))
    with reported(file, "weights"):
        weights = traced(rule.weights, updates)
        require_like(weights, updates.samples, "a weight for every row", types=False)
    if rule.evaluated is not None:
        with reported(file, "evaluated"):
            require_like(traced(rule.evaluated, params, state), params, "the model")
    if rule.before is not None:
        check_stage(rule.before, updates, context, present, file)


def check_stage(
    stage: Stage | RowStage | Aim, updates: Updates, context: Context, present: Any, file: str = ""
) -> None:
    """A stage or an attack keeps the structure and the shapes of the stack, or of its one row."""
    if isinstance(stage, Aim):
        with reported(file, "aim"):
            stage = stage.aim(lambda updates, context: tree.zero_row(updates.delta))
    with reported(file, "init"):
        state = traced(stage.init, context.shared["params"], present)

    if isinstance(stage, RowStage):
        _check_row_stage(stage, updates, context, state, file)
        return
    with reported(file):
        returned = traced(stage.apply, updates, state, context)
        require_parts(returned, ("updates", "state", "info"))
        _require_stack(returned[0], updates, "the stack")
        require_like(returned[1], state, "what init made", "state")


def _check_row_stage(
    stage: RowStage, updates: Updates, context: Context, state: Any, file: str
) -> None:
    """A stage for one row keeps its shapes; `state`: shapes of its state."""
    row, id, malicious = tree.row_shapes((updates, context.ids, context.malicious))
    context = context._replace(ids=id, malicious=malicious, state=state)
    with reported(file, "memory"):
        memory = traced(stage.memory, context.shared["params"], _key())
    row = row._replace(memory=memory)

    with reported(file):
        _require_stack(traced(stage.apply, row, context), row, "one row")
    info: Any = {}
    if stage.measure is not None:
        with reported(file, "measure"):
            info = traced(stage.measure, row, context)
    if stage.after is not None:
        with reported(file, "after"):
            require_like(traced(stage.after, state, info), state, "what init made", "state")


def check_aggregate_stage(
    stage: AggregateStage, updates: Updates, context: Context, present: Any, file: str = ""
) -> None:
    """A step on the aggregate keeps its structure, its shapes and its types."""
    row = tree.row_shapes(updates.delta)
    with reported(file, "init"):
        state = traced(stage.init, context.shared["params"], present)
    with reported(file):
        returned = traced(stage.apply, row, state, context)
        require_parts(returned, ("aggregate", "state", "info"))
        require_like(returned[0], row, "the aggregate")
        require_like(returned[1], state, "what init made", "state")


def check_codec(codec: Codec, updates: Updates, file: str = "") -> None:
    """A codec returns bits and its memory, and decodes a vector of the same length."""
    leaves = jax.tree.leaves(tree.row_shapes(updates.delta))
    d = sum(leaf.size for leaf in leaves)
    x = Shape((d,), leaves[0].dtype)
    with reported(file, "memory"):
        memory = traced(codec.memory, x)

    with reported(file, "encode"):
        returned = traced(codec.encode, x, memory, _key())
        require_parts(returned, ("payload", "bits", "memory"))
        payload, bits, memory_after = returned
        number = bits.bits if isinstance(bits, Size) else bits
        require_like(number, Shape((), jnp.int32), "one number", "bits", types=False)
        require_like(memory_after, memory, "what memory made", "memory")

    with reported(file, "decode"):
        decoded = traced(lambda payload: codec.decode(payload, d), payload)
        require_like(decoded, x, "the vector", types=False)
    with reported(file):
        max_bytes(codec, updates.delta)


class _Loop(NamedTuple):
    """What the hooks of a client method are traced on."""

    task: Task
    shared: Shared
    batch: Batch
    work: Work
    file: str

    @property
    def model(self) -> dict[str, Tree]:
        """Shapes of the variables that a client trains."""
        return {name: self.shared[name] for name in ("params", "stats")}


def check_client(
    client: Client, task: Task, shared: Shared, batch: Batch, work: Work, file: str = ""
) -> None:
    """The hooks of a client method return what the local loop carries, and what it sends."""
    loop = _Loop(task, shared, batch, work, file)
    asked = [phase.name for phase in client.phases if phase.steps is None]
    if client.phases and len(asked) != 1:
        raise ContractError(
            f"returned phases of which {len(asked)} take the scenario's steps; expected one, and "
            "a number of steps for each of the others"
        )
    if client.scored.tune_steps is not None and client.scored.personal is None:
        raise ContractError("returned tuning without personal, the model that it starts from")
    with reported(file, "memory"):
        row = traced(client.memory, shared, _key())
    with reported(file, "sends"):
        row_of_hooks = traced(partial(row_in_hooks, client), row)
    message = _trace_loop(client, row_of_hooks, loop)
    with reported(file, "finish"):
        require_like(message.memory, row, "what memory made", "memory")
        require_like(message.stats, shared["stats"], "the model", "stats")
        _require_aux(message.aux, client, loop)
    if client.scored.personal is not None:
        with reported(file, "personal"):
            variables = traced(client.scored.personal, shared, row)
            require_like(variables, loop.model, "the shared model", "variables")
    if client.probe is not None:
        with reported(file, "probe"):
            _trace_loop(client.probe, (), loop)


def row_in_hooks(client: Client, row: Tree) -> Tree:
    """Return a memory row as hooks find it, of a client that is alone."""
    if client.travel.sends is None:
        return row
    rows = jax.tree.map(lambda leaf: leaf[None], row)
    key = jax.random.key(0)
    sent = client.travel.sends(rows, jnp.ones(1, bool), jnp.zeros((), jnp.int32), row, key)
    return {"own": row, "sent": sent}


def _trace_loop(client: Client, row: Tree, loop: _Loop) -> Message:
    """Trace one client through the local loop -> shapes of its message."""
    task, shared, batch, work, file = loop
    with reported(file, "start"):
        returned = traced(partial(client.start, task), shared, row, work)
        require_parts(returned, ("variables", "local"))
        variables, local = returned
        require_like(variables, loop.model, "the shared model", "variables")

    with reported(file, "gradient"):
        returned = traced(partial(client.gradient, task), variables, batch, local, shared, work)
        require_parts(returned, ("(loss, stats)", "gradient"))
        require_parts(returned[0], ("loss", "stats"))
        (loss, stats), gradient = returned
        require_like(loss, Shape((), work.lr.dtype), "the mean of a batch", "loss", types=False)
        require_like(stats, variables["stats"], "the model", "stats")

    with reported(file, "step"):
        params = variables["params"]
        returned = traced(partial(client.step, task), gradient, params, local, shared, work)
        require_parts(returned, ("params", "local"))
        require_like(returned[0], params, "the model", "params")
        require_like(returned[1], local, "what start made", "local")

    with reported(file, "finish"):
        message = traced(partial(client.finish, task), shared, variables, local, row, work)
        if not isinstance(message, Message):
            raise ContractError(f"returned {kind_of(message)}; expected a fedsim.types.Message")
        require_like(message.delta, shared["params"], "the model", "delta")
        require_like(message.effort, Shape((), work.lr.dtype), "one number", "effort", types=False)
    return message


def _require_aux(sent: dict[str, Tree], client: Client, loop: _Loop) -> None:
    """Every entry of `aux` that is sent has a reduction, and the shapes that `aux` began with.

    What a reducer makes has them as well.
    """
    shared = loop.shared
    for name, entry in sent.items():
        if client.reduce.get(name) not in ("mean", "sum_over_N"):
            text = "the client's `reduce` says neither mean nor sum_over_N of it"
            raise ContractError(f"returned aux {name!r}, and {text}")
        require_like({name: entry}, {name: shared["aux"].get(name)}, "what `aux` made", "aux")

    for name, reduce in client.reduce.items():
        if callable(reduce):
            old = shared["aux"][name]
            reducer = partial(reduce, loop.task)
            new = traced(reducer, old, shared, shared["params"], loop.work.lr)
            require_like(new, old, "what `aux` made", f"by reduce {name!r}")


def check_shares(client: Client, params: Tree) -> None:
    """A client method shares a truth value for every leaf, and at least one leaf or variables."""
    if client.travel.shares is None:
        return
    mask = client.travel.shares(params)
    if jax.tree.structure(mask) != jax.tree.structure(params):
        one_flag = lambda leaf: jax.ShapeDtypeStruct((), bool)
        flags = jax.tree.map(one_flag, mask)
        expected = jax.tree.map(one_flag, params)
        require_like(flags, expected, "the model", "shares")

    for path, leaf in jax.tree_util.tree_leaves_with_path(mask):
        if not isinstance(leaf, bool):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            text = f"returned shares {kind_of(leaf)} for {name}"
            raise ContractError(f"{text}; expected True or False")
    if not any(jax.tree.leaves(mask)) and not client.reduce:
        text = "returned shares without a leaf that travels"
        raise ContractError(f"{text}; then the server learns nothing")


def _require_stack(returned: Any, updates: Updates, reference: str) -> None:
    """Refuse anything but updates of the same shapes."""
    if not isinstance(returned, Updates):
        raise ContractError(f"returned {kind_of(returned)}; expected a fedsim.types.Updates")
    require_like(returned.delta, updates.delta, reference, types=False)
    for name in Updates._fields[1:]:
        require_like(getattr(returned, name), getattr(updates, name), reference, name, types=False)


def _with_needs(rule: Rule, context: Context) -> Context:
    """The context with what the rule asks for that comes from the server's own samples."""
    params = context.shared["params"]
    if "reference" in rule.needs and context.reference is None:
        context = context._replace(reference=params)
    if "server_loss" in rule.needs and context.server_loss is None:
        context = context._replace(server_loss=Partial(_no_loss))
    return context


def _no_loss(params: Any, batch: int | None = None, key: Any = None) -> Any:
    del batch, key
    return jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))


def _key() -> Any:
    return jax.eval_shape(jax.random.key, 0)
