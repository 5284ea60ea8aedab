"""The build: a checked scenario becomes plans (host) and a program (device)."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.build.feasibility import (
    enough_clients,
    fitting_model,
    known_clients,
    known_needs,
    no_idle_key,
    possible_rule,
    read_server_samples,
    right_partner,
)
from fedsim.build.federation import federations_of, settled_data
from fedsim.build.links import link, placing_faults
from fedsim.build.memory import demand_fit, held_by
from fedsim.build.programs import Training, Written, client_key, is_pair, own, serving, training, zoo
from fedsim.build.rates import client_rate
from fedsim.data import Federation
from fedsim.engine.footprint import least
from fedsim.engine.keys import start_key
from fedsim.engine.machine import devices_of, platform, settle_threads
from fedsim.engine.mesh import mesh
from fedsim.engine.pack import Packer, Width, capacity, longest_first
from fedsim.engine.round import Program
from fedsim.engine.run import Policy, Run
from fedsim.engine.server import Server
from fedsim.engine.threads import TINY, useful_threads
from fedsim.errors import OrderError
from fedsim.fleet import Local, Plan, controlled
from fedsim.models import as_model
from fedsim.models.modules import required
from fedsim.scenario.schema import Scenario
from fedsim.types import Client, Model


class Experiment(NamedTuple):
    """Everything a run of a scenario needs; one program for all seeds."""

    scenario: Scenario  # with `auto` resolved to numbers
    method: str
    program: Program
    plans: dict[int, Plan]
    shared: dict[int, Any]  # start variables by seed
    client: Client  # the method's hooks, as the lanes run them

    def run(self, seed: int, folder: Path | None = None) -> Run:
        """One seed, ready for `events` (inside `numerics`); `folder`: for client memory that does not fit."""
        spec = self.scenario.spec
        return Run(
            self.program,
            self.plans[seed],
            self.shared[seed],
            jax.random.key(seed),
            spec.rounds,
            spec.evaluate.every,
            Policy(spec.on_nonfinite == "stop", spec.on_impossible == "stop", _still(spec)),
            folder,
            int(spec.checkpoint.resident_mb * 1e6),
        )


@contextlib.contextmanager
def numerics(scenario: Scenario, threads: int | None = None, device: str | None = None) -> Iterator[list[Any]]:
    """The float type and precision of a scenario, by context: the host program's defaults stay as they are.

    Args:
      scenario: as read.
      threads: of the run that is repeated or goes on, where the scenario leaves the number to the machine.
      device: as `devices_of` takes it.

    Yields:
      the devices to train on; everything else happens on the first one of this process.
    """
    spec = scenario.spec.numerics
    settle_threads(threads if spec.threads == "auto" else spec.threads)
    devices = devices_of(device)
    here = next(d for d in devices if d.process_index == jax.process_index())
    precision = jax.default_matmul_precision(spec.matmul_precision)
    # a hyper-parameter beyond the float type is infinite, and what it does to a model is found there, and told with its round
    overflow = np.errstate(over="ignore")
    with jax.enable_x64(spec.dtype == "float64"), precision, jax.default_device(here), overflow:
        yield devices


@placing_faults
def build(
    scenario: Scenario,
    *,
    data=None,
    model=None,
    params=None,
    loss=None,
    pack: Packer = longest_first,
    devices: Sequence[Any] | None = None,
    deal: Callable[..., dict[int, Federation]] = federations_of,
) -> Experiment:
    """Plans and program of a scenario (call it inside `numerics`).

    Args:
      scenario: as read.
      data: `Arrays` in place of the scenario's data set.
      model: any model that `as_model` takes, in place of the scenario's.
      params: start parameters in place of the model's own.
      loss: `f(outputs, y) -> loss per row` in place of cross-entropy (labels) or squared error (targets).
      pack: which lane each client lands on; changes no bit.
      devices: on which the lanes train (None: the default one); changes no bit either.
      deal: in place of `federations_of`, by whoever builds several scenarios over the same samples.

    Raises:
      ScenarioError: for a combination that cannot run.
      DataError: for samples that cannot be learned from.
    """
    spec = scenario.spec
    dtype = np.dtype(spec.numerics.dtype)
    federations = deal(scenario, data, dtype)
    some = next(iter(federations.values()))
    net = _model(scenario, some, model, params, loss)
    learned = (net, loss or _loss(scenario, some), some.classes, client_key(spec.client))
    trained = training(*learned)
    needs = trained.client.needs
    known_needs(scenario, needs, net, some.classes)
    no_idle_key(scenario, trained.client.unused)
    read_server_samples(scenario)
    plans = {seed: _plan(scenario, federation, seed, "labels" in needs) for seed, federation in federations.items()}
    one, start = next(iter(plans.values())), partial(_start, scenario, net, trained, params=params, dtype=dtype)
    shared = {seed: start(seed) for seed in spec.seeds} if model is not None or params is not None else {}
    shapes = (
        shared[one.seed] if shared else jax.eval_shape(lambda: start(one.seed))
    )  # ours are made when all is counted
    cohort, K = one.cohort, one.cohort.nominal(some.N)
    model_bytes = tree.payload_bytes(shapes["params"])
    width, threads = _width(spec, model_bytes, K, platform()), useful_threads(model_bytes)
    demand_fit(scenario, least(model_bytes, width, max(plans.values(), key=longest), K, len(spec.seeds)))
    activations = max(fitting_model(scenario, net, federations[seed], plan, shapes) for seed, plan in plans.items())
    shards = len(devices) if devices and len(devices) > 1 else min(threads, -(-K // width.lanes))
    room = capacity([[plan] for plan in plans.values()], width, pack, shards)
    shape = {"width": width.lanes, "block": width.block, "blocks": room.blocks}
    server, sums = _server(scenario, learned, drop=spec.on_nonfinite != "keep", **shape)
    possible_rule(scenario, server.least, K, sums, cohort.repeats)
    right_partner(scenario)
    on = tuple(devices) if devices else None
    program = Program(
        mesh=mesh(trained.lanes, on, shards),
        memories=trained.memories,
        server=server,
        evaluate=trained.evaluate,
        evaluators=threads,
        task=trained.task,
        width=width,
        room=room,
        dtype=dtype,
        pack=pack,
        diagnoses=spec.evaluate.diagnostics,
        probe=mesh(trained.probe, on, shards) if server.probes else None,
        solo=trained.client.solo,
    )
    demand_fit(scenario, held_by(scenario, program, one, shapes, activations).parts)
    shared = jax.block_until_ready(shared or {seed: start(seed) for seed in spec.seeds})
    settled = spec.numerics.model_copy(update=width._asdict())
    settled_sections = {"numerics": settled, "data": settled_data(scenario, data, some)}
    done = scenario._replace(spec=spec.model_copy(update=settled_sections))
    return Experiment(done, spec.method or _method(spec), program, plans, shared, trained.client)


def _plan(scenario: Scenario, federation: Federation, seed: int, labelled: bool) -> Plan:
    spec, N = scenario.spec, federation.N
    cohort = link(spec.cohort)()
    attackers = spec.fleet.malicious
    known_clients(scenario, N, cohort.names)
    plan = Plan(federation, cohort, _local(spec.client), seed, spec.rounds, controlled(attackers, N, seed), labelled)
    enough_clients(scenario, len(plan.eligible), cohort.repeats)
    return plan


def longest(plan: Plan) -> int:
    """Local steps of the plan's longest client."""
    return int(plan.steps.max(initial=0))


def _local(c: Any) -> Local:
    rate = client_rate(c)
    batch = None if c.batch == "full" else c.batch
    return Local(
        batch=batch,
        epochs=c.epochs,
        steps=c.steps,
        shuffle=c.shuffle,
        drop_last=c.drop_last,
        lr=rate.of_round,
        rate=rate.of_step,
    )


def _loss(scenario: Scenario, federation: Federation) -> str:
    asked = scenario.spec.model.loss or ("cross_entropy" if federation.classes else "squared")
    if asked == "cross_entropy" and not federation.classes:
        raise scenario.error(
            ("model", "loss"),
            "cross_entropy needs classes, and these targets are no integers; write squared, or leave it out",
        )
    return asked


def _model(scenario: Scenario, federation: Federation, model: Any, params: Any, loss: Any) -> Model:
    """The scenario's model for the data at hand, or the user's own; a custom loss may take any outputs."""
    shape = federation.x.shape[1:]
    outputs = federation.classes or int(np.prod(federation.y.shape[1:], dtype=int))
    try:
        if model is None:
            return zoo(Written(scenario.spec.model, {"loss"}), shape, outputs)
        expects: Any = {} if loss is not None else {"classes": outputs} if federation.classes else {"targets": outputs}
        if callable(model) and params is not None and not hasattr(model, "apply") and required(model) >= 2:
            return as_model(lambda key: params, model, shape=shape, **expects)
        if is_pair(model):
            return own(*model, shape, tuple(expects.items()))
        return as_model(model, shape=shape, **expects)
    except (TypeError, ValueError) as error:
        raise scenario.error(("model",), str(error)) from None


def _start(
    scenario: Scenario, net: Model, trained: Training, seed: int, params: Any, dtype: np.dtype
) -> dict[str, Any]:
    variables = net.init(start_key(jax.random.key(seed)))
    if params is not None:
        given = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), params)
        try:
            tree.stack([variables["params"], given])
        except ValueError as error:
            raise scenario.error(("model",), f"params= does not fit the model: {error}") from None
        variables = {**variables, "params": given}
    for path, leaf in jax.tree_util.tree_leaves_with_path(variables["params"]):
        if not jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating):
            what = (
                f"parameter {jax.tree_util.keystr(path)} is {leaf.dtype}; parameters are floats, counters go into stats"
            )
            raise scenario.error(("model",), what)
    variables = jax.tree.map(jnp.asarray, variables)
    aux = trained.client.aux(trained.task, variables["params"])
    probe = {} if trained.client.probe is None else {"probe": tree.zeros_like(variables["params"])}
    return {**variables, "aux": aux | probe}


def _server(scenario: Scenario, learned: tuple, **shape: Any) -> tuple[Server, bool]:
    """Wire and server lists as one program; a wrong order is a line that names the link."""
    wire, server = (tuple(map(Written, links)) for links in (scenario.spec.wire, scenario.spec.server))
    try:
        return serving(*learned, wire, server, **shape)
    except OrderError as error:
        where = ("server",) if error.index is None else ("server", error.index)
        raise scenario.error(where, str(error)) from None


def _width(spec: Any, model_bytes: int, K: int, backend: str) -> Width:
    """`auto` resolved by a pure function of model, cohort and backend kind: never of free memory, cores or devices."""
    wanted = spec.numerics
    widest = min(64 if backend != "cpu" else 16 if model_bytes <= TINY else 8 if model_bytes <= 1 << 21 else 1, K)
    waste = lambda lanes: -(-K // lanes) * lanes - K  # idle lanes at the end of a small cohort of equal clients
    even = min(range(widest, widest // 2, -1), key=waste) if K <= 2 * widest else widest
    lanes_ = even if wanted.lanes == "auto" else wanted.lanes
    block = max(min(K, 1024, (1 << 28) // max(model_bytes, 1)), 1) if wanted.block == "auto" else wanted.block
    return Width(lanes_, block)


def _still(spec: Any) -> bool:
    """Whether a learning rate of the clients or of the server is 0 throughout."""
    return any(getattr(section, "lr", None) == 0 for section in (spec.client, *spec.server))


def _method(spec: Any) -> str:
    """What stands in the `method` column: `fedavg` for plain local training and the plain mean, else the rule."""
    rule = next(section for section in spec.server if section.family == "rule")
    plain = spec.client.kind == "sgd" and rule.kind == "mean" and len(spec.server) == 1
    return "fedavg" if plain else rule.kind
