"""Which rule to take: `fedsim explain rules`.

It is made of docstrings, signatures and the stored runs of `scenarios/robust`.
"""

import csv
import functools
import inspect
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import yaml

from fedsim.installed import fields, folder_of
from fedsim.kinds import FAMILIES
from fedsim.kinds.examples import arguments_of
from fedsim.kinds.shipped import home_of
from fedsim.scenario.catalogue import catalogue
from fedsim.scenario.docs import docs_of, labelled_parts

FILE = "guide.yaml"

# Hyper-parameters that are the number of malicious clients to expect.
ATTACKER_COUNTS = ("f", "trim")

# The columns of guide.csv.
MEASURED = ("method", "alike", "different", "falls")

ABOUT = (
    "Accuracies are those of scenarios/robust/worst_case.yaml on digits with 4 of 20 clients "
    "malicious, each rule under the worst of nine attacks: first where clients have alike samples "
    "(Dirichlet 100), then where they differ (Dirichlet 1). A rule falls, in "
    "scenarios/robust/breakdown.yaml, at the smallest share of malicious clients for which half of "
    "what training gains is lost under the worst of three attacks. `evaluate.diagnostics` compares "
    "a round with the κ of a rule."
)


@functools.cache
def guide() -> dict[str, Any]:
    """Return the advice of guide.yaml, with the lines of fields.

    Returns:
      `summary`, and `lines` with `when`, `take` and `shown`: the comparisons of stored runs that
      support the line.
    """
    advice = yaml.safe_load(files("fedsim.rules").joinpath(FILE).read_text(encoding="utf-8"))
    for package in fields().values():
        file = folder_of(package) / FILE
        if file.exists():
            advice["lines"] += yaml.safe_load(file.read_text(encoding="utf-8"))["lines"]
    return advice


@functools.cache
def measured() -> dict[str, dict[str, str]]:
    """Return method -> its row of guide.csv.

    A row has the accuracy under the method's worst attack where clients are alike and where they
    differ, and the share of malicious clients at which it falls.
    """
    text = files("fedsim.rules").joinpath("guide.csv").read_text(encoding="utf-8")
    return {row["method"]: row for row in csv.DictReader(text.splitlines())}


def guide_to_rules() -> dict[str, Any]:
    """Return the advice, and what is known of every rule, in the form of an explanation."""
    catalogue("rules")  # registers them
    advice = "\n".join(f"{line['when']}: {line['take']}" for line in guide()["lines"])
    entries: dict[str, str] = {}
    for name, factory in sorted(FAMILIES["rule"].items()):
        if home_of(factory) is not None:
            entries[name] = facts_of_rule(name, factory)
    return {
        "family": "guide",
        "kind": "rules",
        "summary": guide()["summary"],
        "body": f"{advice}\n\n{ABOUT}",
        "parameters": [],
        "entries": entries,
    }


def facts_of_rule(name: str, factory: Callable) -> str:
    """Return what a rule resists, needs to know and costs, and what was measured of it."""
    parts = labelled_parts(docs_of(factory).body)
    counts = [name for name in inspect.signature(factory).parameters if name in ATTACKER_COUNTS]
    facts: list[str] = []
    if "Resists" in parts:
        facts.append(f"resists {parts['Resists']}")
    if counts:
        facts.append(f"is given {counts[0]}")
    if factory(**arguments_of("rule", name)).bound is not None:
        facts.append("has a published κ")
    if "Cost" in parts:
        facts.append(f"costs {parts['Cost']}")
    for method, row in measured().items():
        if method.partition("(")[0] == name:
            facts.append(_measurement(row))
    return "; ".join(facts) + "."


def _measurement(row: dict[str, str]) -> str:
    """Return `median keeps 0.93 and 0.81, falls from 0.4`."""
    results: list[str] = []
    if row["alike"]:
        results.append(f"keeps {row['alike']} and {row['different']}")
    if row["falls"]:
        results.append(f"falls from {row['falls']}")
    return f"{row['method']} {', '.join(results)}"
