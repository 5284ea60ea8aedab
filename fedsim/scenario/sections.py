"""The sections of a scenario: the keys that belong to no factory.

The string below a key describes it, in editors and in `fedsim explain`.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    WrapValidator,
    model_validator,
)

from fedsim.disk.scores import BY_CLIENT, OF_CLIENTS, mean_of, score_of
from fedsim.errors import did_you_mean, near_miss
from fedsim.kinds import FAMILIES
from fedsim.limits import MAX_INTEGER
from fedsim.scenario.added import describe, extensible
from fedsim.scenario.expected import InWords
from fedsim.scenario.ranges import range_of
from fedsim.scenario.schema import (
    LR_SCHEDULES,
    AllowedKinds,
    ByForm,
    Section,
)
from fedsim.scenario.values import EMPTY, Count, Index, Seed, Share, ShareBelowOne

# Keys of `client` that are short for keys of `client.optimizer`.
CLIENT_SGD = ("momentum", "nesterov", "weight_decay")

NAME = "1 to 64 letters, digits, '.', '_' or '-', the first one a letter or a digit"
TITLE_PATTERN = r"^[^\n]{1,120}$"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
SEEDS = "a list of integers from 0 to 4294967295, or an integer n for the first n seeds"
MAX_SEEDS = 10_000

LOSSES = AllowedKinds("loss")
PARTITIONS = AllowedKinds("partition")
LOCAL_OPTIMIZERS = AllowedKinds("optimizer", omit=("lr",))  # their learning rate is `client.lr`


class TestClients(Section):
    """`data.test` as a mapping."""

    clients: Annotated[
        Annotated[float, Gt(0), Lt(1)] | Annotated[list[str | int], MinLen(1)], ByForm()
    ]
    """Clients that never train, by their names, or the share of those with samples; their samples
    are the test set."""


class TokenizerFile(Section):
    """`data.tokenizer` as a mapping."""

    path: Annotated[str, MinLen(1)]
    """A `tokenizer.json` of the package `tokenizers` (extra `text`)."""
    sha256: Annotated[str, MinLen(1)] | None = None
    """Its hash; any other file is refused (filled in by the resolved scenario)."""


@extensible("data")
class DataCommon:
    """The keys of `data` that do not depend on its kind."""

    clients: Count = 100
    """Number of clients that the training samples are divided among."""
    tokenizer: Annotated[Literal["bytes"] | TokenizerFile | None, ByForm()] = None
    """How the texts of `text` and `huggingface` become tokens: `bytes`, a token for each byte, 257
    in all; or `{path: FILE}`, a `tokenizer.json` of the package `tokenizers`. By default `text` has
    characters or words."""
    partition: Annotated[Any, PARTITIONS] = "iid"
    """Which client holds which samples."""
    skew: list[Annotated[Any, AllowedKinds("skew")]] = []
    """What makes the samples of clients differ, training samples and a client's own test samples
    alike, applied in this order; other sets stay as they are."""
    augment: list[Annotated[Any, AllowedKinds("augmentation")]] = []
    """Random changes of the images of a batch in every local step, in this order; never applied
    where a model is scored."""
    test: Annotated[ShareBelowOne | TestClients, ByForm()] = 0.2
    """Share of the samples to test on, stratified by label; data that come with a test set keep it.
    Or `{clients: 0.2}`: a share of the clients with samples, drawn by `data.seed`, never trains, or
    `{clients: [NAME, ...]}`: those of these names;
    their samples are the test set, and their own scores are over all of their samples. With
    `client_test` they are over that share, and methods that train before a score use the others."""
    holdout: Literal["each"] | None = None
    """With `each`, a comparison holds every client out in turn: it varies `data.test` over
    `{clients: [NAME]}`."""
    validation: ShareBelowOne = 0.0
    """Share of the training samples that no client gets, stratified by label, for choosing
    hyper-parameters."""
    client_test: ShareBelowOne = 0.0
    """Share of every client's samples held out for its own scores; at least one stays to train
    on. With `evaluate.personal`, half of them are for scores while the run lasts."""
    resident_mb: Annotated[float, Ge(0)] = 4096.0
    """Training samples, in MB, that stay on the device; if there are more, every round sends its
    own, with the same result."""
    seed: Seed = 0
    """Seed of sets, generators and all splits except `client_test`; the run's seed does not affect
    them."""


class Clip(Section):
    """`client.clip` as a mapping."""

    norm: Annotated[float, Gt(0)] | None = None
    """Largest norm of a gradient, over all trained leaves together; longer ones are scaled down."""
    value: Annotated[float, Gt(0)] | None = None
    """Largest absolute value of a number of a gradient; larger ones are cut off."""

    @model_validator(mode="after")
    def _one_of_both(self):
        if (self.norm is None) == (self.value is None):
            raise ValueError("clip is by norm or by value; write one of them")
        return self


@extensible("client")
class ClientCommon:
    """The keys of `client` that do not depend on its kind."""

    lr: Annotated[Annotated[float, Ge(0)] | Annotated[Any, LR_SCHEDULES], ByForm()] = 0.1
    """Client learning rate η_l: a number, or an optax schedule over rounds (or over local steps,
    see `lr_per`)."""
    lr_per: Literal["round", "step"] = "round"
    """What a schedule counts: rounds of the run, or local steps of the client's round."""
    batch: Count | Literal["full"] = 16
    """Samples per step; `full` = all of the client's."""
    steps: Annotated[Count | Annotated[list[Count], MinLen(1)] | None, ByForm()] = None
    """Local steps per round, one number or one per client."""
    epochs: Count | None = None
    """Passes over the client's samples per round (1 unless `steps` is given)."""
    shuffle: Annotated[bool | Literal["poisson"], ByForm()] = True
    """How batches are made: `true` cuts them from a new order of the samples in every epoch,
    `false` from the order of the file. Under `poisson`, each of a client's n samples is in a batch
    with probability batch / n, by itself, so that batches differ in size."""
    drop_last: bool = False
    """Leave out a last batch that is not full (a client with fewer samples than `batch` keeps its
    only one)."""
    optimizer: Annotated[Any, LOCAL_OPTIMIZERS] = "sgd"
    """Any optax optimizer, with its hyper-parameters other than the learning rate."""
    clip: Annotated[Annotated[float, Gt(0)] | Clip | None, ByForm()] = None
    """Clip the gradient of every local step, as the optimizer takes it, corrections of the method
    included: a number is the largest norm over all leaves together; or `{norm: 1}`, or `{value:
    0.5}`, the largest absolute value of a number. By default gradients are as they are."""
    optimizer_state: Literal["reset", "carry"] = "reset"
    """Whether the optimizer starts afresh in each round, or continues from the client's last
    round."""
    statistics: Literal["averaged", "pooled"] = "averaged"
    """Running statistics of a model that has them (batch normalisation): the mean of the clients'
    variances, or the variance of all their values together, which also counts how far the clients'
    means are apart."""

    @model_validator(mode="after")
    def _clip_as_mapping(self):
        if isinstance(self.clip, int | float):
            self.clip = Clip(norm=float(self.clip))
        return self

    @model_validator(mode="after")
    def _steps_or_epochs(self):
        if self.steps is not None and self.epochs is not None:
            raise ValueError(
                "steps and epochs are both given; a client trains for one or the other, remove one"
            )
        if self.steps is None and self.epochs is None:
            self.epochs = 1
        return self


class Weights(Section):
    """`model.weights` as a mapping."""

    path: Annotated[str, MinLen(1)]
    """A safetensors file, such as a `model.*.safetensors` of a run directory."""
    sha256: Annotated[str, MinLen(1)] | None = None
    """Its hash; any other file is refused (filled in by the resolved scenario)."""
    names: dict[str, str] = {}
    """For weights from torch: layer of the file -> layer of the model, as `{conv1: stem, bn1: stem,
    "layer1.0.*1": block0_first}`; `*` matches any letters. Kernels are laid out as the model's."""


@extensible("model")
class ModelCommon:
    """The keys of `model` that do not depend on its kind."""

    loss: Annotated[Annotated[Any, LOSSES] | None, ByForm()] = None
    """Loss of a sample; by default cross-entropy for classes, squared error for targets."""
    freeze: list[Annotated[str, MinLen(1)]] | None = None
    """Leaves that keep their start values: nobody trains, sends or stores them. By their full names
    or by the parts between dots, as `[layer0]`, `[W]`, `["*"]`; `*` matches any letters. By default
    none, or all where `train` names some."""
    train: list[Annotated[str, MinLen(1)]] | None = None
    """Leaves that are trained although `freeze` names them, as `freeze: ["*"], train: [last]`."""
    weights: Annotated[Annotated[str, MinLen(1)] | Weights | None, ByForm()] = None
    """A safetensors file that all seeds start from, with a tensor for every leaf, as a run
    directory has them (`params/layer0/W`) or named `layer0.W`; or `{path: FILE, names: {...}}`,
    whose `names` find weights from torch."""

    @model_validator(mode="after")
    def _weights_as_mapping(self):
        if isinstance(self.weights, str):
            self.weights = Weights(path=self.weights)
        return self


class Malicious(Section):
    """`fleet.malicious` as a mapping."""

    share: Share | None = None
    """A share of all clients, as the nearest number of them; of two as near, the even one."""
    count: Index | None = None
    """A number of clients."""
    ids: list[Index] | None = None
    """These clients."""
    per: Literal["run", "round"] = "run"
    """Whether they are drawn once per seed, or again in every round."""


@extensible("fleet")
class Fleet:
    """`fleet`."""

    malicious: Annotated[Share | list[Index] | Malicious, ByForm()] = 0.0
    """Clients that the attacker controls: a share, drawn once per seed, or a list of clients; or
    `{count: 5}`, `{share: 0.2, per: round}`."""
    without: list[Index] = []
    """Clients that never take part, as if they had no samples to train on; they are still
    scored."""


METRICS = Literal[
    "test_accuracy",
    "test_r2",
    "test_mae",
    "test_perplexity",
    "test_loss",
    "train_loss",
    "attack_success",
    "client_accuracy_mean",
    "client_mae_mean",
    "personal_accuracy_mean",
    "personal_mae_mean",
]
# A column of a kind of metric, for editors.
COLUMN = rf"^test_|^({'|'.join(BY_CLIENT)})_.*_({'|'.join(OF_CLIENTS)})$"
OF_KINDS = Annotated[str, Field(pattern=COLUMN)]


def _or_measured(value: Any, otherwise: Callable[[Any], str]) -> str:
    """Take a column of any kind of metric as well; whether it is measured, the check says."""
    if not isinstance(value, str) or value in get_args(METRICS):
        return otherwise(value)
    if re.match(COLUMN, value):
        score = score_of(value)
        if mean_of(value) in get_args(METRICS):
            return value
        if any(score == kind or score.startswith(f"{kind}_") for kind in FAMILIES["metric"]):
            return value
    of_sets = [f"test_{kind}" for kind in FAMILIES["metric"]]
    scores = (*FAMILIES["metric"], "accuracy", "mae")
    of_clients = [f"{whose}_{score}_" for whose in BY_CLIENT for score in scores]
    if value.startswith(tuple(of_clients)):
        name, _, statistic = value.rpartition("_")
        raise ValueError(f"{name} has no '{statistic}'{did_you_mean(statistic, OF_CLIENTS)}")
    means = [f"{beginning}mean" for beginning in of_clients]
    near = near_miss(value, get_args(METRICS)) or near_miss(value, [*of_sets, *means])
    if near:
        raise ValueError(f"found '{value}'; {near}")
    return otherwise(value)


@extensible("evaluate")
class Evaluate:
    """`evaluate`."""

    every: Count = 1
    """Rounds from one evaluation to the next (round 0 and the last one are always evaluated)."""
    last: Count = 10
    """How many of the last evaluated rows `mean_last_k` averages."""
    metric: Annotated[
        METRICS, WrapValidator(_or_measured, json_schema_input_type=METRICS | OF_KINDS)
    ] = "test_accuracy"
    """The metric of `summary.csv`; `test_loss` where there is no accuracy. R² and MAE are for
    regression, perplexity for samples in which every token has a label, `attack_success` for
    attacks on data. `client_...` and `personal_...` are of all clients, with `personal`, by the
    shared model and by the clients' own ones (the shared one where they have none): the mean, or
    `_worst`, `_p10`, `_p50`, `_p90`, `_samples` (weighted by test samples) or `_std` in place of
    `_mean`; `final` is on other test samples of the clients than `best` and `mean_last_k`."""
    target: float | None = None
    """Value of the metric to reach."""
    clients: Annotated[int, Ge(0)] | Literal["all", "auto"] = "auto"
    """Number of clients, drawn at random, that the final model is scored on, for `clients.csv`; 0
    for none; `auto` is all of up to 10,000, else 10,000."""
    personal: bool = False
    """Also score the shared model and every client's own one in evaluated rounds, in `rounds.csv`:
    on half of the samples that the client keeps for testing; the scores at the end are on the other
    half."""


class Numerics(Section):
    """`numerics`."""

    dtype: Literal["float32", "float64"] = "float32"
    """Float type of all computations."""
    compute: Literal["bfloat16"] | None = None
    """Float type of the model while clients train, if not `dtype`. Parameters, losses, what is made
    of gradients, noise, aggregates and scores keep `dtype`, which must be float32. It halves what a
    batch takes in memory, and is for hardware with products in bfloat16, as GPUs: on a CPU, steps
    of `mlp`, `transformer` and `cnn` took 1.4, 1.7 and 2.4 times as long."""
    remat: bool = False
    """Whether the inner values of the blocks of a `transformer` or `resnet` are computed once more
    for the gradient, in place of kept: less memory for about a third more time."""
    lanes: Count | Literal["auto"] = "auto"
    """Width of the vmapped axis."""
    block: Count | Literal["auto"] = "auto"
    """Rows of the stack."""
    threads: Annotated[int, Ge(1), Le(1024)] | Literal["auto"] = "auto"
    """Size of XLA's thread pool on CPUs, which changes bits of large products; a number gives the
    same bits on any number of cores."""
    matmul_precision: Literal["highest", "high", "default"] = "highest"
    """Precision of matrix products on accelerators; `default` allows TF32."""

    @model_validator(mode="after")
    def _compute_beside_float32(self):
        if self.compute is not None and self.dtype != "float32":
            raise ValueError(
                f"compute is {self.compute} and dtype {self.dtype}; write one of them, not both"
            )
        return self


@extensible("checkpoint")
class Checkpoint:
    """`checkpoint`."""

    seconds: Annotated[float, Ge(0)] = 10.0
    """Seconds between commits; more if commits would take over 2 % of the time."""
    rounds: Count | None = None
    """Also commit whenever this many rounds are done."""
    keep: list[Count] = []
    """Rounds after which the run commits, and whose commits stay, for `fedsim fork` to go on
    from."""
    updates: bool = False
    """Keep the updates of every round as the server received them, for `fedsim report
    --contributions`, which replays the run otherwise."""
    resident_mb: Annotated[float, Ge(0)] = 256.0
    """Client memory, in MB, that stays on the device; beyond it lives in a file of the run
    directory."""


def _readable_range(text: str) -> str:
    """Return a range as it is written; refuse any other text."""
    range_of(text)
    return text


Tried = Annotated[
    Annotated[list[Any], MinLen(1)] | Annotated[str, AfterValidator(_readable_range)], ByForm()
]
"""What a path is tuned over: some values, or a range."""


class Search(Section):
    """`compare.search`."""

    kind: Literal["random", "halving", "hyperband"] = "random"
    """`random` plays every setting to the end. `halving` compares them at rungs, after a few rounds
    already, from which the best go on and all others end; `hyperband` does so in brackets, whose
    first rungs differ."""
    eta: Annotated[int, Ge(2), Le(1_000)] = 2
    """One setting in so many goes on from a rung, to one after as many times the rounds."""
    rungs: Annotated[int, Ge(1), Le(64)] | None = None
    """How many rungs there are, with the last round; by default as many as fit the rounds and the
    settings."""

    @model_validator(mode="after")
    def _random_has_no_rungs(self):
        if self.kind == "random" and (self.rungs is not None or self.eta != 2):
            raise ValueError("random has no rungs; write kind: halving, or remove rungs and eta")
        return self


class Compare(Section):
    """`compare`."""

    methods: list[str | dict[str, Any]] = []
    """Methods by name or `name(a=1)`, or `{method: ..., label: ..., set: {PATH: VALUE}, tune:
    {PATH: [VALUES]}}`; one value of `name(a=1|2)` and of `tune` is chosen, in the same way as for
    `compare.tune`, and ranges may stand there as well."""
    vary: dict[str, Annotated[list[Any], MinLen(1)]] = {}
    """Axes of a grid: path -> values."""
    question: dict[str, Any] = {}
    """Which of the grid's values the headline is about, as path -> value; along any other axis it
    is the last one."""
    tune: dict[str, Tried] = {}
    """Settings that every method is tried with, path -> values, or a range: `log(1e-3, 1)`,
    `uniform(0, 1)`, `integers(1, 8)`; chosen on validation data, reported on test data."""
    budget: Annotated[int, Ge(1), Le(10_000)] | None = None
    """Where something is tuned over a range: how many settings are tried of every method, whatever
    the number of its paths. They are drawn, from lists as well, the same for all methods."""
    search: Search = Search()
    """How settings are searched; by default all of them are played to the end."""
    ranges: bool = False
    """Whether methods are also tuned over the ranges that their files name (`fedsim explain
    fedprox`), where the scenario has neither a value nor a range of its own."""
    suite: Annotated[int, Ge(1), Le(1_000)] | None = None
    """The version of the task, of a scenario that is one of a suite (`fedsim suite`)."""
    baseline: str | None = None
    """The method that the others are compared with; by default `fedavg` if it is compared, else the
    first one."""
    score: Literal["final", "best", "mean_last_k", "own"] = "final"
    """Which score of a run's metric is compared. `own` is that of the clients' own test samples at
    the end, the mean over clients of the model that each would use: its own or else the shared one;
    it takes the place of `final` where the baseline is `local_only`, which has no shared model."""
    margin: Annotated[float, Ge(0), Le(MAX_INTEGER)] | None = None
    """How much worse a score may be and still count as the same where fewer bytes or seconds are
    reported; by default 0.01 for scores between 0 and 1, else 1 % of the baseline's mean."""


def _first_seeds(value: Any) -> Any:
    """Turn a number n into the first n seeds; leave any other value to be validated."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        return value
    if value > MAX_SEEDS:
        raise ValueError(f"the first {value} seeds are too many; at most {MAX_SEEDS}")
    return list(range(value))


def _sorted_seeds(seeds: list[int]) -> list[int]:
    """Sort the seeds, as reports are, so that their order in the file makes no difference."""
    in_order = sorted(seeds)
    for seed, next_seed in itertools.pairwise(in_order):
        if seed == next_seed:
            raise ValueError(f"seed {seed} is listed twice, which would be the same run; keep one")
    return in_order


SeedList = Annotated[list[Seed], MinLen(1), Field(json_schema_extra={"uniqueItems": True})]
SeedsInFile = Annotated[int, Ge(1), Le(MAX_SEEDS)] | SeedList
Seeds = Annotated[
    list[Seed],
    MinLen(1),
    BeforeValidator(_first_seeds, json_schema_input_type=SeedsInFile),
    AfterValidator(_sorted_seeds),
    InWords(SEEDS),
]
WireList = list[Annotated[Any, AllowedKinds("attack", "stage", "codec")]]
ServerLink = Annotated[Any, AllowedKinds("stage", "rule", "aggregate_stage", "optimizer")]
ServerList = Annotated[list[ServerLink], MinLen(1)]
LISTS_OF_LINKS: dict[str, Any] = {
    "wire": WireList,
    "server": ServerList,
}
MODELS = AllowedKinds("model", common=ModelCommon)
# Their parameter `tokenizer` is made of the key that all of them have.
DATASETS = AllowedKinds("dataset", common=DataCommon, omit=("tokenizer",))
METHODS = AllowedKinds("method", "rule")  # a rule as a method replaces only the rule


@extensible("")
class Spec:
    """All sections of a scenario, in the order in which a resolved scenario is written."""

    name: Annotated[str, Field(pattern=NAME_PATTERN), InWords(NAME)]
    """Name of the run directory, unless `--out` gives another; of a scenario with `extends`, by
    default the name of its file."""
    title: Annotated[str, Field(pattern=TITLE_PATTERN), InWords("a line of text")] | None = None
    """What the scenario asks, in a line; pages, galleries and `fedsim list scenarios` show it."""
    extends: str | None = None
    """Another scenario that this one builds on: a file of the same folder, or the name of one that
    comes with fedsim. What this file says replaces what that one says, sections key by key, lists
    as a whole; then `--set` changes the result. `fedsim check --resolved` shows it."""
    rounds: Index = 100
    """How often the server sends its model out."""
    seeds: Seeds = [0]
    """One run for each; a number n means the first n: 0, 1, ... n-1."""
    method: str | None = None
    """Shorthand for client, rule and server step: `name`, `name(a=1)` or a mapping."""
    data: Annotated[Any, DATASETS]
    """Where samples come from, and which client holds which."""
    model: Annotated[Any, MODELS] = "logistic"
    """What is trained."""
    fleet: Fleet = EMPTY
    """The clients as machines, and who controls them."""
    cohort: Annotated[Any, AllowedKinds("cohort")] = "all"
    """Who takes part in a round."""
    # Kinds of the family `schedule` are learning rates over time: see `LR_SCHEDULES`.
    schedule: Annotated[Any, AllowedKinds("timetable")] = "sync"
    """When the server steps."""
    client: Annotated[Any, AllowedKinds("client", common=ClientCommon, default="sgd")] = {}
    """How one client trains."""
    wire: WireList = []
    """What happens to a message between client and server, in this order."""
    server: ServerList = ["mean"]
    """Stages, one rule, steps on the aggregate, optimisers, in this order."""
    evaluate: Evaluate = EMPTY
    """When the model is scored, and which score counts."""
    compare: Compare = EMPTY
    """What `fedsim compare` compares; `fedsim run` ignores it."""
    numerics: Numerics = EMPTY
    """Float type, widths and threads: what decides bits and speed."""
    checkpoint: Checkpoint = EMPTY
    """How often progress is committed to disk."""
    on_nonfinite: Literal["drop", "stop", "keep"] = "drop"
    """What happens to an update that is not finite."""
    on_impossible: Literal["skip", "stop"] = "skip"
    """What a round does if it has too few clients for the rule."""


def sections_within(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """Yield (path, section) of every section at and below a value of a scenario.

    Args:
      value: a scenario's `Spec`, a section, a list of sections, or anything else, which has none.
    """
    if isinstance(value, BaseModel):
        yield path, value
        for name in type(value).model_fields:
            yield from sections_within(getattr(value, name), (*path, name))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from sections_within(item, (*path, i))


for _section in Section.__subclasses__():
    describe(_section)
