"""The schema of a scenario, taken from the signatures of the factories it names.

Every `kind` of a family becomes one strict model whose fields are the factory's annotated parameters, and a section is
the union of them, told apart by `kind`. There is no second list of fields anywhere.
"""

import hashlib
import inspect
import itertools
import json
import types
import typing
from collections.abc import Callable
from pathlib import Path as File
from typing import Annotated, Any, Literal, NamedTuple, Union

import yaml
from annotated_types import Ge, Lt, MinLen
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model, model_validator

import fedsim.clients
import fedsim.data
import fedsim.fleet
import fedsim.models
import fedsim.rules  # noqa: F401 (importing a family registers its members)
from fedsim.compose import FAMILIES
from fedsim.scenario.problems import Problem, ScenarioError, did_you_mean, dotted
from fedsim.scenario.reader import Document, Path, parse

Count = Annotated[int, Ge(1)]
Seed = Annotated[int, Ge(0), Lt(2**32)]
NOT_NAMES = {"na", "nan", "null", "none", "n-a"}  # CSV readers turn these into missing values


class Section(BaseModel):
    """A mapping with known keys of exact types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)


class DataCommon(Section):
    clients: Count = 100
    """How many clients the training samples are dealt to."""
    partition: Any = {"kind": "iid"}
    """Who holds what."""
    test: Annotated[float, Ge(0), Lt(1)] = 0.2
    """Share of the samples to test on, stratified by label."""
    seed: Seed = 0
    """Of sets, generators and the test split; the run's seed does not change them."""


class ClientCommon(Section):
    lr: Annotated[float, Ge(0)] = 0.1
    """Client learning rate η_l."""
    batch: Count | Literal["full"] = 16
    """Samples per step; `full` = all of the client's."""
    steps: Count | Annotated[list[Count], MinLen(1)] | None = None
    """Local steps per round, one number or one per client."""
    epochs: Count | None = None
    """Passes over the client's samples per round (1 unless `steps` is given)."""
    shuffle: bool = True
    """New order of samples every epoch."""
    drop_last: bool = False
    """Leave a short last batch out (a client with fewer samples than `batch` keeps its only one)."""
    optimizer: Any = {"kind": "sgd"}
    """Any optax optimizer, with its other hyper-parameters; its state starts afresh each round."""

    @model_validator(mode="after")
    def _steps_or_epochs(self):
        if self.steps is not None and self.epochs is not None:
            raise ValueError("steps and epochs are both given; a client trains for one or the other")
        if self.steps is None and self.epochs is None:
            self.epochs = 1
        return self


class Evaluate(Section):
    every: Count = 1
    """Evaluate every so many rounds (round 0 and the last one always)."""
    last: Count = 10
    """How many last evaluated rows `mean_last_k` is over."""
    metric: Literal["test_accuracy", "test_loss", "train_loss"] = "test_accuracy"
    """What `summary.csv` is about; falls back to `test_loss` where there is no accuracy."""
    target: float | None = None
    """Metric value to reach."""


class Numerics(Section):
    dtype: Literal["float32", "float64"] = "float32"
    """Float type of everything that is computed."""
    lanes: Count | Literal["auto"] = "auto"
    """Width of the vmapped axis."""
    block: Count | Literal["auto"] = "auto"
    """Rows of the stack."""
    matmul_precision: Literal["highest", "high", "default"] = "highest"
    """Of matrix products on accelerators; `default` allows TF32."""


class Scenario(NamedTuple):
    """A scenario that was read and understood.

    Attributes:
      spec: the typed sections, every default filled in.
      document: values and places as written.
    """

    spec: Any
    document: Document

    def resolved(self) -> dict[str, Any]:
        """Plain values, every default filled in; reading them again gives the same."""
        return _kind_first(self.spec.model_dump(mode="json"))

    def hash(self) -> str:
        """SHA-256 of the resolved values."""
        return hashlib.sha256(json.dumps(self.resolved(), sort_keys=True).encode()).hexdigest()

    def error(self, path: Path, what: str) -> ScenarioError:
        """A problem at a path of this scenario, as an exception."""
        return ScenarioError([_problem(self.document, path, what)], self.document.file)


def read(source: Any, edits: tuple[str, ...] = ()) -> Scenario:
    """A path, text in a dictionary, or a Scenario -> a checked Scenario.

    Args:
      source: what to read.
      edits: `PATH=VALUE` as of `--set`, applied left to right.

    Raises:
      ScenarioError: with every problem found.
      OSError: when the file cannot be read.
    """
    if isinstance(source, Scenario):
        source = source.document if edits else source
    if isinstance(source, Scenario):
        return source
    if isinstance(source, Document):
        document = source
    elif isinstance(source, dict):
        document = parse(yaml.safe_dump(source, sort_keys=False, default_flow_style=None), "scenario")
        document = document._replace(places={})
    else:
        try:
            document = parse(File(source).read_text(encoding="utf-8"), str(source))
        except UnicodeDecodeError as error:
            raise ScenarioError(
                [Problem("", f"not UTF-8 text: {error.reason} at byte {error.start}")], str(source)
            ) from None
    for edit in edits:
        document = edited(document, edit)
    model = scenario_model()
    try:
        return Scenario(model.model_validate(document.values), document)
    except ValidationError as error:
        raise ScenarioError(_explain(document, model, error.errors()), document.file) from None


def edited(document: Document, edit: str) -> Document:
    """The document after `PATH=VALUE`; setting one of `steps` and `epochs` removes the other."""
    path_text, equals, value_text = edit.partition("=")
    if not equals or not path_text:
        raise ScenarioError([Problem("", f"--set {edit}: write PATH=VALUE")], document.file)
    path = tuple(int(p) if p.isdigit() else p for p in path_text.replace("[", ".").replace("]", "").split("."))
    value = parse(f"value: {value_text}", f"--set {path_text}").values["value"]
    values = json.loads(json.dumps(document.values))
    here = values
    for part, then in itertools.pairwise(path):
        if isinstance(here, dict) and isinstance(part, str):
            here = here.setdefault(part, [] if isinstance(then, int) else {})
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        else:
            raise ScenarioError([Problem(dotted(path), f"--set: there is no '{part}' to set in")], document.file)
        if isinstance(here, str):
            raise ScenarioError([Problem(dotted(path), f"--set: '{part}' is the word '{here}' here")], document.file)
    last = path[-1]
    if isinstance(here, dict) and isinstance(last, str):
        other = {"steps": "epochs", "epochs": "steps"}.get(last)
        if path[:-1] == ("client",) and other:
            here.pop(other, None)
        here[last] = value
    elif isinstance(here, list) and isinstance(last, int) and last <= len(here):
        here[last:] = [value, *here[last + 1 :]]
    else:
        raise ScenarioError([Problem(dotted(path), f"--set: there is no '{last}' to set")], document.file)
    places = {p: place for p, place in document.places.items() if p[: len(path)] != path}
    return Document(values, places, document.file)


def scenario_model() -> type[BaseModel]:
    """The model of a whole scenario, from what is registered now."""
    Data = union("dataset", DataCommon, partition=(union("partition"), {"kind": "iid"}))
    Client = union("client", ClientCommon, "sgd", optimizer=(union("optimizer", without=("lr",)), {"kind": "sgd"}))
    fields: dict[str, Any] = {
        "name": (Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")], ...),
        "rounds": (Annotated[int, Ge(0)], 100),
        "seeds": (Annotated[list[Seed], MinLen(1), BeforeValidator(_first_seeds)], [0]),
        "data": (Data, ...),
        "model": (union("model"), {"kind": "logistic"}),
        "cohort": (union("cohort"), {"kind": "all"}),
        "client": (Client, {"kind": "sgd"}),
        "server": (Annotated[list[union("rule", also=("optimizer",))], MinLen(1)], [{"kind": "mean"}]),
        "evaluate": (Evaluate, {}),
        "numerics": (Numerics, {}),
        "on_nonfinite": (Literal["drop", "stop", "keep"], "drop"),
    }
    return create_model("Scenario", __base__=Section, **_validated(fields))


def union(family: str, common: type[Section] = Section, kind: str = "", also=(), without=(), **typed: Any) -> Any:
    """All kinds of a family as one type: a mapping with `kind`, or the bare name of a kind."""
    members = {**FAMILIES[family]}
    for other in also:
        members |= FAMILIES[other]
    models = [_kind_model(name, factory, common, without, typed) for name, factory in members.items()]

    def spelled_out(value: Any) -> Any:
        if isinstance(value, str):
            return {"kind": value}
        return {"kind": kind, **value} if kind and isinstance(value, dict) else value

    # a union of one is no union: the second, empty member keeps pydantic's errors alike
    joined = Union[tuple(models)] if len(models) > 1 else Union[models[0], _Nothing]  # noqa: UP007 (made from a list)
    return Annotated[joined, Field(discriminator="kind"), BeforeValidator(spelled_out)]


class _Nothing(Section):
    kind: Literal[""]


def _kind_model(name: str, factory: Callable, common: type[Section], without, typed) -> type[BaseModel]:
    fields: dict[str, Any] = {"kind": (Literal[name], ...)}
    for parameter in inspect.signature(factory, eval_str=True).parameters.values():
        if parameter.name not in without:
            fields[parameter.name] = (
                parameter.annotation,
                ... if parameter.default is parameter.empty else parameter.default,
            )
    fields |= typed
    body = {"__module__": __name__, "__annotations__": {n: t for n, (t, _) in fields.items()}}
    body["model_config"] = ConfigDict(use_attribute_docstrings=False)  # made here: there is no source to read them from
    return types.new_class(
        name,
        (common,),
        {},
        lambda namespace: namespace.update(
            {**body, **{n: f for n, (_, f) in _validated(fields).items() if f is not ...}}
        ),
    )


def _validated(fields: dict[str, Any]) -> dict[str, Any]:
    """Defaults are checked and spelled out like anything else."""
    return {n: (t, d if d is ... else Field(default=d, validate_default=True)) for n, (t, d) in fields.items()}


def _first_seeds(value: Any) -> Any:
    return list(range(value)) if isinstance(value, int) and not isinstance(value, bool) else value


def _explain(document: Document, model: type[BaseModel], errors: list[Any]) -> list[Problem]:
    """Pydantic's errors in our words, one line per place in the file."""
    found: dict[Path, list[str]] = {}
    values: dict[Path, Any] = {}
    for error in errors:
        path, keys = _walk(model, error["loc"])
        match error["type"]:
            case "extra_forbidden":
                path, what = (*path, "<key>"), f"unknown key{did_you_mean(path[-1], keys)}"
            case "missing":
                what = "is required"
            case "union_tag_invalid":
                tag, known = error["ctx"]["tag"], error["ctx"]["expected_tags"].split(", ")
                path, what = (
                    (*path, "kind"),
                    f"no such kind '{tag}'{did_you_mean(tag, {k.strip(chr(39)) for k in known} - {''})}",
                )
            case "union_tag_not_found":
                what = "needs a kind: write {kind: ...} or the name alone"
            case "value_error":
                what = str(error["ctx"]["error"])
            case _:
                what = error["msg"].replace("Input should be ", "should be ").replace("String should", "should")
                values[path] = error["input"]
        found.setdefault(path, []).append(what)
    return [_problem(document, path, _joined(whats, values, path)) for path, whats in found.items()]


def _joined(whats: list[str], values: dict[Path, Any], path: Path) -> str:
    text = " or ".join(dict.fromkeys(w if i == 0 else w.removeprefix("should be ") for i, w in enumerate(whats)))
    return f"{text}, found {_short(values[path])}" if path in values else text


def _kind_first(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key != "kind")  # stable: the others keep their order
        return {key: _kind_first(value[key]) for key in keys}
    return [_kind_first(item) for item in value] if isinstance(value, list) else value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _problem(document: Document, path: Path, what: str) -> Problem:
    above = path
    while above and above not in document.places:
        above = above[:-1]
    return Problem(dotted(part for part in path if part != "<key>"), what, *document.places.get(above, (None, None)))


def _walk(model: Any, loc: tuple, path: Path = ()) -> tuple[Path, list[str]]:
    """A pydantic location -> the path in the file (without the names of union branches) and the keys known there."""
    origin, arguments = typing.get_origin(model), typing.get_args(model)
    if origin is Annotated:
        return _walk(arguments[0], loc, path)
    if isinstance(model, type) and issubclass(model, BaseModel):
        known = list(model.model_fields)
        if not loc or loc[0] not in known:
            return (*path, *loc[:1]), known
        return _walk(model.model_fields[loc[0]].annotation, loc[1:], (*path, loc[0]))
    if origin is list and loc:
        return _walk(arguments[0], loc[1:], (*path, loc[0]))
    if origin in (Union, types.UnionType):
        for member in arguments:
            if loc and getattr(member, "__name__", None) == loc[0]:
                return _walk(member, loc[1:], path)
    return (*path, *(part for part in loc if isinstance(part, int))), []
