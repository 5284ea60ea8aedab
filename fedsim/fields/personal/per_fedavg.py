"""Per-FedAvg: a shared start for the training of every client."""

from typing import Annotated, Literal

import jax
from annotated_types import Ge, Gt

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.types import Client, LocalPhase, Scored

OUTER = 1  # the second gradient of a local step, after the one that adapts


@client
def per_fedavg(
    order: Literal["first", "hessian", "hf"] = "first",
    alpha: Annotated[float, Ge(0)] = 0.01,
    delta: Annotated[float, Gt(0)] = 0.001,
) -> Client:
    """Training for a model that is good after one step of every client on its own samples.

    A local step, on two batches, from w = x:  u = w − α ∇f_i(w; batch);  g = ∇f_i(u; batch′);
    first:    w ← w − η_l g;
    hessian:  w ← w − η_l (g − α ∇²f_i(w; batch′) g);
    hf:       the same, with (∇f_i(w + δ g; batch′) − ∇f_i(w − δ g; batch′)) / 2δ for the product.
    The client's own model is the shared one after one step of length α on its own samples, which
    every client takes before it is scored, also one that never takes part.

    State: none.    Sends: one model.    Rule: `mean(uniform)`.
    A local step takes two batches; `hessian` and `hf` cost more in each.
    With α = 0: `sgd` on every second batch.

    Args:
      order: what is made of second derivatives: `first` leaves them out.
      alpha: α, the step of the adaptation.
      delta: δ, of the difference of gradients; only for `hf`.

    References:
      Fallah, Mokhtari, Ozdaglar 2020, Personalized Federated Learning: A Meta-Learning Approach,
      arXiv:2002.07948, Algorithm 1.
    """

    def adapted(params, g):
        return jax.tree.map(lambda w, g: w - alpha * g, params, g)

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        return variables, {**local, "u": shared["params"]}

    def gradient(task, variables, batch, local, shared, work):
        is_outer = work.substep == OUTER
        params = tree.select(is_outer, local["u"], variables["params"])
        value, g = hooks.gradient(task, {**variables, "params": params}, batch, local, shared, work)
        if order == "first":
            return value, g

        def gradient_at(params):
            return task.value_and_grad({**variables, "params": params}, batch)[1]

        curvature = hessian_product if order == "hessian" else difference
        product = curvature(gradient_at, variables["params"], g)
        return value, tree.select(is_outer, adapted(g, product), g)

    def hessian_product(gradient_at, w, g):
        return jax.jvp(gradient_at, (w,), (g,))[1]

    def difference(gradient_at, w, g):
        ahead = gradient_at(jax.tree.map(lambda w, g: w + delta * g, w, g))
        behind = gradient_at(jax.tree.map(lambda w, g: w - delta * g, w, g))
        return tree.scale(tree.subtract(ahead, behind), 1 / (2 * delta))

    def step(task, g, params, local, shared, work):
        moved, stepped = hooks.step(task, g, params, local, shared, work)
        w, optimizer = tree.select(
            work.substep == OUTER,
            (moved, stepped["optimizer"]),
            (params, local["optimizer"]),
        )
        return w, {**local, "optimizer": optimizer, "u": adapted(params, g)}

    def adapt(task, g, params, local, shared, work):
        del task, shared, work
        return adapted(params, g), local

    return Client(
        memory=hooks.no_memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=hooks.finish,
        scored=Scored(hooks.shared_model, tune_steps=1, tune_step=adapt),
        phases=(LocalPhase("local", substeps=2),),
        needs=frozenset({"solo"}),
    )
