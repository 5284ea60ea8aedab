"""What is tried of a method: every combination of its lists, or drawn values within a budget.

Random search: Bergstra and Bengio 2012, Random Search for Hyper-Parameter Optimization, JMLR 13.
"""

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence

from fedsim.errors import Problem, ScenarioError
from fedsim.scenario.ranges import range_of
from fedsim.study.methods import is_drawn

DRAWS = 1000  # per trial, before a search gives up on finding values that it has not tried

NO_BUDGET = "{path} is a range; how many settings are tried of it? set compare.budget=16"
NO_RANGES = (
    "nothing is tuned over a range, such as client.lr: log(1e-3, 1), and of lists every value is "
    "tried; remove it"
)


def demand_budget(axes: Mapping[str, Sequence[str]], budget: int | None) -> None:
    """Refuse ranges without a budget."""
    for path, values in axes.items():
        if is_drawn(values) and budget is None:
            raise ScenarioError([Problem("", NO_BUDGET.format(path=path))], "--tune")


def demand_ranges(all_axes: Sequence[Mapping[str, Sequence[str]]], budget: int | None) -> None:
    """Refuse a budget where nothing is tuned over a range."""
    for axes in all_axes:
        if any(map(is_drawn, axes.values())):
            return
    if budget is not None:
        raise ScenarioError([Problem("", NO_RANGES)], "compare.budget")


def settings_of(axes: Mapping[str, Sequence[str]], budget: int | None) -> list[dict[str, str]]:
    """Return what is tried of one method: path -> value as text; one empty setting without axes.

    Args:
      budget: how many settings are drawn; None: all combinations are tried. Where there are no more
        combinations than that, all of them are tried as well.

    >>> settings_of({"client.lr": ["log(1e-3, 1)"], "client.epochs": ["1", "2"]}, 2)
    [{'client.lr': '0.00151', 'client.epochs': '1'}, {'client.lr': '0.318', 'client.epochs': '2'}]
    """
    if budget is None or _combinations(axes) <= budget:
        every = [_all_of(values) for values in axes.values()]
        return [dict(zip(axes, values, strict=True)) for values in itertools.product(*every)]

    settings: list[dict[str, str]] = []
    for draw in range(DRAWS * budget):
        setting = {path: _drawn(path, values, draw) for path, values in axes.items()}
        if setting not in settings:
            settings.append(setting)
        if len(settings) == budget:
            break
    return settings


def shuffled(trials: int) -> list[int]:
    """Return the numbers of so many trials in an order that has nothing to do with their values."""
    return sorted(range(trials), key=lambda trial: _share("order of trials", trial))


def _combinations(axes: Mapping[str, Sequence[str]]) -> float:
    """How many combinations of values there are."""
    sizes = []
    for values in axes.values():
        sizes.append(range_of(values[0]).size if is_drawn(values) else len(values))
    return math.prod(sizes)


def _all_of(values: Sequence[str]) -> list[str]:
    """The values of a path, of which there are few."""
    if not is_drawn(values):
        return list(values)
    integers = range_of(values[0])
    return [str(value) for value in range(int(integers.low), int(integers.high) + 1)]


def _drawn(path: str, values: Sequence[str], draw: int) -> str:
    """The value of a path in one draw, which is the same with every method that tunes the path."""
    share = _share(path, draw)
    if is_drawn(values):
        return str(range_of(values[0]).at(share))
    return values[math.floor(share * len(values))]


def _share(path: str, draw: int) -> float:
    """A number in [0, 1), uniform over draws; it depends on nothing but the path and the draw."""
    digest = hashlib.sha256(f"{path} {draw}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
