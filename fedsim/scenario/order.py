"""The order of a list of links: stages, exactly one rule, steps on the aggregate, optimisers."""

from collections.abc import Sequence
from typing import Any

from fedsim.errors import OrderError


def index_of_rule(sections: Sequence[Any]) -> int:
    """Return the index of the only rule in a list of links.

    Raises:
      OrderError: if the list is not stages, one rule, steps on the aggregate, optimisers.
    """
    rules = [i for i, section in enumerate(sections) if section.family == "rule"]
    if not rules:
        raise OrderError(
            "has no rule; needs exactly one rule, such as mean (fedsim list rules), "
            "between stages and optimisers"
        )
    if len(rules) > 1:
        first, second = rules[:2]
        raise OrderError(
            f"{sections[second].kind} is a second rule, after {sections[first].kind}; "
            "a list needs exactly one rule (fedsim list rules), remove one",
            second,
        )

    rule = rules[0]
    for i, section in enumerate(sections):
        misplaced = ""
        if section.family == "optimizer" and i < rule:
            misplaced = "is an optimiser and comes before the rule; move it after the rule"
        elif section.family == "stage" and i > rule:
            misplaced = "works on a stack and comes after the rule; move it before the rule"
        elif section.family == "aggregate_stage" and i < rule:
            misplaced = "works on the aggregate and comes before the rule; move it after the rule"
        elif section.family == "aggregate_stage" and sections[i - 1].family == "optimizer":
            previous = sections[i - 1].kind
            misplaced = f"works on the aggregate and comes after {previous}; move it before that"
        if misplaced:
            raise OrderError(f"{section.kind} {misplaced}", i)
    return rule
