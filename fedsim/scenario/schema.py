"""The schema of a scenario, taken from the signatures of the factories it names.

Every `kind` of a family becomes one strict model whose fields are the factory's annotated parameters, and a section is
the union of them, told apart by `kind`. There is no second list of fields anywhere.
"""

import functools
import hashlib
import inspect
import json
import types
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union

from annotated_types import Ge, Le, Lt, MinLen
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator

import fedsim.clients
import fedsim.data
import fedsim.fleet
import fedsim.models
import fedsim.rules
import fedsim.stages  # noqa: F401 (importing a family registers its members)
from fedsim.compose import ALIASES, FAMILIES, registrations
from fedsim.scenario.explain import problem_at
from fedsim.scenario.problems import ScenarioError
from fedsim.scenario.reader import Document, Path

Count = Annotated[int, Ge(1)]
Seed = Annotated[int, Ge(0), Lt(2**32)]
NOT_NAMES = {"na", "nan", "null", "none", "n-a"}  # CSV readers turn these into missing values


class Section(BaseModel):
    """A mapping with known keys of exact types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True)


class DataCommon(Section):
    class Server(Section):
        samples: Annotated[int, Ge(0)] = 0
        """Training samples that no client gets and the server keeps, stratified by label."""

    clients: Count = 100
    """How many clients the training samples are dealt to."""
    partition: Any = {"kind": "iid"}
    """Who holds what."""
    test: Annotated[float, Ge(0), Lt(1)] = 0.2
    """Share of the samples to test on, stratified by label; data that brings a test set keeps its own."""
    validation: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of the training samples that no client gets, stratified by label: to choose hyper-parameters by."""
    client_test: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Share of every client's samples kept for its own scores; at least one stays to train on."""
    server: Server = Server()
    """The server's own samples."""
    resident_mb: Annotated[float, Ge(0)] = 4096.0
    """Training samples that lie on the device as a whole; more are handed over round by round, with the same result."""
    seed: Seed = 0
    """Of sets, generators and all splits but `client_test`; the run's seed does not change them."""


class ClientCommon(Section):
    lr: Any = 0.1
    """Client learning rate η_l: a number, or an optax schedule of rounds (or of local steps, see `lr_per`)."""
    lr_per: Literal["round", "step"] = "round"
    """What a schedule counts: rounds of the run, or local steps of the client's round."""
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
    """Any optax optimizer, with its other hyper-parameters."""
    optimizer_state: Literal["reset", "carry"] = "reset"
    """Whether the optimizer starts afresh each round, or goes on where the client's last round ended."""

    @model_validator(mode="after")
    def _steps_or_epochs(self):
        if self.steps is not None and self.epochs is not None:
            raise ValueError("steps and epochs are both given; a client trains for one or the other")
        if self.steps is None and self.epochs is None:
            self.epochs = 1
        return self


class ModelCommon(Section):
    loss: Literal["cross_entropy", "squared"] | None = None
    """What a row costs; left out: cross-entropy for classes, squared error for targets."""


class Fleet(Section):
    malicious: Annotated[float, Ge(0), Le(1)] | list[Annotated[int, Ge(0)]] = 0.0
    """Clients that the attacker controls: a share, drawn once per seed, or these."""


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
    threads: Count | Literal["auto"] = "auto"
    """Size of XLA's thread pool on CPUs, which changes bits of large products; a number gives the same on any cores."""
    matmul_precision: Literal["highest", "high", "default"] = "highest"
    """Of matrix products on accelerators; `default` allows TF32."""


class Checkpoint(Section):
    seconds: Annotated[float, Ge(0)] = 10.0
    """Time between commits; never so often that they take more than 2 % of it."""
    rounds: Count | None = None
    """Commit after every so many rounds as well."""
    resident_mb: Annotated[float, Ge(0)] = 256.0
    """Client memory that stays on the device; beyond it lives in a file of the run directory."""


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
        return ScenarioError([problem_at(self.document, path, what)], self.document.file)


def per_registry(make: Callable) -> Callable:
    """Decorator: made once, and again when something was registered since."""
    kept = functools.lru_cache(8)(lambda count, *arguments: make(*arguments))

    @functools.wraps(make)
    def current(*arguments):
        return kept(registrations(), *arguments)

    return current


@per_registry
def scenario_model() -> type[BaseModel]:
    """The model of a whole scenario, from what is registered now."""
    Data = union("dataset", DataCommon, partition=(union("partition"), {"kind": "iid"}))
    rate = Annotated[float, Ge(0)] | union("schedule")
    optimizer = (union("optimizer", without=("lr",)), {"kind": "sgd"})
    Client = union("client", ClientCommon, "sgd", optimizer=optimizer, lr=(rate, 0.1))
    fields: dict[str, Any] = {
        "name": (Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")], ...),
        "rounds": (Annotated[int, Ge(0)], 100),
        "seeds": (Annotated[list[Seed], MinLen(1), BeforeValidator(_first_seeds), AfterValidator(_in_order)], [0]),
        "method": (str | None, None),
        "data": (Data, ...),
        "model": (union("model", ModelCommon), {"kind": "logistic"}),
        "fleet": (Fleet, {}),
        "cohort": (union("cohort"), {"kind": "all"}),
        "client": (Client, {"kind": "sgd"}),
        "wire": (links_type("wire"), []),
        "server": (links_type("server"), [{"kind": "mean"}]),
        "evaluate": (Evaluate, {}),
        "numerics": (Numerics, {}),
        "checkpoint": (Checkpoint, {}),
        "on_nonfinite": (Literal["drop", "stop", "keep"], "drop"),
        "on_impossible": (Literal["skip", "stop"], "skip"),
    }
    return create_model("Scenario", __base__=Section, **_validated(fields))


@per_registry
def links_type(section: str) -> Any:
    """Type of the lists `wire` and `server`."""
    if section == "wire":
        return list[union("attack", also=("stage",))]
    return Annotated[list[union("stage", also=("rule", "optimizer"))], MinLen(1)]


def union(family: str, common: type[Section] = Section, kind: str = "", also=(), without=(), **typed: Any) -> Any:
    """All kinds of a family as one type: a mapping with `kind`, or the bare name of a kind."""
    members = [(f, name, factory) for f in (family, *also) for name, factory in FAMILIES[f].items()]
    models = [_kind_model(f, name, factory, common, without, typed) for f, name, factory in members]

    def spelled_out(value: Any) -> Any:
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, dict):
            return value
        name = value.get("kind", kind)
        return {**value, "kind": ALIASES.get(name, name)} if name and isinstance(name, str) else value

    # a union of one is no union: empty members fill it up, so that pydantic's errors stay alike
    joined = Union[tuple([*models, _Nothing, _Never][: max(len(models), 2)])]  # noqa: UP007 (made from a list)
    return Annotated[joined, Field(discriminator="kind"), BeforeValidator(spelled_out)]


class _Nothing(Section):
    kind: Literal["-"]


class _Never(Section):
    kind: Literal["--"]


def _kind_model(family: str, name: str, factory: Callable, common: type[Section], without, typed) -> type[BaseModel]:
    fields: dict[str, Any] = {"kind": (Literal[name], ...)}
    for parameter in inspect.signature(factory, eval_str=True).parameters.values():
        if parameter.name not in without:
            fields[parameter.name] = (
                parameter.annotation,
                ... if parameter.default is parameter.empty else parameter.default,
            )
    fields |= typed
    body = {"__module__": __name__, "__annotations__": {n: t for n, (t, _) in fields.items()}}
    body["family"] = family
    body["__annotations__"]["family"] = ClassVar[str]
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


def _in_order(seeds: list[int]) -> list[int]:
    """Reports are sorted by seed, whatever ran first."""
    return sorted(set(seeds))


def _first_seeds(value: Any) -> Any:
    return list(range(value)) if isinstance(value, int) and not isinstance(value, bool) else value


def _kind_first(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key != "kind")  # stable: the others keep their order
        return {key: _kind_first(value[key]) for key in keys}
    return [_kind_first(item) for item in value] if isinstance(value, list) else value
