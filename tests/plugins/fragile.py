"""A rule that ends its process on a cluster, as long as the file that FRAGILE names is there."""

import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

import fedsim


@fedsim.rule
def fragile():
    def apply(updates, context):
        if (
            "fedsim.runs.remote" in sys.orig_argv
            and Path(os.environ.get("FRAGILE", "/nowhere")).exists()
        ):
            os._exit(3)
        return jax.tree.map(lambda leaf: jnp.mean(leaf, 0), updates.delta)

    return apply
