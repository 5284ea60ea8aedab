"""The build: a checked scenario becomes plans (host) and a program (device)."""

import contextlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.compose import FAMILIES, chain
from fedsim.data import Arrays, Federation, PartitionError, federate, natural, prepare
from fedsim.engine.keys import start_key
from fedsim.engine.lanes import lanes
from fedsim.engine.pack import Packer, Width, capacity, longest_first
from fedsim.engine.round import Program
from fedsim.engine.run import Run
from fedsim.engine.serve import serve
from fedsim.engine.task import LOSSES, evaluator, task
from fedsim.fleet import Local, Plan
from fedsim.fleet.streams import Stream, generator
from fedsim.models import as_model
from fedsim.scenario.schema import Scenario
from fedsim.types import Model, Rule


class Experiment(NamedTuple):
    """Everything a run of a scenario needs; one program for all seeds."""

    scenario: Scenario  # with `auto` resolved to numbers
    method: str
    program: Program
    plans: dict[int, Plan]
    shared: dict[int, Any]  # start variables by seed

    def run(self, seed: int, calls: int | None = None) -> Run:
        """One seed, ready to iterate (inside `numerics`)."""
        spec = self.scenario.spec
        return Run(
            self.program,
            self.plans[seed],
            self.shared[seed],
            jax.random.key(seed),
            spec.rounds,
            spec.evaluate.every,
            stop=spec.on_nonfinite == "stop",
            calls=calls,
        )


@contextlib.contextmanager
def numerics(scenario: Scenario):
    """The float type and precision of a scenario, by context: the host program's defaults stay as they are."""
    spec = scenario.spec.numerics
    with jax.enable_x64(spec.dtype == "float64"), jax.default_matmul_precision(spec.matmul_precision):
        yield


def build(
    scenario: Scenario, *, data=None, model=None, params=None, loss=None, pack: Packer = longest_first
) -> Experiment:
    """Plans and program of a scenario (call it inside `numerics`).

    Args:
      scenario: as read.
      data: `Arrays` in place of the scenario's data set.
      model: any model that `as_model` takes, in place of the scenario's.
      params: start parameters in place of the model's own.
      loss: `f(outputs, y) -> loss per row` in place of cross-entropy (labels) or squared error (targets).
      pack: which lane each client lands on; changes no bit.

    Raises:
      ScenarioError: for a combination that cannot run.
      DataError: for samples that cannot be learned from.
    """
    spec = scenario.spec
    dtype = np.dtype(spec.numerics.dtype)
    federations = {seed: _federation(scenario, seed, data, dtype) for seed in spec.seeds}
    some = next(iter(federations.values()))
    plans = {seed: _plan(scenario, federation, seed) for seed, federation in federations.items()}
    net = _model(scenario, some, model, params)
    init = net.init if model is not None else jax.jit(net.init)  # somebody else's init may not be traceable
    shared = {seed: _start(scenario, init, seed, params, dtype) for seed in spec.seeds}
    K = next(iter(plans.values())).cohort.nominal(some.N)
    width = _width(spec, tree.payload_bytes(next(iter(shared.values()))), K, jax.default_backend())
    job = task(
        net, loss or LOSSES["cross_entropy" if some.classes else "squared"], _optimizer(spec.client), some.classes
    )
    program = Program(
        lanes(_link("client", spec.client)(), job),
        serve(_rule(scenario), spec.on_nonfinite, some.N, K),
        evaluator(job),
        width,
        capacity(list(plans.values()), spec.rounds, width, pack),
        dtype,
        pack,
    )
    settled = spec.numerics.model_copy(update=width._asdict())
    done = scenario._replace(spec=spec.model_copy(update={"numerics": settled}))
    return Experiment(done, _method(spec), program, plans, shared)


def _federation(scenario: Scenario, seed: int, data: Arrays | None, dtype: np.dtype) -> Federation:
    section = scenario.spec.data
    own = data if data is not None else _link("dataset", section)()
    test = section.test if data is None or "test" in section.model_fields_set else 0.0
    arrays, classes = prepare(own, test=test, seed=section.seed, dtype=dtype)
    if arrays.client is not None:
        return federate(arrays, classes, natural(arrays.client))
    assign = _link("partition", section.partition)()
    rng = generator(seed, Stream.PARTITION)
    try:
        return federate(arrays, classes, assign(arrays.y, classes, section.clients, rng))
    except PartitionError as error:
        raise scenario.error(("data", "partition"), str(error)) from None


def _plan(scenario: Scenario, federation: Federation, seed: int) -> Plan:
    spec = scenario.spec
    c, N = spec.client, federation.N
    if isinstance(c.steps, list) and len(c.steps) != N:
        raise scenario.error(("client", "steps"), f"{len(c.steps)} numbers of steps for {N} clients; one per client")
    local = Local(None if c.batch == "full" else c.batch, c.epochs, c.steps, c.shuffle, c.drop_last, c.lr)
    cohort = _link("cohort", spec.cohort)()
    plan = Plan(federation, cohort, local, seed)
    if "size" in spec.cohort.model_fields_set and spec.cohort.size > len(plan.eligible):
        what = (
            f"a cohort of {spec.cohort.size} of {len(plan.eligible)} clients with samples; at most {len(plan.eligible)}"
        )
        raise scenario.error(("cohort", "size"), what)
    unknown = [i for i in cohort.names if i >= N]
    if unknown:
        raise scenario.error(("cohort", "rounds"), f"there is no client {unknown[0]}; clients are 0 to {N - 1}")
    return plan


def _model(scenario: Scenario, federation: Federation, model: Any, params: Any) -> Model:
    if model is None:
        outputs = federation.classes or int(np.prod(federation.y.shape[1:], dtype=int))
        return _link("model", scenario.spec.model)()(federation.x.shape[1:], outputs)
    if callable(model) and params is not None and not hasattr(model, "apply"):
        return as_model(lambda key: params, model)
    return as_model(model)


def _start(scenario: Scenario, init: Callable, seed: int, params: Any, dtype: np.dtype) -> dict[str, Any]:
    variables = init(start_key(jax.random.key(seed)))
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
                f"parameter {jax.tree_util.keystr(path)} is {leaf.dtype}; parameters are floats, counters go into state"
            )
            raise scenario.error(("model",), what)
    return {**jax.tree.map(jnp.asarray, variables), "aux": {}}


def _rule(scenario: Scenario) -> Rule:
    """The server list as one rule: a rule, then optimisers."""
    links = scenario.spec.server
    rules = [i for i, link in enumerate(links) if link.kind in FAMILIES["rule"]]
    if len(rules) != 1:
        where = ("server", rules[1]) if rules else ("server",)
        raise scenario.error(where, f"needs exactly one rule (fedsim list rules), found {len(rules)}")
    if rules[0] != 0:
        raise scenario.error(
            ("server", 0), f"{links[0].kind} is an optimiser and stands before the rule; move it behind"
        )
    return chain(_link("rule", links[0])(), *(_link("optimizer", link)() for link in links[1:]))


def _optimizer(client: Any) -> Callable:
    return _link("optimizer", client.optimizer)


def _link(family: str, section: Any) -> Callable:
    """A link's factory with its own hyper-parameters filled in (those of the section's common part left out)."""
    factory = FAMILIES[family][section.kind]
    names = [n for n in inspect.signature(factory).parameters if n in type(section).model_fields]
    return partial(factory, **{name: getattr(section, name) for name in names})


def _width(spec: Any, model_bytes: int, K: int, backend: str) -> Width:
    """`auto` resolved by a pure function of model, cohort and backend kind: never of free memory, cores or devices."""
    wanted = spec.numerics
    widest = 64 if backend != "cpu" else 16 if model_bytes <= 1 << 18 else 4 if model_bytes <= 1 << 21 else 1
    lanes_ = min(widest, K) if wanted.lanes == "auto" else wanted.lanes
    block = max(min(K, 1024, (1 << 28) // max(model_bytes, 1)), 1) if wanted.block == "auto" else wanted.block
    return Width(lanes_, block)


def _method(spec: Any) -> str:
    """What stands in the `method` column: `fedavg` for plain local training and the plain mean, else the rule."""
    rule = spec.server[0]
    plain = spec.client.kind == "sgd" and rule.kind == "mean" and len(spec.server) == 1
    return "fedavg" if plain else rule.kind
