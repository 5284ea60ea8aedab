"""The sections of a scenario: the keys that no factory's signature declares; the string below a key describes it."""

import ast
import inspect
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from fedsim.limits import MOST
from fedsim.scenario.expected import InWords
from fedsim.scenario.schema import SCHEDULES, ByForm, Kinds, Section

CLIENT_SGD = (
    "momentum",
    "nesterov",
    "weight_decay",
)  # keys of `client` that are short for `client.optimizer`
NAME = "1 to 64 letters, digits, '.', '_' or '-', the first one a letter or a digit"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
BROADCAST = "a list of one codec at most (fedsim list codecs)"
SEEDS = "a list of integers from 0 to 4294967295, or one integer: the first so many"
MOST_SEEDS = 10_000
EMPTY: Any = {}  # a section that is left out: all its keys are
Count = Annotated[int, Ge(1), Le(MOST)]
Index = Annotated[int, Ge(0), Le(MOST)]
Seed = Annotated[int, Ge(0), Lt(2**32)]
Share = Annotated[float, Ge(0), Le(1)]
ShareBelowOne = Annotated[float, Ge(0), Lt(1)]


PARTITIONS = Kinds("partition")
LOCAL_OPTIMIZERS = Kinds("optimizer", without=("lr",))  # `client.lr` is theirs


class TestClients(Section):
    clients: Annotated[float, Gt(0), Lt(1)]
    """Share of the clients with samples that never train; their samples are the test set."""


class DataCommon(Section):
    class Server(Section):
        samples: Index = 0
        """Training samples that no client gets and the server keeps, stratified by label."""

    clients: Count = 100
    """How many clients the training samples are dealt to."""
    partition: Annotated[Any, PARTITIONS] = "iid"
    """Who holds what."""
    skew: list[Annotated[Any, Kinds("skew")]] = []
    """What makes the samples of every client differ, training and own test samples alike, in this order; other sets stay."""
    attack: list[Annotated[Any, Kinds("data_attack")]] = []
    """What the attacker makes of the training samples of the clients of `fleet.malicious`, in this order, behind `skew`;
    all test samples, and the other sets, stay clean."""
    augment: list[Annotated[Any, Kinds("augmentation")]] = []
    """What happens to the images of a batch in every local step, in this order, at random; never where a model is scored."""
    test: Annotated[ShareBelowOne | TestClients, ByForm()] = 0.2
    """Share of the samples to test on, stratified by label; data that brings a test set keeps its own. Or `{clients: 0.2}`:
    a share of the clients with samples, drawn by `data.seed`, never trains: their samples are the test set, and their own
    scores are over all of their samples."""
    validation: ShareBelowOne = 0.0
    """Share of the training samples that no client gets, stratified by label: to choose hyper-parameters by."""
    client_test: ShareBelowOne = 0.0
    """Share of every client's samples kept for its own scores; at least one stays to train on."""
    server: Server = Server()
    """Samples that the server keeps and no client gets, drawn by `data.seed`: for rules that read them, `trust` and `zeno`, and
    for whatever is compared with these."""
    resident_mb: Annotated[float, Ge(0)] = 4096.0
    """Training samples that lie on the device as a whole; more are handed over round by round, with the same result."""
    seed: Seed = 0
    """Of sets, generators and all splits but `client_test`; the run's seed does not change them."""


class ClientCommon(Section):
    # what `_steps_or_epochs` demands, for editors
    model_config = ConfigDict(
        json_schema_extra={
            "if": {
                "not": {
                    "required": ["steps"],
                    "properties": {"steps": {"type": ["integer", "array"]}},
                }
            },
            "else": {
                "properties": {
                    "epochs": {
                        "type": "null",
                        "errorMessage": "steps is given: take out one of them",
                    }
                }
            },
            # what `with_optimizer` leaves to be refused
            "dependencies": {"optimizer": {"propertyNames": {"not": {"enum": list(CLIENT_SGD)}}}},
        }
    )

    lr: Annotated[Annotated[float, Ge(0)] | Annotated[Any, SCHEDULES], ByForm()] = 0.1
    """Client learning rate η_l: a number, or an optax schedule of rounds (or of local steps, see `lr_per`)."""
    lr_per: Literal["round", "step"] = "round"
    """What a schedule counts: rounds of the run, or local steps of the client's round."""
    batch: Count | Literal["full"] = 16
    """Samples per step; `full` = all of the client's."""
    steps: Annotated[Count | Annotated[list[Count], MinLen(1)] | None, ByForm()] = None
    """Local steps per round, one number or one per client."""
    epochs: Count | None = None
    """Passes over the client's samples per round (1 unless `steps` is given)."""
    shuffle: bool = True
    """New order of samples every epoch."""
    drop_last: bool = False
    """Leave a short last batch out (a client with fewer samples than `batch` keeps its only one)."""
    optimizer: Annotated[Any, LOCAL_OPTIMIZERS] = "sgd"
    """Any optax optimizer, with its other hyper-parameters."""
    optimizer_state: Literal["reset", "carry"] = "reset"
    """Whether the optimizer starts afresh each round, or goes on where the client's last round ended."""

    @model_validator(mode="after")
    def _steps_or_epochs(self):
        if self.steps is not None and self.epochs is not None:
            raise ValueError(
                "steps and epochs are both given; a client trains for one or the other, take one out"
            )
        if self.steps is None and self.epochs is None:
            self.epochs = 1
        return self


class ModelCommon(Section):
    loss: Literal["cross_entropy", "squared"] | None = None
    """What a row costs; left out: cross-entropy for classes, squared error for targets."""


class Malicious(Section):
    share: Share | None = None
    """A share of all clients."""
    count: Index | None = None
    """So many clients."""
    ids: list[Index] | None = None
    """These clients."""
    per: Literal["run", "round"] = "run"
    """Whether they are drawn once per seed, or anew in every round."""


class Dropout(Section):
    before: Share = 0.0
    """Probability that a client of a round leaves before it gets the model."""
    during: Share = 0.0
    """That it leaves while it trains, at a moment drawn uniform."""
    after: Share = 0.0
    """That its message is sent and lost."""


class Stragglers(Section):
    share: Share
    """Of the clients of a round."""
    work: Literal["partial", "drop"] = "partial"
    """What becomes of a straggler's part: it is sent (`partial`), or the straggler is left out as late (`drop`)."""


class Fleet(Section):
    speed: Annotated[Annotated[Any, Kinds("speed")] | None, ByForm()] = None
    """Seconds of a local step; left out: one, for all clients."""
    links: Annotated[Annotated[Any, Kinds("link")] | None, ByForm()] = None
    """Bytes a second to the clients and back; left out: infinitely many."""
    availability: Annotated[Annotated[Any, Kinds("availability")] | None, ByForm()] = None
    """Who can be reached when a round begins; left out: everybody."""
    dropout: Annotated[Share | Dropout, ByForm()] = 0.0
    """Probability that a client of a round leaves while it trains, or `{before: 0.1, during: 0.1, after: 0.1}`."""
    deadline: Annotated[float, Gt(0)] | None = None
    """Seconds of the virtual clock after which a round ends, whoever is missing."""
    partial_work: bool = False
    """Whether a client that would be late sends the local steps that it has done in time."""
    over_select: Annotated[float, Ge(1), Le(100)] = 1.0
    """The cohort is drawn so many times as large, and the round ends when as many as `cohort.size` have reported."""
    stragglers: Stragglers | None = None
    """Clients of a round that do 1 to E − 1 of their E epochs (or local steps) in the time of E, drawn anew in every round."""
    malicious: Annotated[Share | list[Index] | Malicious, ByForm()] = 0.0
    """Clients that the attacker controls: a share, drawn once per seed, or these; `{count: 5}`, `{share: 0.2, per: round}`."""


class Evaluate(Section):
    every: Count = 1
    """Evaluate every so many rounds (round 0 and the last one always)."""
    last: Count = 10
    """How many last evaluated rows `mean_last_k` is over."""
    metric: Literal[
        "test_accuracy", "test_r2", "test_mae", "test_loss", "train_loss", "attack_success"
    ] = "test_accuracy"
    """What `summary.csv` is about; falls back to `test_loss` where there is no accuracy. R² and MAE are for regression,
    `attack_success` for attacks on data."""
    target: float | None = None
    """Metric value to reach."""
    diagnostics: bool = False
    """Look at the clients' updates: mean norm, drift around their mean, mean cosine between pairs, in `rounds.csv`."""
    clients: Annotated[int, Ge(0)] | Literal["all", "auto"] = "auto"
    """How many clients the final model is scored on, for `clients.csv`: so many drawn ones, 0 for none; `auto` is all of
    up to 10,000, else 10,000."""


class Numerics(Section):
    dtype: Literal["float32", "float64"] = "float32"
    """Float type of everything that is computed."""
    lanes: Count | Literal["auto"] = "auto"
    """Width of the vmapped axis."""
    block: Count | Literal["auto"] = "auto"
    """Rows of the stack."""
    threads: Annotated[int, Ge(1), Le(1024)] | Literal["auto"] = "auto"
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


class Compare(Section):
    methods: list[str | dict[str, Any]] = []
    """Methods by name or `name(a=1)`, or `{method: ..., label: ..., set: {PATH: VALUE}, tune: {PATH: [VALUES]}}`; of
    `name(a=1|2)`, and of `tune`, one value is chosen as of what is tuned with every method."""
    vary: dict[str, Annotated[list[Any], MinLen(1)]] = {}
    """Axes of a grid: path -> values."""
    tune: dict[str, Annotated[list[Any], MinLen(1)]] = {}
    """Settings that every method is tried with, path -> values; chosen on validation data, reported on test data."""
    baseline: str | None = None
    """The method that the others are compared with; left out: `fedavg` where it is compared, else the first."""
    score: Literal["final", "best", "mean_last_k"] = "final"
    """What of a run's metric is compared."""
    margin: Annotated[float, Ge(0), Le(MOST)] | None = None
    """By how much a score may be worse and still count as the same where fewer bytes or seconds are told of; left out: 0.01
    of scores between 0 and 1, else 1 % of the baseline's mean."""


def _first_seeds(value: Any) -> Any:
    """A number of seeds -> the first so many; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        return value
    if value > MOST_SEEDS:
        raise ValueError(f"the first {value} seeds are too many; at most {MOST_SEEDS}")
    return list(range(value))


def _in_order(seeds: list[int]) -> list[int]:
    """Reports are sorted by seed, whatever ran first."""
    ordered = sorted(seeds)
    for one, other in itertools.pairwise(ordered):
        if one == other:
            raise ValueError(f"seed {one} stands here twice, and would be the same run; keep one")
    return ordered


SeedList = Annotated[list[Seed], MinLen(1), Field(json_schema_extra={"uniqueItems": True})]
WrittenSeeds = Annotated[int, Ge(1), Le(MOST_SEEDS)] | SeedList
Seeds = Annotated[
    list[Seed],
    MinLen(1),
    BeforeValidator(_first_seeds, json_schema_input_type=WrittenSeeds),
    AfterValidator(_in_order),
    InWords(SEEDS),
]
BroadcastList = Annotated[list[Annotated[Any, Kinds("codec")]], MaxLen(1), InWords(BROADCAST)]
WireList = list[Annotated[Any, Kinds("attack", "stage", "codec")]]
ServerList = Annotated[
    list[Annotated[Any, Kinds("stage", "rule", "aggregate_stage", "optimizer")]], MinLen(1)
]
LISTS_OF_LINKS: dict[str, Any] = {
    "broadcast": BroadcastList,
    "wire": WireList,
    "server": ServerList,
}
MODELS = Kinds("model", common=ModelCommon)
METHODS = Kinds("method", "rule")  # a rule as a method replaces the rule alone


class Spec(Section):
    """All sections of a scenario, in the order in which they are written out."""

    name: Annotated[str, Field(pattern=NAME_PATTERN), InWords(NAME)]
    """Of the run directory, unless `--out` says otherwise."""
    rounds: Index = 100
    """How often the server sends its model out."""
    seeds: Seeds = [0]
    """A run for each; a number n means the first n: 0, 1, ... n-1."""
    method: str | None = None
    """Shorthand for client, rule and server step: `name`, `name(a=1)` or a mapping."""
    data: Annotated[Any, Kinds("dataset", common=DataCommon)]
    """Where samples come from, and which client holds which."""
    model: Annotated[Any, MODELS] = "logistic"
    """What is trained."""
    fleet: Fleet = EMPTY
    """The clients as machines, and who controls them."""
    cohort: Annotated[Any, Kinds("cohort")] = "all"
    """Who takes part in a round."""
    schedule: Annotated[Any, Kinds("timetable")] = "sync"
    """When the server steps."""
    client: Annotated[Any, Kinds("client", common=ClientCommon, default="sgd")] = {}
    """How one client trains."""
    broadcast: BroadcastList = []
    """The codec by which the server sends its model out; none: as it is."""
    wire: WireList = []
    """What happens to a message between client and server, in this order."""
    server: ServerList = ["mean"]
    """Stages, one rule, steps on the aggregate, optimisers, in this order."""
    evaluate: Evaluate = EMPTY
    """When the model is scored, and which score counts."""
    compare: Compare = EMPTY
    """What `fedsim compare` compares; `fedsim run` leaves it alone."""
    numerics: Numerics = EMPTY
    """Float type, widths and threads: what decides bits and speed."""
    checkpoint: Checkpoint = EMPTY
    """How often progress is committed to disk."""
    on_nonfinite: Literal["drop", "stop", "keep"] = "drop"
    """What happens to an update that is not finite."""
    on_impossible: Literal["skip", "stop"] = "skip"
    """What a round with too few clients for the rule does."""


def _describe_keys(*sections: type[Section]) -> None:
    """Give the keys of sections of this file the strings below them: read once, where pydantic would for every class."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    bodies = {node.name: node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for section in sections:
        for key, text in itertools.pairwise(bodies[section.__name__]):
            if (
                isinstance(key, ast.AnnAssign)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                field = section.model_fields[ast.unparse(key.target)]
                field.description = inspect.cleandoc(str(text.value.value))


_describe_keys(*Section.__subclasses__())


def sections_within(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """(path, section) of every section in a scenario or below a value of it."""
    if isinstance(value, BaseModel):
        yield path, value
        for name in type(value).model_fields:
            yield from sections_within(getattr(value, name), (*path, name))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from sections_within(item, (*path, i))
