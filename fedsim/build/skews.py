"""`data.skew` -> a federation whose clients' samples differ."""

from functools import partial
from typing import Any

import numpy as np

from fedsim.build.hooks import located_hooks, make_link
from fedsim.build.memory import check_memory
from fedsim.data import Federation, Skew, named, numbers_of, refusal, skewed, tag_of
from fedsim.errors import PartitionError, ScenarioError
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario.schema import Scenario


def skewed_as_written(scenario: Scenario, federation: Federation, seed: int) -> Federation:
    """The federation with the samples of its clients skewed by `data.skew`; the same one where there is none.

    Raises:
      ScenarioError: for samples that cannot be skewed so, with a line for every link.
      TooLargeError: when there is no room for a copy of the samples.
    """
    sections = scenario.spec.data.skew
    skews = [make_link(scenario, ("data", "skew", i), section) for i, section in enumerate(sections)]
    _check(scenario, skews, federation)
    skew_one = partial(_skewed, scenario, seed=seed, given=federation)
    f = federation
    for i, name in enumerate(named([section.kind for section in sections])):
        f = skew_one(i, name, skews[i], f)
    return f


def _skewed(
    scenario: Scenario, i: int, name: str, skew: Skew, f: Federation, seed: int, given: Federation
) -> Federation:
    """The federation after its i-th skew."""
    place, section = ("data", "skew", i), scenario.spec.data.skew[i]
    rows_generator = lambda tag, client: generator(seed, Stream.SKEWED, tag, client)
    dtype = np.dtype(scenario.spec.numerics.dtype)
    try:
        with located_hooks(scenario, place, section):
            numbers = numbers_of(skew, f.N, generator(seed, Stream.SKEW, tag_of(name)))
            return skewed(f, name, skew, numbers, rows_generator, dtype, given)
    except PartitionError as error:
        raise scenario.error(place, f"{name}: {error}") from None


def _check(scenario: Scenario, skews: list[Skew], f: Federation) -> None:
    """Refuse samples that cannot be skewed so, and copies of them that have no room, before anything is copied."""
    problems: list[Any] = []
    for i, skew in enumerate(skews):
        if text := refusal(skew, f):
            kind = scenario.spec.data.skew[i].kind
            problems += scenario.error(("data", "skew", i), f"{kind} {text}").problems
    if problems:
        raise ScenarioError(problems, scenario.document.file)
    if any(skew.features for skew in skews):
        width = np.dtype(scenario.spec.numerics.dtype).itemsize
        check_memory(scenario, {"skew": width * sum(part.size for part in (f.x, f.x_test, f.x_validation, f.x_server))})
