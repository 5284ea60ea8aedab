"""The samples of a scenario, as a step of its check."""

from itertools import chain
from typing import Any

import numpy as np

from fedsim.assemble.facts import Facts
from fedsim.assemble.federation import altered, evenly_partitioned
from fedsim.assemble.fields import alterations
from fedsim.assemble.hooks import check_augmentation
from fedsim.assemble.plans import absent_clients, of_first_seed
from fedsim.assemble.problems import UNKNOWN
from fedsim.errors import dotted

# Keys of the data section without which its samples can be loaded all the same.
PARTITIONING = [("data", "partition"), ("data", "clients"), ("data", "skew")]
AUGMENT = ("data", "augment")


def load_samples(facts: Facts) -> None:
    """Load the samples and partition them."""
    scenario = facts.scenario
    dtype = np.dtype(scenario.spec.numerics.dtype)
    read = [("data", key) for key in type(scenario.spec.data).model_fields if key != "augment"]
    federations = facts.attempt(facts.make_federations, scenario, facts.data, dtype, reads=read)
    if federations:
        federation = of_first_seed(federations)
        N = federation.N
        absent = absent_clients(scenario, N)
        eligible = min(int(((each.sizes > 0) & ~absent).sum()) for each in federations.values())
        facts.learn(partitioned=federation)
    else:
        federation, N = _without_partition(facts, dtype)
        eligible = N

    is_known = federation is not UNKNOWN
    facts.learn(
        federations=federations,
        federation=federation,
        N=N,
        eligible=eligible,
        classes=federation.classes if is_known else UNKNOWN,
        per_token=federation.per_token if is_known else UNKNOWN,
    )


def _without_partition(facts: Facts, dtype: np.dtype) -> tuple[Any, Any]:
    """The samples in equal parts and the number of clients, where the partition was refused.

    Both are UNKNOWN where the samples were refused, too.
    """
    of_fields = [change.path for change in alterations()]
    without = [*PARTITIONING, *of_fields]
    if not facts.refused(*map(dotted, without), "evaluate.metric"):
        return UNKNOWN, UNKNOWN

    scenario = facts.scenario
    spec = scenario.spec
    keys = [("data", key) for key in type(spec.data).model_fields]
    read = [key for key in keys if key not in (*without, AUGMENT)]
    federation = facts.attempt(evenly_partitioned, scenario, facts.data, dtype, reads=read)

    # What changes samples follows the partition, so nobody has looked at them yet.
    if facts.refused("data.partition", "data.clients"):
        also_read = chain(*(change.reads for change in alterations()))
        altering = [("data", "skew"), *of_fields, *also_read]
        facts.attempt(altered, scenario, federation, spec.seeds[0], reads=altering)

    # A natural partition has a client for every id among the samples.
    is_natural = spec.data.partition.kind == "natural"
    if is_natural or facts.refused("data.clients", "data.partition.kind"):
        return federation, UNKNOWN
    return federation, spec.data.clients


def check_augmentations(facts: Facts) -> None:
    """Check that every link of `data.augment` makes an image of an image."""
    for i, section in enumerate(facts.spec.data.augment):
        arguments = (facts.scenario, i, section, facts.maybe("federation"))
        facts.attempt(check_augmentation, *arguments, reads=[AUGMENT])
