"""Scenarios of kinds and sections side by side, and what `fedsim check` answers to each.

`kinds.yaml` says how each kind is written alone, `features.yaml` which sections stand beside it,
and `checks.yaml` what every refusal is about, next to the nearest scenario that is accepted.
"""

import contextlib
import csv
import functools
import inspect
import itertools
import re
from pathlib import Path
from typing import Any

import yaml

from fedsim.assemble.check import check_scenario
from fedsim.assemble.experiment import numerics
from fedsim.assemble.federation import federations_of
from fedsim.compose import FAMILIES
from fedsim.errors import DataError, ScenarioError, dotted
from fedsim.runs.refusals import with_later_problems
from fedsim.scenario import read

FOLDER = Path(__file__).parent
ANSWERS = FOLDER / "answers.csv"
LINES = FOLDER / "lines.csv"
NOT_INSTALLED = ("not installed", "")
BASE = {
    "name": "fits",
    "rounds": 2,
    "data": {"kind": "gaussian_blobs", "shape": [4], "classes": 3, "samples": 80, "clients": 8},
    "model": {"kind": "mlp", "hidden": [4]},
    "client": {"batch": 4, "steps": 2},
}
# Families of the links of a list, in the order in which they stand there.
IN_ORDER = {
    "wire": ("attack", "stage", "codec"),
    "server": ("stage", "rule", "aggregate_stage", "optimizer"),
}

Values = dict[str, Any]
_FEDERATIONS: dict[str, Any] = {}  # of `partitioned`


class ConflictError(Exception):
    """Two fragments of a scenario that want different values at one place."""


@functools.cache
def loaded(name: str) -> Values:
    text = (FOLDER / name).read_text()
    return yaml.safe_load(text.replace("FOLDER", str(FOLDER)))


def beside(one: Any, other: Any) -> Any:
    """Return two fragments of a scenario as one; lists are joined."""
    if isinstance(one, dict) and isinstance(other, str):
        other = {"kind": other}
    if isinstance(one, str) and isinstance(other, dict):
        one = {"kind": one}
    if isinstance(one, dict) and isinstance(other, dict):
        shared = {key: beside(one[key], other[key]) for key in one if key in other}
        return {**one, **other, **shared}
    if isinstance(one, list) and isinstance(other, list):
        return one + [link for link in other if link not in one]
    if one != other:
        raise ConflictError
    return one


def scenario(*fragments: Values) -> Values:
    """Return the small scenario with fragments in it.

    Raises:
      ConflictError: where they cannot stand in one file.
    """
    together = functools.reduce(beside, fragments)
    for key, families in IN_ORDER.items():
        if key in together:
            together[key] = sorted(together[key], key=lambda link: _place(link, families))
    if "server" in together:
        together["server"] = _with_rule(together["server"])
    return over(BASE, together)


def _place(link: Any, families: tuple[str, ...]) -> int:
    """Where a link stands in its list."""
    kind = link["kind"] if isinstance(link, dict) else link.partition("(")[0]
    return next(i for i, family in enumerate(families) if kind in FAMILIES[family])


def _with_rule(links: list[Any]) -> list[Any]:
    """The links of a server, with a mean where none of them is a rule."""
    families = IN_ORDER["server"]
    places = [_place(link, families) for link in links]
    rule = families.index("rule")
    if places.count(rule) > 1:
        raise ConflictError
    if rule in places:
        return links
    first = sum(place < rule for place in places)
    return [*links[:first], "mean", *links[first:]]


def over(base: Any, fragment: Any) -> Any:
    """Return a fragment over a scenario; data and models of another kind share nothing with it."""
    if not (isinstance(base, dict) and isinstance(fragment, dict)):
        return fragment
    if "kind" in base and "kind" in fragment and base["kind"] != fragment["kind"]:
        return fragment
    shared = {key: over(base[key], fragment[key]) for key in fragment if key in base}
    return {**base, **fragment, **shared}


def kinds(place: str, row: Values) -> dict[str, Values]:
    """Return `client apfl` -> the fragment with the kind, for all kinds at a place."""
    fragments = {}
    for kind, factory in FAMILIES[row.get("family", place)].items():
        of_a_test = not inspect.unwrap(factory).__module__.startswith("fedsim.")
        if of_a_test or kind in row.get("absent", {}):
            continue
        link = {"kind": kind, **row.get("arguments", {}).get(kind, {})}
        if "server" in row["written"] and "lr" in _required(factory):
            link["lr"] = 0.1
        fragment = _filled(row["written"], link)
        fragments[f"{place} {kind}"] = beside(fragment, row.get("beside", {}).get(kind, {}))
    return fragments


def _required(factory: Any) -> list[str]:
    parameters = inspect.signature(factory).parameters.values()
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty]


def _filled(written: Any, link: Values) -> Any:
    """A fragment with a link where it says KIND."""
    if isinstance(written, dict):
        return {key: _filled(value, link) for key, value in written.items()}
    if isinstance(written, list):
        return [_filled(value, link) for value in written]
    return link if written == "KIND" else written


def alone() -> dict[str, Values]:
    """Return every kind, and every feature, alone, by name."""
    fragments = features()
    for place, row in loaded("kinds.yaml").items():
        fragments |= kinds(place, row)
    return {name: scenario(fragment) for name, fragment in fragments.items()}


def features() -> dict[str, Values]:
    """Return the fragments of all groups by name."""
    groups = loaded("features.yaml").values()
    return {name: fragment for group in groups for name, fragment in group.items()}


def pairs() -> dict[str, Values]:
    """Return all pairs of a kind and a feature, and of two features, by name."""
    groups = loaded("features.yaml")
    fragments = features()
    crossed = list(itertools.combinations(fragments.items(), 2))
    for place, row in loaded("kinds.yaml").items():
        names = [name for entry in row["features"] for name in groups.get(entry, [entry])]
        chosen = [(name, fragments[name]) for name in names]
        crossed += itertools.product(kinds(place, row).items(), chosen)
    scenarios = {}
    for (one, fragment), (other, feature) in crossed:
        with contextlib.suppress(ConflictError):
            scenarios[f"{one} + {other}"] = scenario(fragment, feature)
    return scenarios


def of_checks() -> dict[str, Values]:
    """Return what every check refuses, and its nearest neighbour that it accepts, by name."""
    scenarios = {}
    for function, rows in loaded("checks.yaml").items():
        for what, (refused, nearest) in rows.items():
            scenarios[f"{function}: {what}"] = over(BASE, refused)
            scenarios[f"{function}: {what}, nearest"] = over(BASE, nearest)
    return scenarios


def cases() -> dict[str, Values]:
    """Return all scenarios by name."""
    return {**alone(), **pairs(), **of_checks()}


def answer(values: Values) -> tuple[str, str]:
    """Return what `fedsim check` says: `accepted`, or its exit code and the places it names.

    An error that nobody foresaw has the exit code 1, and its type in place of a place. Where a
    package is missing, it is `NOT_INSTALLED`.
    """
    return answer_of(refusal(values))


def refusal(values: Values) -> Exception | None:
    """Return the error with which `fedsim check` refuses a scenario; None: it accepts it."""
    try:
        _check(values)
    except Exception as error:
        return error
    return None


def answer_of(error: Exception | None) -> tuple[str, str]:
    """Return the answer, as `answer` does, of the error that was raised."""
    if error is None:
        return "accepted", ""
    if not isinstance(error, ScenarioError | DataError):
        return "1", type(error).__name__
    if "pip install" in str(error):
        return NOT_INSTALLED
    return str(error.exit_code), " ".join(_places(error))


def said(error: Exception | None) -> str:
    """Return what a refusal says, without what depends on a machine: paths, amounts of memory."""
    text = str(error).replace(str(FOLDER), "FOLDER")
    return re.sub(r"[\d.,]+ [kMGTP]?B\b", "N B", text)


def _check(values: Values) -> None:
    """Do what `fedsim check` does to decide, and forecast nothing."""
    try:
        checked = read(values)
    except ScenarioError as error:
        raise with_later_problems(error) from None
    with numerics(checked):
        check_scenario(checked, None, None, None, None, partitioned)


def _places(error: ScenarioError | DataError) -> list[str]:
    if isinstance(error, DataError):
        return [dotted(error.section)]
    return sorted({problem.where for problem in error.problems})


def partitioned(scenario: Any, data: Any, dtype: Any) -> Any:
    """Return the federations of a scenario, made once for all that have the same samples."""
    spec = scenario.spec
    key = repr((spec.data, spec.seeds, spec.fleet.malicious, spec.evaluate, dtype))
    if key not in _FEDERATIONS:
        _FEDERATIONS[key] = federations_of(scenario, data, dtype)
    return _FEDERATIONS[key]


def recorded_lines() -> dict[str, str]:
    """Return what is recorded to be said of every scenario that a check refuses, by name."""
    with LINES.open(newline="") as file:
        return {row["case"]: row["line"] for row in csv.DictReader(file)}


def recorded() -> dict[str, tuple[str, str]]:
    """Return the recorded answers by name."""
    with ANSWERS.open(newline="") as file:
        return {row["case"]: (row["verdict"], row["places"]) for row in csv.DictReader(file)}
