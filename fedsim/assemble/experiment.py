"""Building an experiment: a checked scenario becomes plans (host) and a program (device)."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim import tree
from fedsim.assemble.check import check_scenario
from fedsim.assemble.data_files import resolved_file
from fedsim.assemble.facts import Facts
from fedsim.assemble.federation import federations_of, resolved_data
from fedsim.assemble.fields import fields, first_answer, form_of
from fedsim.assemble.layout import Layout, layout_of
from fedsim.assemble.links import locate_link_errors
from fedsim.assemble.memory import allocations, check_memory, check_rows_of_all, run_footprint
from fedsim.assemble.meters import meters_of
from fedsim.assemble.model import starts_by_seed
from fedsim.assemble.plans import of_first_seed, of_widest_batch, plans_of
from fedsim.assemble.programs import ServerShape, server_sections, serving
from fedsim.assemble.weights import resolved_model
from fedsim.data import Federation
from fedsim.engine.mesh import mesh
from fedsim.engine.meters.updates import Policy
from fedsim.engine.models import shapes_of_models
from fedsim.engine.pack import Packer, Width, longest_first
from fedsim.engine.program import Program
from fedsim.engine.run import Run, RunOptions
from fedsim.engine.scoring.rows import evaluator, scoring_of, with_loss_of_set
from fedsim.engine.threads import useful_threads
from fedsim.errors import DeviceError
from fedsim.field import ProgramSetting
from fedsim.fleet import Plan
from fedsim.machine import compile_cache, devices_of, fix_threads
from fedsim.models.freezing import with_all_leaves
from fedsim.scenario.named_files import COHORT
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client, Model, RowStage
from fedsim.types.client import ALONE


class Experiment(NamedTuple):
    """Everything that the runs of a scenario need; all seeds share one program."""

    scenario: Scenario  # with `auto` resolved to numbers
    method: str
    program: Program
    plans: dict[int, Plan]  # by seed
    shared: dict[int, Any]  # start variables by seed
    client: Client  # the method's hooks, as the lanes run them
    model: Model  # with its adapter
    memory_bytes: dict[str, int]  # bytes by purpose that a run adds to what the process holds
    of_fields: Mapping[str, Any] = {}  # what fields planned, by name
    until: int | None = None  # runs end after this round of the scenario's; None: after the last

    def run(self, seed: int, folder: Path | None = None) -> Run:
        """Return the run of one seed, ready for `engine.loop.events` inside `numerics`.

        Args:
          folder: directory for client memory that does not fit on the device.
        """
        spec = self.scenario.spec
        policy = Policy(
            stop_on_nonfinite=spec.on_nonfinite == "stop",
            stop_on_skipped=spec.on_impossible == "stop",
            # A run without rounds, or without a shared model, has nothing to aggregate. Where there
            # is noise, it is added in every round, whoever comes.
            needs_aggregation=spec.rounds > 0
            and self.client.server != ALONE
            and not self.program.server.pipeline.rule.noises
            and self.plans[seed].network is None,
        )
        options = RunOptions(
            rounds=spec.rounds if self.until is None else self.until,
            every=spec.evaluate.every,
            folder=folder,
            resident_bytes=int(spec.checkpoint.resident_mb * 1e6),
            scored_clients=spec.evaluate.clients if spec.evaluate.personal else None,
        )
        plan = self.plans[seed]
        shared = self.shared[seed]
        return Run(
            program=self.program,
            plan=plan,
            shared=shared,
            key=jax.random.key(seed),
            options=options,
            meters=meters_of(self.program, plan, shared, policy, self.of_fields),
            form_of=form_of,
        )


@contextlib.contextmanager
def numerics(
    scenario: Scenario, threads: int | None = None, device: str | None = None
) -> Iterator[list[Any]]:
    """Compute in a scenario's float type and precision, with the compile cache, in this context.

    The defaults of the host program are the same afterwards.

    Args:
      threads: threads of a run that is repeated or resumed; used where the scenario says `auto`.
      device: as `devices_of` takes it.

    Yields:
      The devices to train on; everything else happens on the first one of this process.
    """
    spec = scenario.spec.numerics
    fix_threads(threads if spec.threads == "auto" else spec.threads)
    devices = devices_of(device)
    process = jax.process_index()
    local_devices = [d for d in devices if d.process_index == process]
    if not local_devices:
        text = f"process {process} has none of these devices"
        raise DeviceError(f"--device {device}: {text}; name at least one of every process")

    with (
        compile_cache(),
        jax.enable_x64(spec.dtype == "float64"),
        jax.default_matmul_precision(spec.matmul_precision),
        jax.default_device(local_devices[0]),
        # A hyper-parameter beyond the float type becomes infinite; the rounds show what that does.
        np.errstate(over="ignore"),
    ):
        yield devices


@locate_link_errors
def build(
    scenario: Scenario,
    *,
    data=None,
    model=None,
    params=None,
    loss=None,
    pack: Packer = longest_first,
    devices: Sequence[Any] | None = None,
    partition: Callable[..., dict[int, Federation]] = federations_of,
    before: tuple[RowStage, ...] = (),
) -> Experiment:
    """Return the plans and the program of a scenario (call it inside `numerics`).

    Args:
      scenario: as read.
      data: `Arrays` in place of the scenario's data set.
      model: any model that `as_model` takes, in place of the scenario's.
      params: start parameters in place of the model's.
      loss: `f(outputs, y) -> loss per row` in place of cross-entropy (labels) or squared error
        (targets).
      pack: assigns clients to lanes; changes no bit.
      devices: on which the lanes train (None: the default one); changes no bit either.
      partition: called in place of `federations_of`, with its arguments; a cache, say, for several
        scenarios over the same samples. A caller of `fedsim.run` may pass it, too.
      before: stages of the server in front of the scenario's, which no record tells of: a caller of
        `fedsim.run` may not pass them.

    Raises:
      ScenarioError: for combinations that cannot run, with a line for each.
      DataError: for samples that cannot be learned from.
    """
    inputs = check_scenario(
        scenario,
        data=data,
        model=model,
        params=params,
        loss=loss,
        make_federations=partition,
    )
    scenario = inputs.scenario
    plans = plans_of(
        scenario,
        inputs.federations,
        inputs.plan_inputs,
        labelled="labels" in inputs.trained.client.needs,
        bytes_down=inputs.bytes_down,
        bytes_up=inputs.bytes_up,
    )
    layout = layout_of(scenario, inputs, plans, pack=pack, devices=devices)
    program = _program(scenario.spec, inputs, layout, pack=pack, devices=devices, before=before)
    check_rows_of_all(scenario, program, inputs.shapes)

    # What a run will hold is counted before anything large is made.
    footprint = run_footprint(
        scenario,
        program,
        plan=of_widest_batch(plans),
        shared=shapes_of_models(inputs.trained.client, inputs.shapes),
        activations=max(inputs.activation_bytes.values()),
    )
    check_memory(scenario, footprint.bytes_by_purpose)
    with allocations(scenario, footprint.bytes_by_purpose):
        model = inputs.training_inputs.model
        made = inputs.shared or starts_by_seed(scenario, model, inputs.trained, params)
        shared = jax.block_until_ready(made)

    return Experiment(
        scenario=_resolved(scenario, inputs, layout.width, data),
        method=_method_name(scenario.spec),
        program=program,
        plans=plans,
        shared=shared,
        client=inputs.trained.client,
        model=inputs.training_inputs.model,
        memory_bytes=footprint.bytes_by_purpose,
        of_fields=inputs.plan_inputs.of_fields,
    )


def _program(
    spec: Any,
    inputs: Facts,
    layout: Layout,
    *,
    pack: Packer,
    devices: Sequence[Any] | None,
    before: tuple[RowStage, ...],
) -> Program:
    trained = inputs.trained
    server = serving(
        inputs.training_inputs,
        server_sections(spec)._replace(before=before),
        drop=spec.on_nonfinite != "keep",
        shape=ServerShape(
            width=layout.width.lanes,
            block=layout.width.block,
            blocks=layout.capacity.blocks,
        ),
    )

    lane_devices = tuple(devices) if devices else None
    probe_mesh = mesh(trained.probe, lane_devices, layout.shards) if server.needs_probe else None

    # The training before a score is on one device, by as many threads as the other training.
    tuning_mesh = None
    if trained.tuning is not None:
        is_single = lane_devices is None or len(lane_devices) == 1
        tuning_mesh = mesh(trained.tuning, shards=layout.shards if is_single else 1)

    setting = ProgramSetting(spec, server, inputs.training_inputs)

    # An evaluation reads the model once for every sample of the largest set to score on.
    federation = of_first_seed(inputs.federations)
    samples = max(len(x) for x, _ in federation.scored.values())
    model_bytes = tree.nbytes(with_all_leaves(inputs.shapes)["params"])
    evaluation_threads = useful_threads(samples * model_bytes)

    measured = first_answer(lambda field: field.measures(spec, federation.label_names))
    measures = with_loss_of_set(measured, trained.task.loss)
    return Program(
        mesh=mesh(trained.lanes, lane_devices, layout.shards),
        server=server,
        evaluate=evaluator(scoring_of(trained.task, measures)),
        evaluation_threads=evaluation_threads,
        task=trained.task,
        width=layout.width,
        capacity=layout.capacity,
        dtype=np.dtype(spec.numerics.dtype),
        pack=pack,
        observer=first_answer(lambda field: field.observer(setting)),
        probe_mesh=probe_mesh,
        beside={
            name: variables
            for field in fields().values()
            for name, variables in field.beside(spec).items()
        },
        measures=measures,
        own_work=first_answer(lambda field: field.own_work(setting)),
        trains_alone="solo" in trained.client.needs,
        tuning_mesh=tuning_mesh,
    )


def _resolved(scenario: Scenario, inputs: Facts, width: Width, data: Any) -> Scenario:
    """Return the scenario with what the build decided written out."""
    federation = of_first_seed(inputs.federations)
    spec = scenario.spec
    sections = {
        "numerics": spec.numerics.model_copy(update=width._asdict()),
        "model": resolved_model(scenario, spec.model),
        "data": resolved_data(scenario, data, federation),
        "cohort": spec.cohort.model_copy(update=resolved_file(scenario, COHORT)),
    }
    for field in fields().values():
        sections |= field.resolved(scenario)
    return scenario._replace(spec=spec.model_copy(update=sections))


def _method_name(spec: Any) -> str:
    """Return what the column `method` says: the scenario's method, or else its rule.

    For plain local training and a plain mean, it is `fedavg` or what a field calls it.
    """
    if spec.method:
        return spec.method
    rule = next(section for section in spec.server if section.family == "rule")
    is_plain = spec.client.kind == "sgd" and rule.kind == "mean" and len(spec.server) == 1
    of_fields = first_answer(lambda field: field.method_name(spec, is_plain))
    return of_fields or ("fedavg" if is_plain else rule.kind)
