"""`data.skew` -> a federation whose clients' samples differ."""

import numpy as np

from fedsim.assemble.hooks import located_hooks, make_link
from fedsim.assemble.memory import check_memory
from fedsim.assemble.problems import Findings, Problems
from fedsim.compose import tag_of, unique_names
from fedsim.compose.shapes import ContractError
from fedsim.data import Federation, Skew, numbers_of, skew_refusal, skewed, with_copied_tests
from fedsim.errors import PartitionError
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario.scenario import Scenario


def with_skews(scenario: Scenario, federation: Federation, seed: int) -> Federation:
    """Return the federation after the skews of `data.skew`; without any, the same one."""
    sections = scenario.spec.data.skew
    if not sections:
        return federation

    problems = Problems(scenario)
    skews: list[Skew] = []
    for i, section in enumerate(sections):
        skew = problems.attempt(make_link, scenario, ("data", "skew", i), section)
        problems.check(_unfit, i, section.kind, skew, federation)
        skews.append(skew)
    problems.raise_all()
    _check_memory(scenario, skews, federation)

    def of_client(tag: int, client: int) -> np.random.Generator:
        return generator(seed, Stream.SKEWED, tag, client)

    dtype = np.dtype(scenario.spec.numerics.dtype)
    names = unique_names([section.kind for section in sections])
    original = with_copied_tests(federation)
    result = original
    for i, (section, name, skew) in enumerate(zip(sections, names, skews, strict=True)):
        path = ("data", "skew", i)
        try:
            with located_hooks(scenario, path, section):
                rng = generator(seed, Stream.SKEW, tag_of(name))
                numbers = numbers_of(skew, original.N, rng)
                result = skewed(
                    result,
                    name,
                    skew,
                    numbers=numbers,
                    generator=of_client,
                    dtype=dtype,
                    given=original,
                )
        except (PartitionError, ContractError) as error:
            raise scenario.error(path, f"{section.kind}: {error}") from None
    return result


def _unfit(i: int, kind: str, skew: Skew, federation: Federation) -> Findings:
    text = skew_refusal(skew, federation)
    if text:
        yield ("data", "skew", i), f"{kind} {text}"


def _check_memory(scenario: Scenario, skews: list[Skew], f: Federation) -> None:
    """Refuse copies of the samples that do not fit, before any is made."""
    if not any(skew.features for skew in skews):
        return
    item_bytes = np.dtype(scenario.spec.numerics.dtype).itemsize
    sets = (f.train.x, f.test.x, f.validation.x, f.server.x)
    items = sum(int(np.prod(x.shape)) for x in sets)
    check_memory(scenario, {"skew": item_bytes * items})
