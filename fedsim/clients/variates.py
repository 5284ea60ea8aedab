"""Methods that correct client drift by control variates."""

from typing import Annotated, Literal

import jax
from annotated_types import Gt

from fedsim import tree
from fedsim.clients.gradient import finish, gradient, start, step
from fedsim.clients.probe import gradient_at_x, over, start_with_x
from fedsim.compose import client
from fedsim.types import Client


@client
def scaffold(option: Literal[1, 2] = 2) -> Client:
    """Control variates: every client steps along its gradient corrected by what all clients would do.

    y ← y − η_l (∇f_i(y; batch) − c_i + c), from y = x; then
    option I:   c_i⁺ = ∇f_i(x), over the batches that the client met;
    option II:  c_i⁺ = c_i − c + (x − y) / Σ η_l;
    sends Δ_i = y − x and δ_i = c_i⁺ − c_i;  server: x ← x + η_g mean Δ_i ;  c ← c + (1/N) Σ_{i∈S} δ_i.
    c and all c_i start at 0, so c = mean of all c_i after every round, whoever took part.

    State: c_i, one model a client; c, one model.    Sends: two models, receives two.    Rule: `mean(uniform)`.
    Option I costs a second gradient per step.

    Args:
      option: I or II of the paper, as 1 or 2.

    References:
      Karimireddy et al. 2020, SCAFFOLD, arXiv:1910.06378, Algorithm 1.
    """

    def memory(shared, key):
        del key
        return {"c_i": tree.zeros_like(shared["params"])}

    def begin(task, shared, row, work):
        variables, local = (start_with_x if option == 1 else start)(task, shared, row, work)
        seen = {"sum": tree.zeros_like(shared["params"]), "rows": 0 * work.lr} if option == 1 else {}
        return variables, {**local, "c_i": row["c_i"], "at_x": seen}

    def correct(g, local, shared):
        return jax.tree.map(lambda g, c_i, c: g - c_i + c, g, local["c_i"], shared["aux"]["c"])

    def corrected(task, variables, batch, local, shared, work):
        met, g = gradient(task, variables, batch, local, shared, work)
        return met, correct(g, local, shared)

    def at_start(task, variables, batch, local, shared, work):
        """Option I: the gradient at x of the same batch is summed on the way."""
        met, g = gradient(task, variables, batch, local, shared, work)
        at_x = gradient_at_x(task, variables, batch, local)
        return met, (correct(g, local, shared), at_x, batch.mask.sum())

    def step_and_sum(task, g, params, local, shared, work):
        g, at_x, rows = g
        params, local = step(task, g, params, local, shared, work)
        n = rows.astype(work.lr.dtype)
        seen = local["at_x"]
        total = tree.add(seen["sum"], tree.scale(at_x, n))
        return params, {**local, "at_x": {"sum": total, "rows": seen["rows"] + n}}

    def close(task, shared, variables, local, row, work):
        message = finish(task, shared, variables, local, row, work)
        if option == 1:
            new = over(local["at_x"]["sum"], local["at_x"]["rows"])
        else:
            lead = over(message.delta, work.lr_sum)
            new = jax.tree.map(lambda c_i, c, d: c_i - c - d, row["c_i"], shared["aux"]["c"], lead)
        return message._replace(aux={"c": tree.subtract(new, row["c_i"])}, memory={"c_i": new})

    hooks = (begin, at_start, step_and_sum, close) if option == 1 else (begin, corrected, step, close)
    zero = lambda task, params: {"c": tree.zeros_like(params)}
    return Client(memory, *hooks, aux=zero, reduce={"c": "sum_over_N"}, solo=option == 1)


@client
def feddyn(alpha: Annotated[float, Gt(0)] = 0.1) -> Client:
    """Dynamic regularisation: every client's objective is bent so that all of them end where the shared one ends.

    y ← y − η_l (∇f_i(y; batch) − g_i + α (y − x)), from y = x; then g_i ← g_i − α (y − x); sends Δ_i = y − x.
    All g_i start at 0; the server's h stays the mean of all g_i, whoever took part.

    State: g_i, one model a client.    Sends: one model.    Rule: `dyn` with the same α.

    Args:
      alpha: α, strength of the regulariser.

    References:
      Acar et al. 2021, Federated Learning Based on Dynamic Regularization, arXiv:2111.04263, Algorithm 1.
    """

    def memory(shared, key):
        del key
        return {"g_i": tree.zeros_like(shared["params"])}

    def begin(task, shared, row, work):
        variables, local = start(task, shared, row, work)
        return variables, {**local, "g_i": row["g_i"]}

    def bent(task, variables, batch, local, shared, work):
        met, g = gradient(task, variables, batch, local, shared, work)
        pull = lambda g, g_i, y, x: g - g_i + alpha * (y - x)
        return met, jax.tree.map(pull, g, local["g_i"], variables["params"], shared["params"])

    def close(task, shared, variables, local, row, work):
        message = finish(task, shared, variables, local, row, work)
        return message._replace(memory={"g_i": jax.tree.map(lambda g, d: g - alpha * d, row["g_i"], message.delta)})

    return Client(memory, begin, bent, step, close)
