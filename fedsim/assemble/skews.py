"""`data.skew` -> a federation whose clients' samples differ."""

from collections.abc import Iterator

import numpy as np

from fedsim.assemble.hooks import located_hooks, make_link
from fedsim.assemble.memory import check_memory
from fedsim.assemble.problems import Problems
from fedsim.compose import named, tag_of
from fedsim.compose.shapes import ContractError
from fedsim.data import Federation, Skew, numbers_of, refusal, skewed, with_own_tests
from fedsim.errors import PartitionError
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario.reader import Path
from fedsim.scenario.scenario import Scenario


def skewed_as_written(scenario: Scenario, federation: Federation, seed: int) -> Federation:
    """The federation with the samples of its clients skewed by `data.skew`; the same one where there is none.

    Raises:
      ScenarioError: for samples that cannot be skewed so, with a line for every link.
      TooLargeError: when there is no room for a copy of the samples.
    """
    sections, skews, problems = scenario.spec.data.skew, [], Problems(scenario)
    for i, section in enumerate(sections):
        skews.append(problems.attempt(make_link, scenario, ("data", "skew", i), section))
        problems.check(_unfit, i, section.kind, skews[i], federation)
    problems.raise_all()
    _check_room(scenario, skews, federation)
    f = federation = with_own_tests(federation) if skews else federation
    for i, name in enumerate(named([section.kind for section in sections])):
        f = _skewed(scenario, i, name, skews[i], f, federation, seed)
    return f


def _skewed(
    scenario: Scenario, i: int, name: str, skew: Skew, f: Federation, given: Federation, seed: int
) -> Federation:
    """The federation after its i-th skew."""
    place, section = ("data", "skew", i), scenario.spec.data.skew[i]
    of_client = lambda tag, client: generator(seed, Stream.SKEWED, tag, client)
    dtype = np.dtype(scenario.spec.numerics.dtype)
    try:
        with located_hooks(scenario, place, section):
            numbers = numbers_of(skew, f.N, generator(seed, Stream.SKEW, tag_of(name)))
            return skewed(f, name, skew, numbers, of_client, dtype, given)
    except (PartitionError, ContractError) as error:
        raise scenario.error(place, f"{section.kind}: {error}") from None


def _unfit(i: int, kind: str, skew: Skew, federation: Federation) -> Iterator[tuple[Path, str]]:
    """A skew of samples that cannot be skewed so."""
    if text := refusal(skew, federation):
        yield ("data", "skew", i), f"{kind} {text}"


def _check_room(scenario: Scenario, skews: list[Skew], f: Federation) -> None:
    """Refuse copies of the samples that do not fit, before any is made."""
    if any(skew.features for skew in skews):
        width = np.dtype(scenario.spec.numerics.dtype).itemsize
        sets = (f.train.x, f.test.x, f.validation.x, f.server.x)
        check_memory(scenario, {"skew": width * sum(int(np.prod(part.shape)) for part in sets)})
