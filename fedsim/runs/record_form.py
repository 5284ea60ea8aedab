"""The form of a `run.json`: its entries and their types.

A record that may be a stranger's is checked against it once, and then read without further checks.
Entries that are not named here are allowed: nothing but a page or a comparison looks at them.
"""

from typing import Annotated, Any, Literal, NotRequired

from annotated_types import Ge, Gt, Len, MinLen
from pydantic import (
    AfterValidator,
    ConfigDict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    with_config,
)
from typing_extensions import TypedDict

from fedsim.errors import dotted
from fedsim.study.summary import SCORES

FILE_NAME = r"^[A-Za-z0-9_-]{1,255}$"  # part of one, which leads nowhere
MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"  # in UTC


def _share_or_clients(value: Any) -> Any:
    """A number, a list, or a mapping."""
    if isinstance(value, bool) or not isinstance(value, int | float | list | dict):
        raise ValueError
    return value


def _method(value: Any) -> Any:
    """A name, or a description."""
    if not isinstance(value, str | dict):
        raise ValueError
    return value


_Count = Annotated[int, Ge(0)]
_Positive = Annotated[int, Gt(0)]
_Seeds = Annotated[list[_Count], MinLen(1)]
_FileName = Annotated[str, StringConstraints(pattern=FILE_NAME)]
_Moment = Annotated[str, StringConstraints(pattern=MOMENT)]
_Malicious = Annotated[Any, AfterValidator(_share_or_clients)]
_Method = Annotated[Any, AfterValidator(_method)]
_NameAndText = Annotated[list[str], Len(2, 2)]


class _Link(TypedDict):
    kind: str


class _Partition(_Link):
    path: NotRequired[str | None]


class _Data(_Link):
    partition: _Partition
    clients: NotRequired[_Count | None]
    path: NotRequired[str | None]


class _Model(_Link):
    loss: NotRequired[_Link | str | None]


class _Fleet(TypedDict):
    malicious: NotRequired[_Malicious]


class _Client(_Link):
    lr: Any
    batch: Any


class _Evaluate(TypedDict):
    every: _Positive
    last: _Positive
    metric: str
    target: float | None


class _Compare(TypedDict):
    methods: NotRequired[list[_Method]]
    vary: NotRequired[dict[str, list[Any]] | None]
    tune: NotRequired[dict[str, Any] | None]


# As far as anything looks at it without reading it as a scenario; sections that say nothing are
# left out.
class _Scenario(TypedDict):
    name: str
    rounds: _Count
    seeds: _Seeds
    data: _Data
    model: _Model
    fleet: NotRequired[_Fleet]
    cohort: NotRequired[_Link]
    client: _Client
    wire: NotRequired[list[_Link]]
    server: NotRequired[list[_Link]]
    topology: NotRequired[_Link | None]
    evaluate: _Evaluate
    numerics: dict[str, Any]
    compare: NotRequired[_Compare]


class _Environment(TypedDict):
    fedsim: str
    threads: _Count | None


class _Git(TypedDict):
    commit: str


class _Surroundings(TypedDict):
    python: str
    command: list[str]
    devices: list[str]
    cores: Any
    platform: str
    git: _Git | None


class _Fork(TypedDict):
    scenario: str
    round: _Count
    fresh: NotRequired[list[str]]


class _Unfinished(TypedDict):
    mark: str
    runs: dict[str, list[_Count]]
    files: NotRequired[list[str]]


class Record(TypedDict):
    """What the records of runs and comparisons have in common.

    Only those of finished ones have `wall_seconds`, `reasons` and `files`.
    """

    status: str
    scenario: _Scenario
    method: str
    names: dict[str, _FileName]
    supplied: list[str]
    own_links: dict[str, str]
    environment: _Environment
    surroundings: _Surroundings
    not_federated: NotRequired[dict[str, str]]
    written: NotRequired[list[_NameAndText]]
    started: _Moment
    wall_seconds: NotRequired[float]
    unfinished: NotRequired[_Unfinished]
    remarks: NotRequired[list[str]]
    reasons: NotRequired[dict[str, str]]
    files: NotRequired[dict[str, str]]


class _RunHashes(TypedDict):
    scenario: str
    data: str
    partition: dict[str, str]
    start: dict[str, str]


@with_config(ConfigDict(strict=True))
class RunRecord(Record):
    """The record of a run."""

    hashes: _RunHashes
    fork: NotRequired[_Fork]


class _ComparisonHashes(TypedDict):
    scenario: str
    cells: dict[str, str]


class _Cell(TypedDict):
    method: str
    variant: NotRequired[str]
    tuned: NotRequired[str]


class _Planned(TypedDict):
    rounds: _Count
    seeds: list[_Count]


@with_config(ConfigDict(strict=True))
class ComparisonRecord(Record):
    """The record of a comparison."""

    kind: Literal["compare"]
    hashes: _ComparisonHashes
    baseline: str
    score: Literal[SCORES]  # pyright: ignore[reportInvalidTypeForm]
    cells: list[_Cell]
    planned: dict[str, _Planned]
    halves: dict[str, str]
    verdict: NotRequired[list[str]]


FORMS = {"run": TypeAdapter(RunRecord), "compare": TypeAdapter(ComparisonRecord)}


def malformed(record: dict[str, Any], *needed: str) -> list[str]:
    """The entries of a record that are not as a run or a comparison writes them.

    Args:
      needed: names of entries that only the record of a finished run has, and this one must have.
    """
    missing = [name for name in needed if name not in record]
    kind = record.get("kind", "run")
    if kind not in ("run", "compare"):
        return [*missing, "kind"]
    try:
        FORMS[kind].validate_python(record)
    except ValidationError as error:
        places = [dotted(problem["loc"]) for problem in error.errors(include_url=False)]
        return [*missing, *dict.fromkeys(places)]
    return missing
