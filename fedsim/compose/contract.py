"""What the hooks of a link must return, checked by their shapes alone: nothing is computed for it.

Every check takes shapes (or arrays, or tracers) in place of values, and raises a `ContractError`: `updates` of a stack
`[K, ...]`, `context` of what may be known of it, `present` of the mask of all clients `[N]`, `shared` of the shared
variables, `batch` of a batch, `work` of what is known about one client. `file` is that of the factory, to name the line of
an error by.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from fedsim import tree
from fedsim.compose.codecs import most_bytes
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
    """What a rule makes of a stack `[K, ...]` is one row, and its state stays what it was.

    Args:
      types: whether what it returns must have the dtype of a row.
    """
    row, params = _row(updates.delta), context.shared["params"]
    context = _with_needs(rule, context)
    with reported(file, "init"):
        state = traced(rule.init, params, present)

    def demand(returned: Any) -> None:
        require_parts(returned, ("tree", "state", "info"))
        require_like(returned[0], row, "one row", types=types)
        require_like(returned[1], state, "what init made", "state")

    with reported(file):
        demand(traced(rule.apply, updates, state, context))
    if (fold := rule.fold) is not None:
        with reported(file, "fold"):
            total = traced(fold.zero, updates)
            require_like(traced(fold.add, total, updates, context), total, "what zero made")
            demand(traced(fold.finish, total, state, context))
    with reported(file, "weights"):
        require_like(
            traced(rule.weights, updates), updates.samples, "a weight for every row", types=False
        )
    if rule.evaluated is not None:
        with reported(file, "evaluated"):
            require_like(traced(rule.evaluated, params, state), params, "the model")
    if rule.before is not None:
        check_stage(rule.before, updates, context, present, file)


def check_stage(
    stage: Stage | RowStage | Aim, updates: Updates, context: Context, present: Any, file: str = ""
) -> None:
    """A stage (or an attack) keeps the structure and the shapes of the stack, or of the one row it is written for."""
    if isinstance(stage, Aim):
        with reported(file, "aim"):
            stage = stage.aim(lambda updates, context: tree.zero_row(updates.delta))
    with reported(file, "init"):
        state = traced(stage.init, context.shared["params"], present)
    if isinstance(stage, RowStage):
        row, ids, malicious = _row((updates, context.ids, context.malicious))
        context = context._replace(ids=ids, malicious=malicious, state=state)
        with reported(file, "memory"):
            remembered = traced(
                stage.memory, context.shared["params"], jax.eval_shape(jax.random.key, 0)
            )
        row = row._replace(memory=remembered)
        with reported(file):
            _require_stack(traced(stage.apply, row, context), row, "one row")
        with reported(file, "measure"):
            info = {} if stage.measure is None else traced(stage.measure, row, context)
        if stage.after is not None:
            with reported(file, "after"):
                require_like(traced(stage.after, state, info), state, "what init made", "state")
        return
    with reported(file):
        returned = traced(stage.apply, updates, state, context)
        require_parts(returned, ("updates", "state", "info"))
        _require_stack(returned[0], updates, "the stack")
        require_like(returned[1], state, "what init made", "state")


def check_aggregate_stage(
    stage: AggregateStage, updates: Updates, context: Context, present: Any, file: str = ""
) -> None:
    """A step on the aggregate keeps its structure, its shapes and its types."""
    row = _row(updates.delta)
    with reported(file, "init"):
        state = traced(stage.init, context.shared["params"], present)
    with reported(file):
        returned = traced(stage.apply, row, state, context)
        require_parts(returned, ("aggregate", "state", "info"))
        require_like(returned[0], row, "the aggregate")
        require_like(returned[1], state, "what init made", "state")


def check_codec(codec: Codec, updates: Updates, file: str = "") -> None:
    """A codec gives bits and its memory back, and what it decodes is a vector of the same length."""
    leaves = jax.tree.leaves(_row(updates.delta))
    x = Shape((sum(leaf.size for leaf in leaves),), leaves[0].dtype)
    with reported(file, "memory"):
        memory = traced(codec.memory, x)
    with reported(file, "encode"):
        returned = traced(codec.encode, x, memory, jax.eval_shape(jax.random.key, 0))
        require_parts(returned, ("payload", "bits", "memory"))
        payload, bits, after = returned
        require_like(
            bits.bits if isinstance(bits, Size) else bits,
            Shape((), jnp.int32),
            "one number",
            "bits",
            types=False,
        )
        require_like(after, memory, "what memory made", "memory")
    with reported(file, "decode"):
        require_like(
            traced(lambda payload: codec.decode(payload, x.shape[0]), payload),
            x,
            "the vector",
            types=False,
        )
    with reported(file):
        most_bytes(codec, updates.delta)


def check_client(
    client: Client, task: Task, shared: Shared, batch: Batch, work: Work, file: str = ""
) -> None:
    """The hooks of a client method return what the local loop carries from step to step, and what it sends."""
    with reported(file, "memory"):
        row = traced(client.memory, shared, jax.eval_shape(jax.random.key, 0))
    message = _loop(client, task, shared, row, batch, work, file)
    with reported(file, "finish"):
        require_like(message.memory, row, "what memory made", "memory")
        require_like(message.stats, shared["stats"], "the model", "stats")
        _require_aux(message.aux, client, task, shared, work)
    if client.personal is not None:
        with reported(file, "personal"):
            variables = traced(client.personal, shared, row)
            require_like(
                variables,
                {name: shared[name] for name in ("params", "stats")},
                "the shared model",
                "variables",
            )
    if client.probe is not None:
        with reported(file, "probe"):
            _loop(client.probe, task, shared, (), batch, work, file)


def check_shares(client: Client, params: Tree) -> None:
    """What a client method shares is a truth value for every leaf, and of one leaf at least it is true."""
    if client.shares is None:
        return
    mask = client.shares(params)
    if jax.tree.structure(mask) != jax.tree.structure(params):
        mask = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((), bool), mask)
        require_like(
            mask,
            jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((), bool), params),
            "the model",
            "shares",
        )
    for path, leaf in jax.tree_util.tree_leaves_with_path(mask):
        if not isinstance(leaf, bool):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            raise ContractError(
                f"returned shares {kind_of(leaf)} for {name}, needed is True or False"
            )
    if not any(jax.tree.leaves(mask)):
        raise ContractError(
            "returned shares without a leaf that travels; then the server learns nothing"
        )


def _loop(
    client: Client, task: Task, shared: Shared, row: Tree, batch: Batch, work: Work, file: str
) -> Message:
    """One client's way through the local loop -> shapes of its message."""
    with reported(file, "start"):
        returned = traced(partial(client.start, task), shared, row, work)
        require_parts(returned, ("variables", "local"))
        variables, local = returned
        require_like(
            variables,
            {name: shared[name] for name in ("params", "stats")},
            "the shared model",
            "variables",
        )
    with reported(file, "gradient"):
        returned = traced(partial(client.gradient, task), variables, batch, local, shared, work)
        require_parts(returned, ("(loss, stats)", "gradient"))
        require_parts(returned[0], ("loss", "stats"))
        (loss, stats), gradient = returned
        require_like(loss, Shape((), work.lr.dtype), "the mean of a batch", "loss", types=False)
        require_like(stats, variables["stats"], "the model", "stats")
    with reported(file, "step"):
        returned = traced(
            partial(client.step, task), gradient, variables["params"], local, shared, work
        )
        require_parts(returned, ("params", "local"))
        require_like(returned[0], variables["params"], "the model", "params")
        require_like(returned[1], local, "what start made", "local")
    with reported(file, "finish"):
        message = traced(partial(client.finish, task), shared, variables, local, row, work)
        if not isinstance(message, Message):
            raise ContractError(f"returned {kind_of(message)}, needed is a fedsim.types.Message")
        require_like(message.delta, shared["params"], "the model", "delta")
        require_like(message.effort, Shape((), work.lr.dtype), "one number", "effort", types=False)
    return message


def _require_aux(
    sent: dict[str, Tree], client: Client, task: Task, shared: Shared, work: Work
) -> None:
    """What is sent for `aux` has a known reduction and the shapes that `aux` began with; so has what a reducer makes."""
    for name, entry in sent.items():
        if client.reduce.get(name) not in ("mean", "sum_over_N"):
            raise ContractError(
                f"returned aux {name!r}, and the client's `reduce` says neither mean nor sum_over_N of it"
            )
        require_like({name: entry}, {name: shared["aux"].get(name)}, "what `aux` made", "aux")
    for name, reduce in client.reduce.items():
        if callable(reduce):
            old = shared["aux"][name]
            new = traced(partial(reduce, task), old, shared, shared["params"], work.lr)
            require_like(new, old, "what `aux` made", f"by reduce {name!r}")


def _require_stack(returned: Any, updates: Updates, reference: str) -> None:
    if not isinstance(returned, Updates):
        raise ContractError(f"returned {kind_of(returned)}, needed is a fedsim.types.Updates")
    require_like(returned.delta, updates.delta, reference, types=False)
    for name in Updates._fields[1:]:
        require_like(getattr(returned, name), getattr(updates, name), reference, name, types=False)


def _with_needs(rule: Rule, context: Context) -> Context:
    """With what the rule asks for of the server's own samples, and nothing else of it."""
    params = context.shared["params"]
    if "reference" in rule.needs and context.reference is None:
        context = context._replace(reference=params)
    if "server_loss" in rule.needs and context.server_loss is None:
        context = context._replace(server_loss=Partial(_no_loss))
    return context


def _no_loss(params: Any, batch: int | None = None, key: Any = None) -> Any:
    del batch, key
    return jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))


def _row(stack: Tree) -> Tree:
    """Shapes of one row of a stack."""
    return jax.tree.map(lambda leaf: Shape(leaf.shape[1:], leaf.dtype), stack)
