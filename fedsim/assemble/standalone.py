"""Stages and rules on somebody's own stack, as in a round of a fresh server: `fedsim.aggregate` and
`fedsim.transmit`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.assemble.feasibility import at_most, bounds_of
from fedsim.assemble.hooks import check_link, make_link
from fedsim.assemble.links import ServerLinks
from fedsim.assemble.programs import KEPT, HashableSection
from fedsim.assemble.stack_inputs import (
    arrays_of,
    as_server_loss,
    checked_links,
    mask_of,
    own_update,
    weights_of,
)
from fedsim.clients import sgd
from fedsim.compose import fresh_rows, server_step
from fedsim.engine.pipeline import Pipeline
from fedsim.errors import LinkError, OrderError, Problem, ScenarioError
from fedsim.scenario.order import index_of_rule
from fedsim.scenario.reader import Document, Path
from fedsim.scenario.scenario import Scenario
from fedsim.tree import Tree
from fedsim.types import Codec, Context, Rule, ServerLoss, Updates

NEEDED = {
    "loss": "every client's loss",
    "reference": "the server's own update",
    "server_loss": "the loss of models on the server's own samples",
}


def aggregate(
    server: Any,
    deltas: Tree,
    *,
    weights: Any = None,
    seed: int = 0,
    reference: Tree | None = None,
    params: Tree | None = None,
    lr: float = 1.0,
    loss: Any = None,
    server_loss: Callable[[Tree], Any] | None = None,
) -> Tree:
    """Any server list on your own stacked updates: what a fresh server would add to the model.

    Args:
      server: a kind (`"median"`), a link (`{"kind": "krum", "f": 2}`), or a list of stages, one
        rule, and optimisers.
      deltas: updates stacked on the leading axis, a PyTree with leaves `[K, ...]`, an array, or a
        nested list.
      weights: sample counts `[K]`; 0 = did not report; 1 for everybody if left out.
      seed: of rules and stages that draw.
      reference: the server's own update, a tree like a row, for rules that ask for it.
      params: the shared parameters, for links that look at them; zeros if left out.
      lr: client learning rate, for rules that use it.
      loss: of every client at the shared parameters `[K]`, for rules that ask for it.
      server_loss: parameters -> their loss on samples of the server's own, a scalar, for rules that
        ask for it; in JAX.

    Returns:
      One tree of the structure, dtype and kind (NumPy or JAX) of a row.

    Raises:
      ScenarioError: for a list that cannot run, fewer reporting rows than it needs, or nothing
        where it asks for losses or for the server's own update.

    >>> aggregate("median", [[1.0], [2.0], [30.0]]).tolist()
    [2.0]
    """
    try:
        prepared = _aggregation(tuple(map(HashableSection, checked_links("server", server))))
    except OrderError as error:
        raise ScenarioError([Problem("server", str(error))], "aggregate") from None
    stack = arrays_of(deltas)
    w = weights_of("aggregate", weights, tree.rows(stack))
    _require_rows(prepared, w)
    _require_needs(
        "aggregate", "server", prepared, loss=loss, reference=reference, server_loss=server_loss
    )
    known = Known(
        own_update("aggregate", reference, stack), server_loss and as_server_loss(server_loss)
    )
    if loss is not None and np.shape(loss) != w.shape:
        text = f"{len(w)} rows need {len(w)} losses, found shape {list(np.shape(loss))}"
        raise ScenarioError([Problem("loss", text)], "aggregate")
    return _on_device(
        prepared.function, stack, w, seed, params=params, known=known, lr=lr, loss=loss
    )


def transmit(
    wire: Any,
    deltas: Tree,
    *,
    weights: Any = None,
    malicious: Any = None,
    seed: int = 0,
    params: Tree | None = None,
    defence: Any = "mean",
    reference: Tree | None = None,
    server_loss: Callable[[Tree], Any] | None = None,
) -> tuple[Tree, np.ndarray]:
    """Any wire list on your own stacked updates: what arrives of them, and what it takes.

    Args:
      wire: a kind, a link, or a list of attacks and stages.
      deltas: as in `aggregate`.
      weights: sample counts `[K]`; 0 = does not take part.
      malicious: mask `[K]` (or ids) of the rows an attack controls; nobody if left out.
      seed: of links that draw.
      params: the shared parameters; zeros if left out.
      defence: a server list, for attacks that know what they attack: its stages and its rule,
        fresh.
      reference: for a defence that asks for it, as in `aggregate`.
      server_loss: likewise.

    Returns:
      The updates as they arrive, stacked as they were, and the bytes of each client's message
      `[K]`.

    Raises:
      ScenarioError: for a list that cannot run.

    >>> updates = [[1.0, 2.0], [3.0, 4.0]]
    >>> arrived, sent = transmit({"kind": "sign_flip", "scale": 2}, updates, malicious=[1])
    >>> arrived.tolist(), sent.tolist()
    ([[1.0, 2.0], [-6.0, -8.0]], [8, 8])
    """
    links, against = (
        tuple(map(HashableSection, checked_links(*part)))
        for part in (("wire", wire), ("server", defence))
    )
    prepared = _transmission(links, against)
    stack = arrays_of(deltas)
    K = tree.rows(stack)
    w, mask = weights_of("transmit", weights, K), mask_of(malicious, K)
    _require_rows(prepared, w)
    _require_needs("transmit", "defence", prepared, reference=reference, server_loss=server_loss)
    known = Known(
        own_update("transmit", reference, stack), server_loss and as_server_loss(server_loss)
    )
    arrived, sent = _on_device(
        prepared.function, stack, w, seed, params=params, known=known, malicious=mask
    )
    return arrived, np.asarray(sent, np.int64)


class Known(NamedTuple):
    """What the server makes of samples of its own."""

    reference: Tree | None = None
    loss: ServerLoss | None = None


class Prepared(NamedTuple):
    """A list of links, ready for stacks of any shape."""

    scenario: Scenario  # whose document says where a problem is; there is nothing else in it
    links: list[tuple[Path, Any, Any]]  # (path, section, what its factory made) of every link
    function: Callable[[Updates, Context], Tree]  # compiled, (updates, context) -> tree
    needs: frozenset[str] = frozenset()  # what the rule asks for


@functools.lru_cache(KEPT)
def _aggregation(server: tuple[HashableSection, ...]) -> Prepared:
    """A server list, made once: the links of a fresh server, behind an empty wire."""
    at = index_of_rule([w.section for w in server])
    scenario, links = _links("aggregate", "server", server)
    stages, rule, steps, tail = ServerLinks.of([link for _, _, link in links], at)
    pipeline = Pipeline([], stages, rule, steps, sgd(), drop=False)
    optimiser = server_step(*tail)

    def reduce(updates: Updates, context: Context) -> Tree:
        _check_hooks(scenario, links, updates, context)
        params = context.shared["params"]
        updates = updates._replace(memory=fresh_rows(pipeline.remembering, context))
        state = pipeline.init(params, jnp.ones_like(updates.arrived))
        travelled, reduced = pipeline.over(updates, state, lambda phase: context)
        step, _ = optimiser.apply(reduced.aggregate, optimiser.init(params), params)
        skipped = pipeline.skips(jnp.sum(travelled.kept.arrived))
        return tree.select(skipped, tree.zeros_like(step), step)

    return Prepared(scenario, links, jax.jit(reduce), rule.needs)


@functools.lru_cache(KEPT)
def _transmission(
    wire: tuple[HashableSection, ...], server: tuple[HashableSection, ...]
) -> Prepared:
    """A wire list, made once, before the defence of a server list."""
    at = index_of_rule([w.section for w in server])
    scenario, links = _links("transmit", "wire", wire)
    _, defence = _links("transmit", "defence", server)
    made = [
        link._replace(linear=False) if isinstance(link, Codec) else link for _, _, link in links
    ]
    stages, rule, _, _ = ServerLinks.of([link for _, _, link in defence], at)
    pipeline = Pipeline(made, stages, rule, [], sgd(), drop=False)
    remembering = {
        name: link for name, link in pipeline.remembering.items() if name in pipeline.wire_names
    }

    def send(updates: Updates, context: Context) -> Tree:
        _check_hooks(scenario, links, updates, context)
        updates = updates._replace(memory=fresh_rows(remembering, context))
        state = pipeline.init(context.shared["params"], jnp.ones_like(updates.arrived))
        arrived, _, _, _ = pipeline.arrive(updates, state, lambda phase: context)
        return arrived.delta, arrived.bytes

    return Prepared(scenario, links, jax.jit(send), rule.needs if pipeline.aims else frozenset())


def _links(
    of: str, name: str, written: tuple[HashableSection, ...]
) -> tuple[Scenario, list[tuple[Path, Any, Any]]]:
    """What the factories of a list make, each with its path.

    Raises:
      ScenarioError: for hyper-parameters that a factory refuses.
    """
    scenario, links = Scenario(None, Document({}, {}, of)), []
    for i, section in enumerate(w.section for w in written):
        try:
            links.append(((name, i), section, make_link(scenario, (name, i), section)))
        except LinkError as error:
            raise scenario.error((name, i), str(error)) from error
    return scenario, links


def _check_hooks(
    scenario: Scenario, links: list[tuple[Path, Any, Any]], updates: Updates, context: Context
) -> None:
    """Links of the user's own keep their contract: checked while the list is compiled, so once for
    a shape.
    """
    for path, section, made in links:
        check_link(scenario, path, section, made, (updates, context, updates.arrived), types=False)


def _require_needs(of: str, where: str, prepared: Prepared, **given: Any) -> None:
    """Refuse to leave out what a rule asks for.

    Raises:
      ScenarioError: naming the argument.
    """
    for name in sorted(prepared.needs & given.keys()):
        if given[name] is None:
            text = f"a rule of the list asks for {NEEDED[name]}; pass {name}="
            raise ScenarioError([Problem(where, text)], of)


def _require_rows(prepared: Prepared, weights: np.ndarray) -> None:
    """Refuse fewer reporting rows than a link needs, naming it and the hyper-parameter that
    decides.

    Raises:
      ScenarioError: for some rows, but too few; none at all change nothing.
    """
    rows = int((weights > 0).sum())
    for path, section, made in prepared.links:
        least, bounds = getattr(made, "least", 1), bounds_of(section)
        if 0 < rows < least:
            given = ", ".join(f"{name}={getattr(section, name)}" for name in bounds)
            kind = f"{section.kind}({given})" if given else section.kind
            instead = (
                f"lower {' or '.join(bounds)}, or give more rows" if bounds else "give more rows"
            )
            text = f"{kind}: {rows} rows reported, at least {least} are needed; {instead}"
            raise prepared.scenario.error((*path, *bounds[:1]), text)
        most = made.most if isinstance(made, Rule) else None
        if most is not None and rows > most:
            text = (
                f"{at_most(section, most)}, and {rows} rows reported; lower f, or give fewer rows"
            )
            raise prepared.scenario.error((*path, *bounds[:1]), text)


def _on_device(
    function: Callable,
    stack: Tree,
    weights,
    seed: int,
    *,
    params=None,
    known=Known(),  # noqa: B008 (immutable)
    malicious=None,
    lr=1.0,
    loss=None,
) -> Tree:
    """Run `(updates, context) -> tree` in the stack's own float type; NumPy in, NumPy out."""
    host = not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(stack))
    double = any(np.dtype(leaf.dtype) == np.float64 for leaf in jax.tree.leaves(stack))
    with jax.enable_x64(double):
        # for all but the stack: every operation of JAX's is one more program to compile
        on_host: Any = np
        dtype: Any = np.float64 if double else np.float32
        stack = jax.tree.map(jnp.asarray, stack)
        K, row = (
            tree.rows(stack),
            jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), stack),
        )
        w, one = on_host.asarray(weights, dtype), on_host.ones(K, dtype)
        updates = Updates(
            delta=stack,
            stats={},
            aux={},
            arrived=w > 0,
            samples=w,
            count=one,
            loss=on_host.full(K, np.nan, dtype) if loss is None else on_host.asarray(loss, dtype),
            steps=one,
            effort=one,
            memory=(),
            bytes=on_host.full(K, tree.payload_bytes(row), on_host.int32),
            age=on_host.zeros(K, on_host.int32),
        )
        context = Context(
            key=jax.random.key(seed),
            round=on_host.int32(1),
            N=dtype(K),
            lr=dtype(lr),
            shared={
                "params": row if params is None else jax.tree.map(jnp.asarray, arrays_of(params))
            },
            ids=on_host.arange(K),
            malicious=on_host.zeros(K, bool) if malicious is None else on_host.asarray(malicious),
            reference=jax.tree.map(jnp.asarray, known.reference),
            expected=dtype(K),
            expected_samples=w.sum(),
            share=one,
            server_loss=known.loss,
        )
        out = function(updates, context)
        return jax.tree.map(np.asarray, out) if host else out
