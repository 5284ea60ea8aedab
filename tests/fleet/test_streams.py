"""Random streams: no two share a key, and what is used for one purpose changes no other draw."""

import itertools

import jax
import numpy as np
import pytest

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.fleet.streams import Stream, generator
from fedsim.scenario import read

DATA = {"kind": "digits", "clients": 30, "partition": {"kind": "dirichlet", "alpha": 0.5}}
BASE = {
    "name": "streams",
    "rounds": 5,
    "data": DATA,
    "cohort": {"kind": "uniform", "size": 8},
    "client": {"lr": 0.1, "batch": 16, "epochs": 2},
}
SKEWS = ["rotation", "feature_noise", "label_noise", {"kind": "concept_shift", "every": 2}]
PURPOSES = {  # what is switched on -> the sections that do so
    "attackers": {"fleet": {"malicious": 0.2}, "wire": ["sign_flip"]},
    "noise on the wire": {"wire": [{"kind": "gaussian", "std": 0.1}], "fleet": {"malicious": 0.5}},
    "a stage before the rule": {"server": [{"kind": "mix_neighbours", "f": 1}, "median"]},
    "a method with memory": {"method": "scaffold"},
    "a server optimizer": {"server": ["mean", {"kind": "adam", "lr": 0.01}]},
    "diagnostics, and rarer evaluation": {"evaluate": {"diagnostics": True, "every": 5}},
    "more rounds, and another seed": {"rounds": 9, "seeds": [0, 7]},
    "another learning rate": {"client": {**BASE["client"], "lr": 0.3}},
    "skews": {"data": {**DATA, "skew": SKEWS}},
    "augmentation": {"data": {**DATA, "augment": ["flip", "crop"]}},
}


def test_streams_have_keys_of_their_own():
    edges = (0, 1, 2**16, 2**31, 2**32 - 1)
    places = list(itertools.product(edges, Stream, edges, edges))
    key_of = lambda place: tuple(generator(*place).bit_generator.state["state"]["key"].tolist())
    assert len(set(map(key_of, places))) == len(places)


def drawn(sections: dict) -> dict[str, bytes]:
    """What is drawn before training, by purpose: partition, cohorts, batches, start model."""
    scenario = read({**BASE, **sections})
    with numerics(scenario):
        experiment = build(scenario)
    plan = experiment.plans[0]
    holders = plan.federation.holders
    rounds = [plan.round(r)[0] for r in range(1, 6)]
    batches = [plan.work.batches(work.round, int(k)) for work in rounds for k in work.ids]
    start = jax.tree.leaves(experiment.shared[0]["params"])
    return {
        "partition": holders.indices.tobytes() + holders.offsets.tobytes(),
        "cohorts": b"".join(work.ids.tobytes() for work in rounds),
        "batches": b"".join(array.tobytes() for array in itertools.chain(*batches)),
        "start model": b"".join(np.asarray(leaf).tobytes() for leaf in start),
    }


@pytest.fixture(scope="module")
def plain():
    return drawn({})


@pytest.mark.quick(10)
@pytest.mark.parametrize("purpose", PURPOSES)
def test_what_is_drawn_for_another_purpose_stays(purpose, plain):
    assert drawn(PURPOSES[purpose]) == plain
