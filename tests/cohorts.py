"""Stacks of updates and rounds, for rules and stages that are called by themselves."""

from typing import Any

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.types import Context, Updates


def cohort_of(delta: Any, arrived: Any = None, samples: Any = None, **fields: Any) -> Updates:
    """K updates `[K, ...]` that arrived from one sample each, unless other fields are given."""
    K = tree.rows(delta)
    one, zero = jnp.ones(K), jnp.zeros(K, jnp.int32)
    known = {
        "arrived": jnp.ones(K, bool) if arrived is None else arrived,
        "samples": one if samples is None else samples,
        **dict.fromkeys(("count", "loss", "steps", "effort"), one),
        **dict.fromkeys(("bytes", "age"), zero),
    }
    return Updates(
        delta=jax.tree.map(jnp.asarray, delta),
        **{"stats": {}, "aux": {}, "memory": (), **known, **fields},
    )


def context_of(K: int, **known: Any) -> Context:
    """The first round, of K clients of whom none is malicious, unless other fields are given."""
    usual = {
        "key": jax.random.key(0),
        "round": jnp.int32(1),
        "N": jnp.asarray(float(K)),
        "lr": jnp.asarray(0.1),
        "shared": {},
        "ids": jnp.arange(K),
        "malicious": jnp.zeros(K, bool),
    }
    return Context(**{**usual, **known})
