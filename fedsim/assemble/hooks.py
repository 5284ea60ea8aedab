"""Links that fedsim did not bring: their hooks are checked by shapes before anything is trained."""

import contextlib
import inspect
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from fedsim.assemble.links import factory_of
from fedsim.assemble.programs import HashableSection, Training
from fedsim.compose import FAMILIES
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
from fedsim.engine.shared_leaves import sent
from fedsim.errors import HookError, ScenarioError, dotted
from fedsim.fleet import Cohort, Local, Timetable
from fedsim.scenario.diagnostics import problem_at
from fedsim.scenario.reader import Path
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
SOUND: set[Hashable] = (
    set()
)  # checks that were passed: a comparison has many cells with the same links
NOUNS = {
    "client": (Client, "types.Client"),
    "cohort": (Cohort, "fleet.selection.Cohort"),
    "skew": (Skew, "data.Skew"),
    "data_attack": (Poison, "data.Poison"),
    "timetable": (Timetable, "fleet.Timetable"),
}  # what factories make, and its name
MOST_ROWS = (
    1000  # of the stack that a rule is shown: one that loops over its rows would take long for more
)


def own_file(section: Any) -> str | None:
    """The file that defines a section's kind; None for the kinds of fedsim."""
    factory = inspect.unwrap(FAMILIES[section.family][section.kind])
    if factory.__module__.startswith("fedsim."):
        return None
    return getattr(getattr(factory, "__code__", None), "co_filename", "")


@contextlib.contextmanager
def located_hooks(scenario: Scenario, path: Path, section: Any) -> Iterator[str | None]:
    """Yields `own_file(section)`; where there is one, whatever goes wrong inside is a line with place, file and line.

    Raises:
      ScenarioError: for hooks that return something else than their callers take.
      HookError: for hooks that fail.
    """
    if (file := own_file(section)) is None:
        yield None
        return
    try:
        with reported(file):
            yield file
    except ContractError as error:
        raise hook_error(scenario, path, section.kind, error) from error


def hook_error(scenario: Scenario, path: Path, name: str, error: ContractError) -> ScenarioError:
    """A broken contract at its place, as `server[0] midrange: returned ...`; that of a hook that failed has its traceback."""
    where = " ".join(part for part in (dotted(path), name) if part)
    problem = problem_at(scenario.document, path, "")._replace(where=where, what=str(error))
    if not error.raised or error.__cause__ is None:
        return ScenarioError([problem], scenario.document.file)
    return HookError([problem], scenario.document.file).with_traceback(
        error.__cause__.__traceback__
    )


def make_link(
    scenario: Scenario, path: Path, section: Any, file: Mapping[str, str] | None = None
) -> Any:
    """What the factory of a section makes.

    Args:
      scenario: whose document knows its place.
      path: of the section.
      section: whose keys are the factory's arguments.
      file: key of the section -> where the file lies that it names.

    Raises:
      LinkError: for hyper-parameters that it refuses.
      ScenarioError: for one that fedsim did not bring and that makes something else.
    """
    with located_hooks(scenario, path, section) as source:
        made = factory_of(section)(**(file or {}))
        noun, name = NOUNS.get(section.family, (object, ""))
        if source is not None and not isinstance(made, noun):
            raise ContractError(f"made {type(made).__name__}, needed is a fedsim.{name}")
        return made


def check_link(
    scenario: Scenario, path: Path, section: Any, made: Any, shapes: tuple, types: bool = True
) -> None:
    """A link of `wire` or `server` that fedsim did not bring keeps its contract.

    Args:
      scenario: whose document knows its place.
      path: of the link.
      section: of the link.
      made: what its factory made; optimisers are optax's affair.
      shapes: as `line_shapes` makes them.
      types: whether a rule must keep the dtype.

    Raises:
      ScenarioError: where it does not.
    """
    updates, context, present = shapes
    with located_hooks(scenario, path, section) as file:
        if file is None or (key := _key(section, types, shapes)) in SOUND:
            return
        if isinstance(made, Rule):
            check_rule(made, updates, context, present, file, types)
        elif isinstance(made, Codec):
            check_codec(made, updates, file)
        elif isinstance(made, AggregateStage):
            check_aggregate_stage(made, updates, context, present, file)
        elif isinstance(made, Stage | RowStage | Aim):
            check_stage(made, updates, context, present, file)
        SOUND.add(key)


def check_training(
    scenario: Scenario, trained: Training, shared: Any, federation: Federation, local: Local
) -> None:
    """A client method that fedsim did not bring keeps its contract on a batch.

    Raises:
      ScenarioError: where it does not.
    """
    with located_hooks(scenario, ("client",), scenario.spec.client) as file:
        batch, work = training_shapes(scenario, trained, federation, local.widest(federation.sizes))
        if (
            file is None
            or (key := _key(scenario.spec.client, trained.task, (shared, batch, work))) in SOUND
        ):
            return
        check_client(trained.client, trained.task, shared, batch, work, file)
        SOUND.add(key)


def shared_leaves(scenario: Scenario, trained: Training, shapes: Any) -> Any:
    """Shapes of what travels of the start variables: of all of them, or of those that the client method shares.

    Raises:
      ScenarioError: for a choice that the model's leaves do not allow.
    """
    section = scenario.spec.client
    try:
        with located_hooks(scenario, ("client",), section):
            check_shares(trained.client, shapes["params"])
    except ScenarioError:
        raise
    except ValueError as error:
        raise scenario.error(("client",), f"{section.kind}: {error}") from None
    return sent(trained.client, shapes)


def check_augmentation(scenario: Scenario, i: int, section: Any, federation: Federation) -> None:
    """An augmentation makes an image of an image.

    Raises:
      ScenarioError: for samples that are no images, and for one that gives something else, or refuses them.
    """
    f, path = federation, ("data", "augment", i)
    shape = f.train.x.shape[1:]
    if len(shape) not in (2, 3) or f.vocabulary:
        features = "are tokens" if f.vocabulary else f"have shape {shape}"
        text = f"{section.kind} is for images [height, width, channels], and these samples {features}; take it out"
        raise scenario.error(path, text)
    change = make_link(scenario, path, section)
    try:
        with located_hooks(scenario, path, section):
            image = Shape(shape, f.train.x.dtype)
            require_like(
                jax.eval_shape(change, jax.eval_shape(jax.random.key, 0), image), image, "the image"
            )
    except ScenarioError:
        raise
    except ValueError as error:
        raise scenario.error(path, f"{section.kind}: {error}") from None


def _key(section: Any, about: Any, shapes: Any) -> Hashable:
    """Everything that a check depends on."""
    leaves, structure = jax.tree.flatten(shapes)
    return (
        HashableSection(section),
        about,
        structure,
        tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves),
    )


def training_shapes(
    scenario: Scenario, trained: Training, federation: Federation, rows: int
) -> tuple[Batch, Work]:
    """Shapes of a batch of so many rows, and of what a client knows about its work."""
    f, number, count = (
        federation,
        Shape((), np.dtype(scenario.spec.numerics.dtype)),
        Shape((), np.int32),
    )
    x, y = (Shape((rows, *part.shape[1:]), part.dtype) for part in (f.train.x, f.train.y))
    key = jax.eval_shape(jax.random.key, 0)
    labels = Shape((f.classes if "labels" in trained.client.needs else 0,), number.dtype)
    batch = Batch(x=x, y=y, mask=Shape((rows,), np.bool_), key=key, step=count)
    flag = Shape((), np.bool_)
    return batch, Work(
        count, samples=number, steps=count, lr=number, lr_sum=number, labels=labels, malicious=flag
    )


def line_shapes(
    scenario: Scenario, trained: Training, shared: Any, K: int, N: int
) -> tuple[Updates, Context, Any]:
    """Shapes of a stack of K messages, of what wire and server may know about it, and of the mask of all clients."""
    K, dtype = min(K, MOST_ROWS), np.dtype(scenario.spec.numerics.dtype)
    number, numbers = Shape((), dtype), Shape((K,), dtype)
    reduced = [name for name, how in trained.client.reduce.items() if not callable(how)]
    sent = {name: shared["aux"][name] for name in reduced if name in shared["aux"]}
    stacked = lambda tree: jax.tree.map(lambda leaf: Shape((K, *leaf.shape), leaf.dtype), tree)
    updates = Updates(
        delta=stacked(shared["params"]),
        stats=stacked(shared["stats"]),
        aux=stacked(sent),
        arrived=Shape((K,), np.bool_),
        samples=numbers,
        count=numbers,
        loss=numbers,
        steps=numbers,
        effort=numbers,
        memory=(),
        bytes=Shape((K,), np.int32),
        age=Shape((K,), np.int32),
    )
    context = Context(
        key=jax.eval_shape(jax.random.key, 0),
        round=Shape((), np.int32),
        N=number,
        lr=number,
        shared=shared,
        ids=Shape((K,), np.int32),
        malicious=Shape((K,), np.bool_),
        samples=number,
        expected=number,
        expected_samples=number,
        share=numbers,
    )
    return updates, context, Shape((N,), np.bool_)
