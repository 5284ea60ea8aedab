"""Laws of runs: what must come out again where a kind takes part in small scenarios.

Ten clients of uneven size, of which two have no samples, train in three rounds: of seven, of all,
and of seven. All of it is in float64.
"""

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedsim.errors import HookError, ScenarioError
from fedsim.runs.run import run
from fedsim.tools.conform.findings import Inapplicable, Law, as_law
from fedsim.tools.conform.rows import numbers
from fedsim.tools.conform.subjects import NOTHING, Section, Subject
from fedsim.types import Rule

ROUNDS = 3
CLIENTS = 10
COHORTS = [[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 7, 8, 9]]
ATTACKER = 2  # with 13 samples, in all rounds
DATA = {
    "kind": "gaussian_blobs",
    "shape": [3],
    "classes": 3,
    "samples": 120,
    "test": 0.2,
    "clients": CLIENTS,
    "partition": {
        "kind": "quantity",
        "distribution": "powerlaw",
        "exponent": 2.3,
        "min_samples": 0,
    },
}
CLIENT = {"kind": "sgd", "steps": 2, "batch": 4, "lr": 0.1}
UNIFORM = {"kind": "mean", "weights": "uniform"}
SCENARIO = {
    "name": "laws",
    "rounds": ROUNDS,
    "seeds": [0],
    "model": {"kind": "mlp", "hidden": [4]},
    "data": DATA,
    "client": CLIENT,
    "cohort": {"kind": "listed", "rounds": COHORTS},
    "evaluate": {"every": ROUNDS},
    "numerics": {"dtype": "float64"},
}
TOLERANCE = 1e-9  # between runs that compute the same in another order

Values = dict[str, np.ndarray]
"""Arrays by name: of the model, `client...` and `server...` of what they remember."""


def scenario_with(family: str, section: Section) -> dict[str, Any]:
    """The scenario with a kind in its place."""
    if family == "client":
        return {**SCENARIO, "client": {**CLIENT, **section}}
    if family == "cohort":
        data = {**DATA, "samples": 600, "clients": 30, "partition": "iid"}
        return {**SCENARIO, "data": data, "cohort": section}
    if family == "method":
        return {**SCENARIO, "method": section}
    if family == "partition":
        data = {**DATA, "partition": section}
        return {**SCENARIO, "data": data, "cohort": "all"}

    link = [] if section["kind"] == NOTHING else [section]
    if family == "codec":
        return {**SCENARIO, "wire": link, "server": [UNIFORM]}
    if family == "attack":
        return {**SCENARIO, "wire": link, "fleet": {"malicious": [ATTACKER]}}
    if family == "stage":
        return {**SCENARIO, "server": [*link, "mean"]}
    if family in ("aggregate_stage", "optimizer"):
        return {**SCENARIO, "server": ["mean", *link]}
    return {**SCENARIO, "server": link}


def scenario_of(subject: Subject, section: Section) -> dict[str, Any]:
    """The scenario with a subject's kind, or that of its limit, in its place."""
    scenario = scenario_with(subject.family, section)
    if subject.family == "rule" and isinstance(subject.made, Rule) and subject.made.client:
        kind, shared = subject.made.client
        scenario["client"] = {**CLIENT, "kind": kind, **shared}
    return scenario


class Played:
    """The runs of a subject, each played when it is first asked for."""

    def __init__(self, subject: Subject):
        self.subject = subject
        self.scenario = scenario_of(subject, subject.section)

    def result(self, **changes: Any) -> Any:
        """A run of the scenario with other sections."""
        return played(self.subject, {**self.scenario, **changes})

    @functools.cached_property
    def whole(self) -> Values:
        """All rounds in one go."""
        return values_of(self.result())

    @functools.cached_property
    def resumed(self) -> tuple[Values, Values]:
        """After all but the last round, and after all, where the last is played by another run."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            scenario = {**self.scenario, "checkpoint": {"rounds": 1}}
            first = played(
                self.subject, {**scenario, "rounds": ROUNDS - 1}, out=out, pictures=False
            )
            before = values_of(first)
            after = played(self.subject, scenario, out=out, resume=True, pictures=False)
            return before, values_of(after)


def played(subject: Subject, scenario: dict[str, Any], edits: tuple[str, ...] = (), **more: Any):
    """Run a scenario, in which the subject's edits come before others.

    Raises:
      Inapplicable: where it is refused for what fedsim's scenario lacks.
      ScenarioError: where the subject's own functions fail.
    """
    sections = {name: value for name, value in scenario.items() if name != "method"}
    method = scenario.get("method")
    try:
        return run(sections, method=method, edits=(*subject.edits, *edits), progress=False, **more)
    except HookError:
        raise
    except ScenarioError as error:
        if any(problem.where.endswith(f" {subject.kind}") for problem in error.problems):
            raise  # what its hooks return is wrong
        raise Inapplicable("; ".join(problem.what for problem in error.problems)) from error


def values_of(result: Any) -> Values:
    """The model and what clients and server remember, by name."""
    trees = {"": result.model(), **result.state()}
    values = {}
    for part, tree in trees.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            values[f"{part} {name}".strip()] = np.asarray(leaf)
    return values


@functools.lru_cache(1)
def runs_of(subject: Subject) -> Played:
    """The runs of a subject, which its laws share."""
    return Played(subject)


def apart(actual: Values, expected: Values, rtol: float = 0.0) -> str:
    """The first number in which two runs differ, in words; empty where they are equal.

    Args:
      rtol: tolerance, relative to the largest number of an array; 0: to the bit.
    """
    for name, array in expected.items():
        if name not in actual or actual[name].shape != array.shape:
            return f"{name} has another shape"
        if array.dtype.kind != "f" or rtol == 0.0:
            same = actual[name] == array
            if array.dtype.kind == "f":
                same |= np.isnan(actual[name]) & np.isnan(array)
        else:
            atol = rtol * max(float(np.abs(array).max(initial=0.0)), 1e-12)
            same = np.isclose(actual[name], array, rtol=rtol, atol=atol, equal_nan=True)
        if not same.all():
            place = tuple(int(i) for i in np.argwhere(~same)[0])
            index = f"[{', '.join(map(str, place))}]" if place else ""
            one, other = numbers(actual[name][place]), numbers(array[place])
            if one == other:
                one, other = repr(float(actual[name][place])), repr(float(array[place]))
            return f"{name}{index} is {one} in place of {other}"
    return ""


def finite_runs(subject: Subject) -> str:
    """Clients without samples, and rounds of some clients, leave all numbers finite."""
    return not_finite(runs_of(subject).whole)


def not_finite(values: Values) -> str:
    """The first number that is not finite, in words; empty where all are."""
    for name, array in values.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all() and " " not in name:
            return f"{name} is not finite after {ROUNDS} rounds"
    return ""


def float64(subject: Subject) -> str:
    """In a run in float64 the model stays float64."""
    for name, array in runs_of(subject).whole.items():
        if array.dtype == np.float32 and " " not in name:
            return f"{name} is {array.dtype}"
    return ""


def blocks(subject: Subject) -> str:
    """A cohort in blocks of two comes out as the whole."""
    runs = runs_of(subject)
    numerics = {**SCENARIO["numerics"], "block": 2}
    return apart(values_of(runs.result(numerics=numerics)), runs.whole)


def resume(subject: Subject) -> str:
    """A run that stops after a round and resumes is the run that went through."""
    runs = runs_of(subject)
    return apart(runs.resumed[1], runs.whole)


def memory_of_absent_clients(subject: Subject) -> str:
    """A client that is not in a round remembers what it did before."""
    before, after = runs_of(subject).resumed
    rows = {name: array for name, array in before.items() if name.startswith("client ")}
    rows = {name: array for name, array in rows.items() if array.shape[:1] == (CLIENTS,)}
    if not rows:
        raise Inapplicable("clients remember nothing")
    absent = [id for id in range(CLIENTS) if id not in COHORTS[ROUNDS - 1]]
    return apart(
        {name: after[name][absent] for name in rows}, {name: rows[name][absent] for name in rows}
    )


def nonfinite_message(subject: Subject) -> str:
    """A message that is not finite is left out, and the model stays finite."""
    runs = runs_of(subject)
    attack = {"kind": "nonfinite", "value": "nan"}
    wire = [attack, *runs.scenario.get("wire", [])]
    return not_finite(values_of(runs.result(wire=wire, fleet={"malicious": [ATTACKER]})))


def engine_laws(*left_out: str) -> Iterator[Law]:
    """The laws of runs, without some of them, as laws that every kind must keep."""
    for check in (
        finite_runs,
        float64,
        blocks,
        resume,
        memory_of_absent_clients,
        nonfinite_message,
    ):
        if check.__name__ not in left_out:
            yield as_law(check, always=True)
