"""Links of the user's: their hooks are checked by shapes before anything is trained."""

import contextlib
import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim.assemble.links import Link, factory_of
from fedsim.assemble.programs import Training
from fedsim.compose import FAMILIES, plain_context, plain_updates
from fedsim.compose.contract import (
    check_aggregate_stage,
    check_client,
    check_codec,
    check_rule,
    check_shares,
    check_stage,
)
from fedsim.compose.shapes import ContractError, reported, require_like
from fedsim.data import Federation, Poison, Skew
from fedsim.engine.frozen import bound, merged_section, without_frozen
from fedsim.engine.shared_leaves import sent_variables
from fedsim.errors import HookError, ScenarioError, dotted
from fedsim.fleet import Cohort, Local, Timetable
from fedsim.scenario.diagnostics import problem_at
from fedsim.scenario.reader import KeyPath
from fedsim.scenario.scenario import Scenario
from fedsim.types import (
    AggregateStage,
    Aim,
    Batch,
    Client,
    Codec,
    Context,
    RowStage,
    Rule,
    Stage,
    Updates,
    Work,
)

Shape: Any = jax.ShapeDtypeStruct

# family -> what its factories return, and the name of that in `fedsim`
RETURNED = {
    "client": (Client, "types.Client"),
    "cohort": (Cohort, "fleet.selection.Cohort"),
    "skew": (Skew, "data.Skew"),
    "data_attack": (Poison, "data.Poison"),
    "timetable": (Timetable, "fleet.Timetable"),
}

# Rows of the stack that a rule is traced on: one that loops over its rows takes long for more.
MAX_ROWS = 1000


class StackShapes(NamedTuple):
    """Shapes of what links of `wire` and `server` work on."""

    updates: Updates  # of a stack [K, ...]
    context: Context
    present: Any  # of the mask of all clients [N]


def user_file(section: Any) -> str | None:
    """Return the file that defines a section's kind; None for the kinds of fedsim.

    It is empty for a user's kind whose file is unknown.
    """
    factory = inspect.unwrap(FAMILIES[section.family][section.kind])
    if factory.__module__.startswith("fedsim."):
        return None
    return getattr(getattr(factory, "__code__", None), "co_filename", "")


@contextlib.contextmanager
def located_hooks(scenario: Scenario, path: KeyPath, section: Any) -> Iterator[str | None]:
    """Report what goes wrong inside a user's kind as a line with path, file and line.

    Yields:
      `user_file(section)`.

    Raises:
      HookError: for hooks that fail.
    """
    file = user_file(section)
    if file is None:
        yield None
        return
    try:
        with reported(file):
            yield file
    except ContractError as error:
        raise hook_error(scenario, path, section.kind, error) from error


def hook_error(scenario: Scenario, path: KeyPath, name: str, error: ContractError) -> ScenarioError:
    """Return a broken contract as an error at its path, `server[0] midrange: returned ...`.

    The error of a hook that failed has the hook's traceback.
    """
    where = f"{dotted(path)} {name}".strip()
    problem = problem_at(scenario.document, path, "")._replace(where=where, what=str(error))
    file = scenario.document.file
    if error.raised and error.__cause__ is not None:
        return HookError([problem], file).with_traceback(error.__cause__.__traceback__)
    return ScenarioError([problem], file)


def make_link(
    scenario: Scenario, path: KeyPath, section: Any, file: Mapping[str, str] | None = None
) -> Any:
    """Return what the factory of a section makes.

    Args:
      file: `{"path": PATH}`, where the section names a file.

    Raises:
      LinkError: for hyper-parameters that the factory refuses.
    """
    with located_hooks(scenario, path, section) as source:
        made = factory_of(section)(**(file or {}))
        expected, name = RETURNED.get(section.family, (object, ""))
        if source is not None and not isinstance(made, expected):
            raise ContractError(f"returned {type(made).__name__}; expected a fedsim.{name}")
        return made


def check_link(scenario: Scenario, link: Link, shapes: StackShapes, types: bool = True) -> None:
    """Check that a user's link of `broadcast`, `wire` or `server` keeps its contract.

    Optimisers are left to optax.
    """
    updates, context, present = shapes
    made = link.made
    with located_hooks(scenario, link.path, link.section) as file:
        if file is None:
            return
        if isinstance(made, Rule):
            check_rule(made, updates, context, present, file, types)
        elif isinstance(made, Codec):
            check_codec(made, updates, file)
        elif isinstance(made, AggregateStage):
            check_aggregate_stage(made, updates, context, present, file)
        elif isinstance(made, Stage | RowStage | Aim):
            check_stage(made, updates, context, present, file)


def check_training(
    scenario: Scenario, trained: Training, shared: Any, federation: Federation, local: Local
) -> None:
    """Check that a user's client method keeps its contract on a batch."""
    section = scenario.spec.client
    with located_hooks(scenario, ("client",), section) as file:
        rows = local.widest(federation.sizes)
        batch, work = training_shapes(scenario, trained, federation, rows)
        if file is None:
            return
        shared, frozen = without_frozen(shared)
        task = bound(trained.task, *jax.tree.map(_zeros, (frozen, merged_section(shared))))
        check_client(trained.client, task, shared, batch, work, file)


def _zeros(shape: Any) -> np.ndarray:
    """An array of zeros that takes no memory, for programs that are traced and never run."""
    return np.broadcast_to(np.zeros((), shape.dtype), shape.shape)


def shared_leaves(scenario: Scenario, trained: Training, shapes: Any) -> Any:
    """Return the shapes of the start variables that travel: those that the client method shares."""
    section = scenario.spec.client
    shapes, _ = without_frozen(shapes)
    try:
        with located_hooks(scenario, ("client",), section):
            check_shares(trained.client, shapes["params"])
            # What a client remembers may depend on the names of the leaves as well.
            jax.eval_shape(trained.client.memory, shapes, jax.eval_shape(jax.random.key, 0))
    except ScenarioError:
        raise
    except ValueError as error:
        raise scenario.error(("client",), f"{section.kind}: {error}") from None
    return sent_variables(trained.client, shapes)


def check_augmentation(scenario: Scenario, i: int, section: Any, federation: Federation) -> None:
    """Check that an augmentation makes an image of an image."""
    path = ("data", "augment", i)
    shape = federation.train.x.shape[1:]
    if federation.vocabulary or len(shape) not in (2, 3):
        features = "are tokens" if federation.vocabulary else f"have shape {shape}"
        text = f"{section.kind} is for images [height, width, channels]"
        raise scenario.error(path, f"{text}, and these samples {features}; remove it")

    change = make_link(scenario, path, section)
    image = Shape(shape, federation.train.x.dtype)
    key = jax.eval_shape(jax.random.key, 0)
    try:
        with located_hooks(scenario, path, section):
            require_like(jax.eval_shape(change, key, image), image, "the image")
    except ScenarioError:
        raise
    except ValueError as error:
        raise scenario.error(path, f"{section.kind}: {error}") from None


def training_shapes(
    scenario: Scenario, trained: Training, federation: Federation, rows: int
) -> tuple[Batch, Work]:
    """Return the shapes of a batch, and of what a client knows about its work."""
    x = federation.train.x
    y = federation.train.y
    integer = Shape((), np.int32)
    number = Shape((), np.dtype(scenario.spec.numerics.dtype))
    classes = federation.classes if "labels" in trained.client.needs else 0

    batch = Batch(
        x=Shape((rows, *x.shape[1:]), x.dtype),
        y=Shape((rows, *y.shape[1:]), y.dtype),
        mask=Shape((rows,), np.bool_),
        key=jax.eval_shape(jax.random.key, 0),
        step=integer,
    )
    work = Work(
        id=integer,
        samples=number,
        steps=integer,
        lr=number,
        lr_sum=number,
        labels=Shape((classes,), number.dtype),
        malicious=Shape((), np.bool_),
        phase_ends=Shape((len(trained.client.phases),), np.int32),
    )
    if trained.client.phases:
        work = work._replace(phase=integer, substep=integer)
    if trained.client.travel.part is not None:
        work = work._replace(level=integer, round=integer)
    return batch, work


def stack_shapes(scenario: Scenario, trained: Training, shared: Any, K: int, N: int) -> StackShapes:
    """Return the shapes of a stack of K messages, of the context and of the mask of all clients.

    Args:
      K: messages, of which at most MAX_ROWS are used.
    """
    K = min(K, MAX_ROWS)
    dtype = np.dtype(scenario.spec.numerics.dtype)
    number = Shape((), dtype)
    numbers = Shape((K,), dtype)
    integers = Shape((K,), np.int32)
    flags = Shape((K,), np.bool_)

    def stacked(tree):  # [...] -> [K, ...]
        return jax.tree.map(lambda leaf: Shape((K, *leaf.shape), leaf.dtype), tree)

    # Entries of `aux` that clients send; a reducer makes the others out of what the rule returns.
    reduced = [name for name, how in trained.client.reduce.items() if not callable(how)]
    aux = {name: shared["aux"][name] for name in reduced if name in shared["aux"]}

    updates = jax.eval_shape(plain_updates, stacked(shared["params"]), flags, numbers)
    updates = updates._replace(stats=stacked(shared["stats"]), aux=stacked(aux), memory=())

    key = jax.eval_shape(jax.random.key, 0)
    of_context = functools.partial(plain_context, dtype=dtype)
    context = jax.eval_shape(of_context, key, shared["params"], integers)._replace(
        shared=shared,
        samples=number,
        expected=number,
        expected_samples=number,
        share=numbers,
        scale=number,
        marked=flags,
    )
    return StackShapes(updates, context, present=Shape((N,), np.bool_))
