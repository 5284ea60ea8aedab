"""The order of a list of links: stages, exactly one rule, steps on the aggregate, optimisers."""

from collections.abc import Sequence
from typing import Any

from fedsim.errors import OrderError


def index_of_rule(sections: Sequence[Any]) -> int:
    """Stages, exactly one rule, steps on the aggregate, optimisers -> the rule's index.

    Raises:
      OrderError: for any other order.
    """
    rules = [i for i, section in enumerate(sections) if section.family == "rule"]
    if not rules:
        remedy = "needs exactly one rule, such as mean (fedsim list rules), between stages and optimisers"
        raise OrderError(f"has no rule; {remedy}")
    if len(rules) > 1:
        one, other = (sections[i].kind for i in rules[:2])
        remedy = "a list needs exactly one rule (fedsim list rules), take one out"
        raise OrderError(f"{other} is a second rule, after {one}; {remedy}", rules[1])
    for i, section in enumerate(sections):
        if section.family == "optimizer" and i < rules[0]:
            raise OrderError(
                f"{section.kind} is an optimiser and stands before the rule; move it behind", i
            )
        if section.family == "stage" and i > rules[0]:
            raise OrderError(
                f"{section.kind} works on a stack and stands after the rule; move it before", i
            )
        if section.family == "aggregate_stage" and i < rules[0]:
            raise OrderError(
                f"{section.kind} works on the aggregate and stands before the rule; move it behind",
                i,
            )
        if section.family == "aggregate_stage" and sections[i - 1].family == "optimizer":
            raise OrderError(
                f"{section.kind} works on the aggregate and stands after {sections[i - 1].kind}; move it before",
                i,
            )
    return rules[0]
