"""The parts of a scenario, each of them checked; all problems are raised at once."""

import inspect
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim import tree
from fedsim.assemble.feasibility import (
    asynchronous,
    foreign_metric,
    idle_keys,
    large_cohort,
    merged_rows,
    own_samples,
    repeated_clients,
    small_cohort,
    too_many_rows,
    unknown_clients,
    unknown_columns,
    unknown_members,
    unknown_probabilities,
    unknown_shares,
    unmet_needs,
    wrong_partners,
)
from fedsim.assemble.federation import altered, evenly_partitioned
from fedsim.assemble.hooks import (
    check_augmentation,
    check_link,
    check_training,
    line_shapes,
    make_link,
    shared_leaves,
)
from fedsim.assemble.links import factory_of, locate_link_errors
from fedsim.assemble.machines import (
    cohort_of,
    drawn_cohort,
    fleet_of,
    require_members,
    unmeant_fleet,
)
from fedsim.assemble.model import (
    activation_bytes,
    loss_of,
    model_of,
    model_section,
    short_batches,
    start_models,
)
from fedsim.assemble.plans import plans_of
from fedsim.assemble.problems import UNKNOWN, Problems
from fedsim.assemble.programs import Training, augmented, client_key, training
from fedsim.assemble.rates import client_rate
from fedsim.assemble.wire import check_size, forgotten, linear_partners, no_downlink, second_codec
from fedsim.compose import FAMILIES, most_bytes
from fedsim.data import Federation
from fedsim.errors import dotted
from fedsim.fleet import Cohort, Fleet, Local, Timetable
from fedsim.scenario.reader import Path
from fedsim.scenario.scenario import Scenario
from fedsim.types import Codec, Rule, Updates

SKEWED = [("data", "skew"), ("data", "attack")]
DEALING = [
    ("data", "partition"),
    ("data", "clients"),
    *SKEWED,
]  # of samples that can be known all the same
AUGMENT = ("data", "augment")


class Checked(NamedTuple):
    """The parts of a scenario that can run."""

    model: Any  # its section
    federations: dict[int, Federation]  # by seed
    cohort: Cohort  # who takes part in a round
    timetable: Timetable  # when the server steps
    fleet: Fleet  # clients as machines
    up: int  # the most bytes of what one client sends in a round
    down: int  # and of what it gets
    local: Local  # how much a client trains, on which learning rate
    learned: tuple  # model, loss, classes, client and augmentation, as `training` and `serving` take them
    trained: Training  # what `training` makes of them
    shared: dict[
        int, Any
    ]  # start variables by seed where model or parameters were given; else none, made at last
    shapes: Any  # of start variables
    activations: int  # bytes of the largest value in a pass of a batch through the model


def checked(
    scenario: Scenario,
    data: Any,
    model: Any,
    params: Any,
    loss: Any,
    partition: Callable[..., dict[int, Federation]],
) -> Checked:
    """The parts of a scenario; the arguments are those of `build`.

    Of what is left of a refused scenario, nothing more than the problems can be known: it gives UNKNOWN.

    Raises:
      ScenarioError: with a line for every problem that can be known.
      DataError: for samples that cannot be learned from.
    """
    spec, problems = scenario.spec, Problems(scenario)
    cohort = problems.attempt(cohort_of, scenario, reads=[("cohort",)])
    timetable = problems.attempt(
        make_link, scenario, ("schedule",), spec.schedule, reads=[("schedule",)]
    )
    fleet = problems.attempt(
        locate_link_errors(fleet_of), scenario, reads=[("fleet",), ("cohort",)]
    )
    client = problems.attempt(
        make_link, scenario, ("client",), spec.client, reads=_client_keys(spec.client)
    )
    local = problems.attempt(
        local_of, spec.client, reads=[("client", key) for key in ("batch", "steps", "epochs")]
    )
    problems.attempt(factory_of(spec.client.optimizer), 0.1, reads=[("client", "optimizer")])
    make = lambda path, section: (
        path,
        section,
        problems.attempt(make_link, scenario, path, section, reads=[path]),
    )
    sent = [make(("broadcast", i), section) for i, section in enumerate(spec.broadcast)]
    links = [make(path, section) for path, section in links_of(spec)]
    samples_read = [("data", key) for key in type(spec.data).model_fields if key != "augment"]
    dtype = np.dtype(spec.numerics.dtype)
    federations = problems.attempt(partition, scenario, data, dtype, reads=samples_read)
    federation, N = _samples(problems, federations, data)
    for i, section in enumerate(spec.data.augment):
        problems.attempt(
            check_augmentation, scenario, i, section, federation, reads=[("data", "augment")]
        )
    section = problems.attempt(model_section, scenario, federation, reads=[("model",)])
    if section is not UNKNOWN:
        scenario = scenario._replace(spec=spec.model_copy(update={"model": section}))
    K = problems.attempt(
        lambda cohort, N, timetable: timetable.buffer or cohort.nominal(N), cohort, N, timetable
    )
    problems.check(idle_keys, scenario, client)
    eligible = min(int((f.sizes > 0).sum()) for f in federations.values()) if federations else N
    problems.check(unknown_clients, scenario, N)
    problems.check(unknown_members, scenario, cohort, N)
    problems.attempt(require_members, scenario, cohort, N)
    problems.check(large_cohort, scenario, cohort, eligible)
    worked = [("client", key) for key in ("steps", "epochs")]
    problems.check(unmeant_fleet, scenario, reads=[("fleet",), ("cohort",), ("schedule",), *worked])
    if not problems.errors:
        cohort = drawn_cohort(scenario, cohort, eligible)
    _check_links(problems, links, cohort, K, fleet)
    problems.check(second_codec, links)
    problems.check(linear_partners, links)
    problems.check(merged_rows, links)
    for path, each, made in sent:
        problems.check(no_downlink, path, each, made)
    for path, each, made in links:
        problems.check(forgotten, scenario, path, each, made, client)

    net = problems.attempt(model_of, scenario, federation, model, params, loss, reads=[("model",)])
    classes = problems.attempt(lambda federation: federation.classes, federation)
    features = net is UNKNOWN or net.features is not None
    per_token = problems.attempt(lambda federation: federation.per_token, federation)
    problems.check(unmet_needs, scenario, client, classes, per_token, features)
    problems.check(unknown_columns, scenario, cohort, classes, per_token)
    problems.check(foreign_metric, scenario, classes)
    learned = (
        net,
        loss or problems.attempt(loss_of, scenario, federation, reads=[("model",)]),
        classes,
        client_key(spec.client),
        augmented(spec.data),
    )
    hooks = [("client", "optimizer"), ("data", "augment")]
    trained = problems.attempt(
        lambda client, *learned: training(*learned), client, *learned, reads=hooks
    )
    started = problems.attempt(start_models, scenario, net, trained, model, params)
    shapes = problems.attempt(itemgetter(1), started)
    activations = problems.attempt(
        activation_bytes, scenario, net, federation, federations or {}, local, shapes, model
    )
    for each in federations.values() if federations else ():
        problems.check(short_batches, scenario, net, each, local)

    problems.attempt(check_training, scenario, trained, shapes, federation, local)
    travelling = problems.attempt(shared_leaves, scenario, trained, shapes)
    if (
        travelling is not UNKNOWN
    ):  # a method whose leaves are refused has no memory to look at either
        made_links = [made for *_, made in links]
        problems.check(
            asynchronous, scenario, timetable, cohort, trained, shapes, eligible, made_links
        )
    shown = problems.attempt(line_shapes, scenario, trained, travelling, K, N)
    for path, section, made in (*sent, *links):
        problems.attempt(check_link, scenario, path, section, made, shown)
        if shown is not UNKNOWN:
            problems.attempt(check_size, scenario, path, section, made, travelling["params"])
    _check_shares(problems, links, federations, (cohort, timetable, fleet, local))
    problems.raise_all()
    if problems.broken:
        return UNKNOWN
    return Checked(
        model=scenario.spec.model,
        federations=federations,
        cohort=cohort,
        timetable=timetable,
        fleet=fleet,
        up=_encoded_bytes(_message(shown[0]), travelling["params"], links),
        down=_encoded_bytes(travelling, travelling["params"], sent),
        local=local,
        learned=learned,
        trained=trained,
        shared=started[0],
        shapes=shapes,
        activations=activations,
    )


def local_of(section: Any) -> Local:
    """How much a client trains, from its section."""
    rate = client_rate(section)
    return Local(
        batch=None if section.batch == "full" else section.batch,
        epochs=section.epochs,
        steps=section.steps,
        shuffle=section.shuffle,
        drop_last=section.drop_last,
        lr=rate.of_round,
        rate=rate.of_step,
    )


def links_of(spec: Any) -> list[tuple[Path, Any]]:
    """(path, section) of everything in `wire` and `server`, in this order."""
    return [
        ((name, i), section)
        for name in ("wire", "server")
        for i, section in enumerate(getattr(spec, name))
    ]


def _message(updates: Updates) -> Any:
    """Shapes of one client's message, from those of a stack."""
    sent = (updates.delta, updates.stats, updates.aux)
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), sent)


def _encoded_bytes(message: Any, params: Any, links: list) -> int:
    """The most bytes of a message, whose parameters a codec among the links encodes."""
    codec = next((made for *_, made in links if isinstance(made, Codec)), None)
    if codec is None:
        return tree.payload_bytes(message)
    return tree.payload_bytes(message) - tree.payload_bytes(params) + most_bytes(codec, params)


def _samples(problems: Problems, federations: Any, data: Any) -> tuple[Any, Any]:
    """Samples to check everything else on, and the number of clients; each UNKNOWN where nobody can tell.

    Where only the partition is impossible, the samples are those in equal parts.
    """
    scenario = problems.scenario
    if federations:
        federation = next(iter(federations.values()))
        return federation, federation.N
    if not problems.refused(*map(dotted, DEALING), "evaluate.metric"):
        return UNKNOWN, UNKNOWN
    section = scenario.spec.data
    loaded = [
        ("data", key)
        for key in type(section).model_fields
        if ("data", key) not in (*DEALING, AUGMENT)
    ]
    dtype = np.dtype(scenario.spec.numerics.dtype)
    federation = problems.attempt(evenly_partitioned, scenario, data, dtype, reads=loaded)
    if problems.refused(
        "data.partition", "data.clients"
    ):  # what would have come behind the partition
        altering = [*SKEWED, ("fleet", "malicious"), ("evaluate", "metric")]
        problems.attempt(altered, scenario, federation, scenario.spec.seeds[0], reads=altering)
    counted = (
        not problems.refused("data.clients", "data.partition.kind")
        and section.partition.kind != "natural"
    )
    return federation, section.clients if counted else UNKNOWN


def _client_keys(section: Any) -> list[Path]:
    """The paths of what decides the hooks of a client method: its kind, and its own hyper-parameters."""
    own = inspect.signature(FAMILIES[section.family][section.kind]).parameters
    return [("method",), ("client", "kind"), *(("client", name) for name in own)]


def _check_shares(
    problems: Problems, links: list[tuple[Path, Any, Any]], federations: Any, parts: tuple
) -> None:
    """A rule that divides by how often each client takes part can do so.

    Args:
      problems: so far.
      links: of `wire` and `server`.
      federations: by seed.
      parts: cohort, timetable, fleet and local work.
    """
    scenario = problems.scenario
    rule = next((made for *_, made in links if isinstance(made, Rule)), UNKNOWN)
    if (
        rule is UNKNOWN
        or "share" not in rule.needs
        or problems.refused("client", "cohort", "fleet", "schedule")
    ):
        return
    make = lambda federations, *parts: plans_of(scenario, federations, *parts).values()
    problems.check(
        unknown_probabilities, scenario, rule, problems.attempt(make, federations, *parts)
    )


def _check_links(
    problems: Problems, links: list[tuple[Path, Any, Any]], cohort: Any, K: Any, fleet: Any
) -> None:
    """Every link can work on the nominal cohort of K clients, behind the others."""
    scenario = problems.scenario
    for path, section, made in links:
        problems.check(small_cohort, path, section, made, K)
        problems.check(too_many_rows, path, section, made, K)
        if section.family == "rule":
            problems.check(
                wrong_partners, scenario, path, section, made, reads=[("client",), ("method",)]
            )
            problems.check(repeated_clients, scenario, section, cohort, made)
            problems.check(unknown_shares, scenario, path, cohort, made, fleet)
            if not problems.refused("data.server"):
                compared = [("compare", "methods"), ("client", "steps")]
                problems.check(own_samples, scenario, path, section, made, reads=compared)
