"""What an audited run tells of its canaries."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.disk.tables import Record
from fedsim.engine.meters.traffic import Traffic
from fedsim.engine.run import Run
from fedsim.fields.privacy.counting.auditing import audited_epsilon
from fedsim.fields.privacy.planting import canary_direction
from fedsim.fleet import Plan
from fedsim.tree import Tree


def tables(run: Run, spec: Any) -> dict[str, Record]:
    """Return `canaries.csv` of a run that has ended, where it is audited."""
    if spec.privacy is None or spec.privacy.audit is None:
        return {}
    plan = run.plan
    ids = canaries_of(plan)
    canaries = {
        "client": plan.federation.client_names[ids].tolist(),
        "takes_part": plan.marked[ids].astype(int).tolist(),
        "rounds_joined": run.meter(Traffic).joined[ids].tolist(),
        "score": canary_scores(run).tolist(),
    }
    return {"canaries": canaries}


def columns(tables: Mapping[str, Sequence[Record]], scenario: Mapping[str, Any]) -> Record:
    """Return the ε that the canaries of a run show, as columns of `summary.csv`."""
    if "canaries" not in tables:
        return {}
    canaries = tables["canaries"][0]
    privacy = scenario["privacy"]
    confidence = privacy["audit"]["confidence"]
    epsilon = audited_epsilon(
        scores=np.array(canaries["score"], float),
        takes_part=np.array(canaries["takes_part"], bool),
        delta=privacy["delta"],
        confidence=confidence,
    )
    return {"epsilon_low": epsilon, "epsilon_confidence": confidence}


def canaries_of(plan: Plan) -> np.ndarray:
    """Return the ids of all canaries: those that take part, and those that are left out."""
    out = plan.conditions.in_vain
    return np.flatnonzero(plan.marked if out is None else plan.marked | out)


def canary_scores(run: Run) -> np.ndarray:
    """Return how much every canary seems to have sent in all rounds of a run `[canaries]`.

    It is ⟨d, s⟩ for the canary's direction d and the sum s of all aggregates over C/m, without what
    other clients added: for a canary that is in, the rounds that it joined, plus the noise of all
    rounds and the shares of other canaries. Differential privacy holds against those who see every
    aggregate and know all other clients' updates, and they can compute it.
    """
    ids = jnp.asarray(canaries_of(run.plan), jnp.int32)
    products = _products(run.server.state["rule"].trace, ids)
    return np.asarray(products, np.float64)


@jax.jit
def _products(trace: Tree, ids: jax.Array) -> jax.Array:
    """Return the scalar product of a tree with the direction of every canary."""

    def product(id: jax.Array) -> jax.Array:
        direction = canary_direction(trace, id)
        products = jax.tree.map(lambda a, b: jnp.sum(a * b), direction, trace)
        return sum(jax.tree.leaves(products), start=jnp.zeros(()))

    return jax.lax.map(product, ids)
