"""SCAFFOLD: control variates against client drift."""

from typing import Literal

import jax

from fedsim import tree
from fedsim.clients import hooks
from fedsim.clients.probe import add_rows, gradient_at_x, no_rows, start_with_x
from fedsim.compose import client
from fedsim.types import Client

# What it is tuned over where a comparison says `ranges: true`.
ranges = {"client.lr": "log(1e-2, 1)"}


@client
def scaffold(option: Literal[1, 2] = 2) -> Client:
    """Control variates: every local step is corrected towards what all clients would do.

    y ← y − η_l (∇f_i(y; batch) − c_i + c), from y = x; then
    option I:   c_i⁺ = ∇f_i(x), over the batches that the client trained on;
    option II:  c_i⁺ = c_i − c + (x − y) / Σ η_l;
    sends Δ_i = y − x and δ_i = c_i⁺ − c_i;
    server: x ← x + η_g mean Δ_i ;  c ← c + (1/N) Σ_{i∈S} δ_i.
    c and all c_i start at 0, so c = mean of all c_i after every round, whoever took part.

    State: c_i, one model a client; c, one model.    Sends: two models, receives two.
    Rule: `mean(uniform)`.    Option I costs a second gradient per step.

    Args:
      option: I or II of the paper, as 1 or 2.

    References:
      Karimireddy et al. 2020, SCAFFOLD, arXiv:1910.06378, Algorithm 1.
    """

    def memory(shared, key):
        del key
        return {"c_i": tree.zeros_like(shared["params"])}

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        return variables, {**local, "c_i": row["c_i"]}

    def start_with_sum(task, shared, row, work):
        variables, local = start_with_x(task, shared, row, work)
        return variables, {**local, "c_i": row["c_i"], "at_x": no_rows(shared, work)}

    def correct(g, local, shared):
        return jax.tree.map(lambda g, c_i, c: g - c_i + c, g, local["c_i"], shared["aux"]["c"])

    def corrected(task, variables, batch, local, shared, work):
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        return value, correct(g, local, shared)

    def corrected_with_x(task, variables, batch, local, shared, work):
        """Option I: also the same batch's gradient at the global model, to be summed."""
        value, g = hooks.gradient(task, variables, batch, local, shared, work)
        at_x = gradient_at_x(task, variables, batch, local)
        return value, (correct(g, local, shared), at_x, batch.mask.sum())

    def step_and_sum(task, g, params, local, shared, work):
        g, at_x, rows = g
        params, local = hooks.step(task, g, params, local, shared, work)
        return params, {**local, "at_x": add_rows(local["at_x"], at_x, rows.astype(work.lr.dtype))}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        if option == 1:
            new = tree.over(local["at_x"]["sum"], local["at_x"]["rows"])
        else:
            lead = tree.over(message.delta, work.lr_sum)
            new = jax.tree.map(lambda c_i, c, d: c_i - c - d, row["c_i"], shared["aux"]["c"], lead)
        return message._replace(aux={"c": tree.subtract(new, row["c_i"])}, memory={"c_i": new})

    return Client(
        memory=memory,
        start=start_with_sum if option == 1 else start,
        gradient=corrected_with_x if option == 1 else corrected,
        step=step_and_sum if option == 1 else hooks.step,
        finish=finish,
        aux=lambda task, params: {"c": tree.zeros_like(params)},
        reduce={"c": "sum_over_N"},
        needs=frozenset({"solo"}) if option == 1 else frozenset(),
    )
