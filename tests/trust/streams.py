"""Row 17: keys of random streams are distinct; seeds and purposes do not affect each other."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.engine.keys import Phase, round_key
from fedsim.fleet.selection import Population, uniform
from fedsim.fleet.streams import Stream, _key, generator
from fedsim.scenario import read
from trust.table import Figure

DATA = {"kind": "digits", "clients": 30, "partition": {"kind": "dirichlet", "alpha": 0.5}}
BASE = {
    "name": "streams",
    "rounds": 5,
    "data": DATA,
    "cohort": {"kind": "uniform", "size": 8},
    "client": {"lr": 0.1, "batch": 16, "epochs": 2},
}
TOGGLES = {
    "attackers": {"fleet": {"malicious": 0.2}, "wire": [{"kind": "sign_flip"}]},
    "noise on the wire": {"wire": [{"kind": "gaussian", "std": 0.1}], "fleet": {"malicious": 0.5}},
    "a stage before the rule": {"server": [{"kind": "mix_neighbours", "f": 1}, "median"]},
    "a robust rule": {"server": ["median"]},
    "a method with memory": {"method": "scaffold"},
    "a server optimizer": {"server": ["mean", {"kind": "adam", "lr": 0.01}]},
    "diagnostics": {"evaluate": {"diagnostics": True}},
    "rarer evaluation": {"evaluate": {"every": 5}},
    "more rounds": {"rounds": 9},
    "another learning rate": {"client": {"lr": 0.3, "batch": 16, "epochs": 2}},
    "another seed beside it": {"seeds": [0, 7]},
    "skews": {
        "data": {
            **DATA,
            "skew": [
                "rotation",
                "feature_noise",
                "label_noise",
                {"kind": "concept_shift", "every": 2},
            ],
        }
    },
    "augmentation": {"data": {**DATA, "augment": ["flip", "crop"]}},
}


def host_keys(count: int) -> tuple[int, int]:
    """Count the host's 128-bit keys over purposes, rounds, clients, seeds: all and distinct."""
    each = round((count / len(Stream)) ** (1 / 3))
    edges = np.array([0, 1, 2**16, 2**31, 2**32 - 1], np.uint64)
    rng = np.random.default_rng(0)
    values = [
        np.unique(np.concatenate([edges, rng.integers(0, 2**32, each, np.uint64)]))
        for _ in range(3)
    ]
    seed, round_, client = (a.ravel() for a in np.meshgrid(*values, indexing="ij"))
    keys = [np.stack(np.broadcast_arrays(*_key(seed, s, round_, client)), 1) for s in Stream]
    whole = np.ascontiguousarray(np.concatenate(keys)).view([("a", "u8"), ("b", "u8")]).ravel()
    return len(whole), len(np.unique(whole))


def device_keys(count: int) -> tuple[int, int]:
    """Count the device's 64-bit keys over seeds, rounds, phases, clients: all and distinct."""
    seeds, rounds, phases = 10, 100, [phase for phase in Phase if phase != Phase.START]
    clients = -(-count // (seeds * rounds * len(phases)))
    rng = np.random.default_rng(1)
    chosen = rng.choice(2**32, seeds, replace=False).astype(np.uint32)

    @jax.jit
    def of_seed(seed):
        root = jax.random.key(seed)

        def one(r, client):
            return [
                jax.random.key_data(jax.random.fold_in(round_key(root, r, phase), client))
                for phase in phases
            ]

        over_clients = jax.vmap(one, (None, 0))
        ids = np.arange(clients, dtype=np.int32)
        return jnp.stack(jax.vmap(over_clients, (0, None))(np.arange(rounds, dtype=np.int32), ids))

    drawn = [np.asarray(of_seed(seed)).reshape(-1, 2).astype(np.uint64) for seed in chosen]
    whole = np.concatenate([pair[:, 0] << np.uint64(32) | pair[:, 1] for pair in drawn])
    return len(whole), len(np.unique(whole))


def shared_sequences(seeds: int, rounds: int = 10) -> int:
    """Count the seeds that draw the cohorts of another seed."""
    population = Population(np.arange(100), np.ones(100, int))
    draw = uniform(10).draw
    drawn = [
        b"".join(
            np.sort(draw(population, r, generator(s, Stream.COHORT, r))).tobytes()
            for r in range(1, rounds + 1)
        )
        for s in range(seeds)
    ]
    return seeds - len(set(drawn))


def facts(sections: dict) -> dict[str, bytes]:
    """Everything drawn before training, by purpose: partition, cohorts, batches, start model."""
    scenario = read({**BASE, **sections})
    with numerics(scenario):
        experiment = build(scenario)
    plan, federation = experiment.plans[0], experiment.plans[0].federation
    rounds = [plan.round(r)[0] for r in range(1, 6)]
    batches = [plan.work.batches(work.round, int(k)) for work in rounds for k in work.ids]
    start = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(experiment.shared[0]["params"])]
    return {
        "partition": federation.holders.indices.tobytes() + federation.holders.offsets.tobytes(),
        "cohorts": b"".join(work.ids.tobytes() for work in rounds),
        "batches": b"".join(array.tobytes() for array in itertools.chain(*batches)),
        "start model": b"".join(start),
    }


def distinct(quick: bool) -> Figure:
    """Measure keys, seeds and purposes."""
    count = 10**5 if quick else 10**7
    host, host_distinct = host_keys(count)
    device, device_distinct = device_keys(count)
    seeds = 100 if quick else 10_000
    shared = shared_sequences(seeds)
    plain = facts({})
    toggles = dict(list(TOGGLES.items())[: 3 if quick else None])
    changed = []
    for name, sections in toggles.items():
        drawn = facts(sections)
        changed += [f"{name}: {purpose}" for purpose in drawn if drawn[purpose] != plain[purpose]]
    which = ": " + ", ".join(changed) if changed else ""
    text = (
        f"{host:,} keys of the host ({host - host_distinct} equal), {device:,} of the device "
        f"({device - device_distinct} equal); {seeds:,} seeds, {shared} with another's cohorts; "
        f"{len(toggles)} purposes switched on, "
        f"{len(changed)} of {len(toggles) * len(plain)} draws changed{which}"
    )
    least = quick or (host >= 10**7 and device >= 10**7)
    return Figure(
        text,
        least
        and host == host_distinct
        and device == device_distinct
        and not shared
        and not changed,
    )
