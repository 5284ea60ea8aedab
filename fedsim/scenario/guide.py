"""Which rule to take: `fedsim explain rules`, from docstrings, signatures and the kept runs of `scenarios/robust`."""

import csv
import functools
import inspect
from collections.abc import Callable
from importlib.resources import files
from typing import Any, get_args

import yaml

from fedsim.kinds import FAMILIES
from fedsim.scenario.catalogue import catalogue
from fedsim.scenario.docs import docs_of, labelled_parts

TOLD = ("f", "trim")  # hyper-parameters that say how many malicious clients to expect
MEASURED = ("method", "alike", "different", "falls")  # columns of guide.csv


@functools.cache
def guide() -> dict[str, Any]:
    """`summary` and `lines`: `when`, `take`, and `shown`, comparisons of kept runs on which a line rests."""
    return yaml.safe_load(files("fedsim.rules").joinpath("guide.yaml").read_text(encoding="utf-8"))


@functools.cache
def measured() -> dict[str, dict[str, str]]:
    """Method -> accuracy under its worst attack where clients are alike and where they differ, and where it falls."""
    text = files("fedsim.rules").joinpath("guide.csv").read_text(encoding="utf-8")
    return {row["method"]: row for row in csv.DictReader(text.splitlines())}


def guide_to_rules() -> dict[str, Any]:
    """Advice, and what is known of every rule, in the form of an explanation."""
    catalogue("rules")  # registers them
    about = (
        "Accuracies are those of scenarios/robust/worst_case.yaml on digits, 4 of 20 clients malicious, each rule under the "
        "worst of nine attacks: first where clients have alike samples (Dirichlet 100), then where they differ (Dirichlet 1). "
        "A rule falls, in scenarios/robust/breakdown.yaml, at the share of malicious clients from which on half of what "
        "training gains is lost under the worst of three attacks. `evaluate.diagnostics` compares a round with the κ of a rule."
    )
    advice = "\n".join(f"{line['when']}: {line['take']}" for line in guide()["lines"])
    rules = {
        name: f for name, f in FAMILIES["rule"].items() if f.__module__.startswith("fedsim.rules.")
    }
    entries = {name: known_of(name, factory) for name, factory in sorted(rules.items())}
    return {
        "family": "guide",
        "kind": "rules",
        "summary": guide()["summary"],
        "body": f"{advice}\n\n{about}",
        "parameters": [],
        "entries": entries,
    }


def known_of(name: str, factory: Callable) -> str:
    """What a rule resists, is told, needs and costs, and what was measured of it."""
    docs = labelled_parts(docs_of(factory).body)
    counts = [name for name in inspect.signature(factory).parameters if name in TOLD]
    parts = [f"resists {docs['Resists']}" if "Resists" in docs else ""]
    parts += [
        f"is told {counts[0]}" if counts else "",
        "has a published κ" if _bounded(factory) else "",
        f"costs {docs['Cost']}" if "Cost" in docs else "",
    ]
    return "; ".join(filter(None, [*parts, *map(_measured, _rows_of(name))])) + "."


def _bounded(factory: Callable) -> bool:
    """Whether a published bound of a rule is known."""
    parameters = inspect.signature(factory, eval_str=True).parameters.values()
    number = lambda annotation: next(iter(get_args(annotation)), annotation)(1)
    needed = {p.name: number(p.annotation) for p in parameters if p.default is p.empty}
    return factory(**needed).bound is not None


def _rows_of(name: str) -> list[dict[str, str]]:
    return [row for method, row in measured().items() if method.partition("(")[0] == name]


def _measured(row: dict[str, str]) -> str:
    kept = f"keeps {row['alike']} and {row['different']}" if row["alike"] else ""
    falls = f"falls from {row['falls']}" if row["falls"] else ""
    return f"{row['method']} {', '.join(filter(None, [kept, falls]))}"
