"""Checked sections -> what their factories make."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fedsim.compose import FAMILIES
from fedsim.types import RowStage, Rule, Stage


class OrderError(ValueError):
    """A list of links in an order that means nothing; `index` is the link to blame, None the whole list."""

    def __init__(self, what: str, index: int | None = None):
        self.index = index
        super().__init__(what)


def link(section: Any) -> Callable:
    """A link's factory with its own hyper-parameters filled in (those of the section's common part left out)."""
    factory = FAMILIES[section.family][section.kind]
    names = [n for n in inspect.signature(factory).parameters if n in type(section).model_fields]
    return partial(factory, **{name: getattr(section, name) for name in names})


def stages_of(sections: Sequence[Any]) -> list[Stage | RowStage]:
    """A list of attacks and stages."""
    return [link(section)() for section in sections]


def server_of(sections: Sequence[Any]) -> tuple[list[Stage | RowStage], Rule, list[Any]]:
    """A server list: stages, exactly one rule, optimisers.

    Raises:
      OrderError: for any other order.
    """
    families = [section.family for section in sections]
    rules = [i for i, family in enumerate(families) if family == "rule"]
    if len(rules) != 1:
        where = rules[1] if rules else None
        raise OrderError(f"needs exactly one rule (fedsim list rules), found {len(rules)}", where)
    for i, family in enumerate(families):
        if family == "optimizer" and i < rules[0]:
            raise OrderError(f"{sections[i].kind} is an optimiser and stands before the rule; move it behind", i)
        if family == "stage" and i > rules[0]:
            raise OrderError(f"{sections[i].kind} works on a stack and stands after the rule; move it before", i)
    made = [link(section)() for section in sections]
    return made[: rules[0]], made[rules[0]], made[rules[0] + 1 :]
