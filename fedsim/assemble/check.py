"""A scenario's links, samples and model, made and checked; all problems are raised at once."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim import tree
from fedsim.assemble.asynchronous import (
    asynchronous_client,
    asynchronous_cohort,
    asynchronous_links,
)
from fedsim.assemble.bank import (
    client_of_models,
    links_beside_models,
    memory_beside_models,
    sections_beside_made_models,
    sections_beside_models,
)
from fedsim.assemble.budget import PrivacyPlan, resolved_privacy
from fedsim.assemble.client_shares import shares_of_nobody
from fedsim.assemble.components import Components, make_components
from fedsim.assemble.edges import beside_edges, unfit_cloud, unusable_edges
from fedsim.assemble.feasibility import (
    FEATURES,
    foreign_metric,
    idle_keys,
    idle_links,
    idle_statistics,
    large_cohort,
    leaves_of_rule,
    merged_rows,
    repeated_clients,
    server_samples,
    small_cohort,
    too_many_rows,
    unkept_updates,
    unknown_clients,
    unknown_columns,
    unknown_groups,
    unknown_members,
    unknown_probabilities,
    unknown_shares,
    unknown_updates,
    unmet_needs,
    unreached_commits,
    unscored_clients,
    wrong_partners,
)
from fedsim.assemble.federation import altered, evenly_partitioned
from fedsim.assemble.hooks import (
    StackShapes,
    check_augmentation,
    check_link,
    check_training,
    shared_leaves,
    stack_shapes,
)
from fedsim.assemble.links import Link
from fedsim.assemble.machines import (
    drawn_cohort,
    idle_fleet_keys,
    require_members,
)
from fedsim.assemble.merging import (
    beside_merging,
    bytes_down_of_merging,
    merges,
    remembered_adapters,
    unmergeable,
)
from fedsim.assemble.model import (
    Supplied,
    activation_bytes,
    batch_widths,
    loss_of,
    made_of_all_leaves,
    model_of,
    model_section,
    short_batches,
    start_models,
)
from fedsim.assemble.nodes import (
    beside_topology,
    graph_needed,
    node_statistics,
    node_without_samples,
    unfit_mix_rule,
    unfit_node,
    unusable_graphs,
)
from fedsim.assemble.parts import (
    links_beside_parts,
    loss_without_classes,
    method_without_parts,
    model_without_parts,
    model_without_ranks,
    ranks_of,
    sections_beside_parts,
    two_kinds_of_parts,
    unknown_levels,
    widths_of,
    with_costs,
)
from fedsim.assemble.plans import PlanInputs, absent_clients, of_first_seed, plans_of
from fedsim.assemble.privacy import (
    local_message,
    private_client,
    private_cohort,
    private_link,
    private_numbers,
    private_rule,
    private_statistics,
    with_noised_codec,
)
from fedsim.assemble.private_samples import (
    poisson_keys,
    private_batches,
    private_gradient,
    private_method,
    private_model,
    private_reports,
    with_gradients,
    with_noise,
)
from fedsim.assemble.problems import UNKNOWN, Problems, all_known
from fedsim.assemble.programs import (
    Training,
    TrainingInputs,
    augment_key,
    client_key,
    edges_key,
    training,
)
from fedsim.assemble.topology import node_message_bytes
from fedsim.assemble.wire import (
    check_size,
    forgotten,
    linear_partners,
    no_downlink,
    second_codec,
    undiagnosed,
    whole_messages,
    without_parameters,
    works_on_nothing,
)
from fedsim.compose import max_bytes
from fedsim.data import Federation
from fedsim.engine.bank import choice_bytes
from fedsim.engine.shared_leaves import bytes_at_server
from fedsim.errors import dotted
from fedsim.fleet import Cohort, Plan, Timetable
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import is_graph
from fedsim.types import Client, Codec, Model, Updates
from fedsim.types.client import POOLED

ALTERATIONS = [("data", "skew"), ("data", "attack")]

# Keys of the data section without which its samples can be loaded all the same.
PARTITIONING = [("data", "partition"), ("data", "clients"), *ALTERATIONS]
AUGMENT = ("data", "augment")


class CheckedScenario(NamedTuple):
    """What a scenario is made of, once it is known that it can run."""

    model: Any  # the model section
    client: Any  # the client section
    privacy: PrivacyPlan | None  # what a private scenario spends
    federations: dict[int, Federation]  # by seed
    plan_inputs: PlanInputs
    # the most bytes that a client sends in a round, and receives; a node of a graph: per neighbour
    bytes_up: int
    bytes_down: int
    training_inputs: TrainingInputs
    trained: Training  # what `programs.training` makes of `training_inputs`
    # Start variables by seed where a model or parameters were supplied. Otherwise empty: they are
    # made once it is known that they fit into memory.
    shared: dict[int, Any]
    shapes: Any  # of the start variables
    # of the largest value in a pass of a batch through the model, by the rows of the batch
    activation_bytes: Mapping[int, int]


class _Samples(NamedTuple):
    """The samples of a scenario; UNKNOWN where they cannot be known.

    Attributes:
      federations: by seed.
      federation: the first of them, to check everything else on; where the partition alone is
        impossible, the samples in equal parts.
      N: clients.
      eligible: clients that can take part, under the seed that has the fewest.
      classes: number of classes; 0 for regression targets.
      per_token: whether every token has a label.
    """

    federations: dict[int, Federation]
    federation: Federation
    N: int
    eligible: int
    classes: int
    per_token: bool


class _Learning(NamedTuple):
    """The model of a scenario and how it is trained; UNKNOWN where refused."""

    inputs: TrainingInputs
    trained: Training
    shared: dict[int, Any]  # as in `CheckedScenario`
    shapes: Any  # of the start variables
    activation_bytes: Mapping[int, int]  # as in `CheckedScenario`


def check_scenario(
    scenario: Scenario,
    data: Any,
    model: Any,
    params: Any,
    loss: Any,
    make_federations: Callable[..., dict[int, Federation]],
) -> CheckedScenario:
    """Return what a scenario is made of; the arguments are those of `build`.

    For a scenario whose wrong sections were left out it returns UNKNOWN: there is nothing to run,
    and its other problems are raised.

    Raises:
      ScenarioError: with a line for every problem that can be known.
      DataError: for samples that cannot be learned from.
    """
    problems = Problems(scenario)
    supplied = Supplied(model, params, loss)

    # A step that needs something UNKNOWN is left out, and so are its problems.
    components = make_components(problems)
    samples = _load_samples(problems, data, make_federations)
    components = _check_edges(problems, components, samples.N)
    _check_augmentations(problems, samples)
    scenario = _with_model_section(problems, samples)
    scenario = _with_noise_of_samples(problems, scenario, components, samples)
    K = problems.attempt(_nominal_messages, components.cohort, components.timetable, samples.N)

    components = _check_clients(problems, components, samples)
    client = problems.attempt(client_of_models, scenario, components.client, samples.eligible, K)
    components = components._replace(client=client)
    _check_links(problems, components, K, samples.N)
    learning = _make_learning(problems, scenario, supplied, components, samples)
    travelling = _check_training(problems, components, samples, learning)
    stack = _check_hooks(problems, components, samples.N, K, learning.trained, travelling)
    _check_shares(problems, components, samples)
    of_message = (components.client, learning.shapes)
    problems.check(local_message, scenario, components.links, *of_message)
    problems.check(whole_messages, scenario, components.links, components.cohort, *of_message)
    privacy = _check_privacy(problems, components, samples, learning, travelling)
    _check_private_samples(problems, components, samples, learning)
    _check_topology(problems, components, samples, learning)
    problems.check(unreached_commits, scenario)
    problems.check(unkept_updates, scenario, components.client, components.links)

    problems.raise_all()
    if problems.broken:
        return UNKNOWN
    params_shapes = travelling["params"]
    if components.network is None:
        links = with_noised_codec(scenario, components.links)
        bytes_up = _encoded_bytes(_message(stack.updates), params_shapes, links)
        bytes_up += choice_bytes(learning.trained.client)
        bytes_down = _encoded_bytes(travelling, params_shapes, components.broadcast)
        bytes_down *= learning.trained.client.travel.models
        at_server = bytes_at_server(learning.trained.client, learning.shapes["params"])
        bytes_up -= at_server
        bytes_down -= at_server
        if merges(components.rule):
            bytes_down = bytes_down_of_merging(learning.shapes, travelling, K)
    else:
        bytes_up = node_message_bytes(scenario, learning.trained.client, learning.shapes)
        bytes_down = bytes_up
    return CheckedScenario(
        model=scenario.spec.model,
        client=scenario.spec.client,
        privacy=privacy,
        federations=samples.federations,
        plan_inputs=_with_costs(components.plan_inputs, learning, params_shapes),
        bytes_up=bytes_up,
        bytes_down=bytes_down,
        training_inputs=learning.inputs,
        trained=learning.trained,
        shared=learning.shared,
        shapes=learning.shapes,
        activation_bytes=learning.activation_bytes,
    )


def _with_costs(inputs: PlanInputs, learning: _Learning, params: Any) -> PlanInputs:
    """The inputs of a plan with what clients save that train a part of the model."""
    client = learning.trained.client
    return inputs._replace(levels=with_costs(inputs.levels, client, learning.shapes, params))


def _load_samples(
    problems: Problems, data: Any, make_federations: Callable[..., dict[int, Federation]]
) -> _Samples:
    """Load the samples and partition them."""
    scenario = problems.scenario
    dtype = np.dtype(scenario.spec.numerics.dtype)
    read = [("data", key) for key in type(scenario.spec.data).model_fields if key != "augment"]
    federations = problems.attempt(make_federations, scenario, data, dtype, reads=read)

    if federations:
        federation = of_first_seed(federations)
        N = federation.N
        absent = absent_clients(scenario, N)
        eligible = min(int(((each.sizes > 0) & ~absent).sum()) for each in federations.values())
        problems.check(unscored_clients, scenario, federation)
    else:
        federation, N = _without_partition(problems, data, dtype)
        eligible = N

    is_known = federation is not UNKNOWN
    return _Samples(
        federations=federations,
        federation=federation,
        N=N,
        eligible=eligible,
        classes=federation.classes if is_known else UNKNOWN,
        per_token=federation.per_token if is_known else UNKNOWN,
    )


def _without_partition(problems: Problems, data: Any, dtype: np.dtype) -> tuple[Any, Any]:
    """The samples in equal parts and the number of clients, where the partition was refused.

    Both are UNKNOWN where the samples were refused, too.
    """
    if not problems.refused(*map(dotted, PARTITIONING), "evaluate.metric"):
        return UNKNOWN, UNKNOWN

    scenario = problems.scenario
    spec = scenario.spec
    keys = [("data", key) for key in type(spec.data).model_fields]
    read = [key for key in keys if key not in (*PARTITIONING, AUGMENT)]
    federation = problems.attempt(evenly_partitioned, scenario, data, dtype, reads=read)

    # Skews and attacks follow the partition, so nobody has looked at them yet.
    if problems.refused("data.partition", "data.clients"):
        altering = [*ALTERATIONS, ("fleet", "malicious"), ("evaluate", "metric")]
        problems.attempt(altered, scenario, federation, spec.seeds[0], reads=altering)

    # A natural partition has a client for every id among the samples.
    is_natural = spec.data.partition.kind == "natural"
    if is_natural or problems.refused("data.clients", "data.partition.kind"):
        return federation, UNKNOWN
    return federation, spec.data.clients


def _check_edges(problems: Problems, components: Components, N: int) -> Components:
    """Check the edges of clients, before a model is made for each of them."""
    scenario = problems.scenario
    if components.hierarchy is None:
        return components
    problems.check(beside_edges, scenario)
    problems.check(unusable_edges, scenario, components.hierarchy, N)
    problems.check(unfit_cloud, scenario, components.hierarchy)
    return components._replace(client=UNKNOWN) if problems.refused("topology") else components


def _check_augmentations(problems: Problems, samples: _Samples) -> None:
    """Check that every link of `data.augment` makes an image of an image."""
    scenario = problems.scenario
    for i, section in enumerate(scenario.spec.data.augment):
        problems.attempt(
            check_augmentation, scenario, i, section, samples.federation, reads=[AUGMENT]
        )


def _with_model_section(problems: Problems, samples: _Samples) -> Scenario:
    """The scenario with the model that suits its samples, where it names none."""
    scenario = problems.scenario
    section = problems.attempt(model_section, scenario, samples.federation, reads=[("model",)])
    if section is UNKNOWN:
        return scenario
    return scenario._replace(spec=scenario.spec.model_copy(update={"model": section}))


def _with_noise_of_samples(
    problems: Problems, scenario: Scenario, components: Components, samples: _Samples
) -> Scenario:
    """The scenario with the noise that the ε of `client.dp_sgd` asks for."""
    local = components.plan_inputs.local
    solved = problems.attempt(
        with_noise, scenario, local, samples.federations, reads=[("client",), ("rounds",)]
    )
    return scenario if solved is UNKNOWN else solved


def _nominal_messages(cohort: Cohort, timetable: Timetable, N: int) -> int:
    """Messages that the server takes in a step, when all of its clients report."""
    return timetable.buffer or cohort.nominal(N)


def _check_clients(problems: Problems, components: Components, samples: _Samples) -> Components:
    """Check who takes part, and the keys that say how much a client trains.

    Returns:
      The components, with the cohort that is drawn where the scenario selects more than it needs.
    """
    scenario = problems.scenario
    cohort = components.cohort
    N = samples.N
    problems.check(idle_keys, scenario, components.client)
    problems.check(idle_links, scenario, components.client)
    problems.check(unknown_updates, scenario, components.client, cohort)
    problems.check(unknown_clients, scenario, N)
    problems.check(two_kinds_of_parts, scenario)
    problems.check(unknown_levels, scenario, N)
    problems.check(sections_beside_parts, scenario)
    problems.check(unknown_members, scenario, cohort, N)
    problems.attempt(require_members, scenario, cohort, N)
    problems.check(shares_of_nobody, scenario, samples.federation, cohort)
    problems.check(large_cohort, scenario, cohort, samples.eligible)

    work_keys = [("client", key) for key in ("steps", "epochs")]
    fleet_keys = [("fleet",), ("cohort",), ("schedule",), *work_keys]
    problems.check(idle_fleet_keys, scenario, reads=fleet_keys)

    if not problems.errors and all_known(cohort, samples.eligible):
        cohort = drawn_cohort(scenario, cohort, samples.eligible)
    return components._replace(cohort=cohort)


def _check_links(problems: Problems, components: Components, K: Any, N: int) -> None:
    """Check that every link can work on a cohort of K clients, and with the other links."""
    scenario = problems.scenario
    links = components.links
    made_links = [link for link in links if link.made is not UNKNOWN]
    for link in made_links:
        problems.check(small_cohort, link, K)
        problems.check(too_many_rows, link, K)
        if link.section.family == "rule":
            _check_rule(problems, components, link, N)

    all_links = problems.attempt(with_noised_codec, scenario, links)
    problems.check(second_codec, all_links)
    problems.check(links_beside_parts, scenario, made_links)
    problems.check(beside_merging, scenario, components.rule, made_links)
    problems.check(linear_partners, all_links)
    problems.check(merged_rows, links)
    for link in components.broadcast:
        if link.made is not UNKNOWN:
            problems.check(no_downlink, link)
    for link in made_links:
        problems.check(forgotten, scenario, link, components.client)


def _check_rule(problems: Problems, components: Components, rule: Link, N: int) -> None:
    """Check that the rule suits client method, cohort, fleet and the server's samples."""
    scenario = problems.scenario
    cohort = components.cohort
    problems.check(wrong_partners, scenario, rule, reads=[("client",), ("method",)])
    problems.check(repeated_clients, scenario, cohort, rule)
    problems.check(unknown_shares, scenario, cohort, components.fleet, rule)
    problems.check(unknown_groups, rule, N)
    if not problems.refused("data.server"):
        compared = [("compare", "methods"), ("client", "steps")]
        problems.check(server_samples, scenario, rule, reads=compared)


def _make_learning(
    problems: Problems,
    scenario: Scenario,
    supplied: Supplied,
    components: Components,
    samples: _Samples,
) -> _Learning:
    """Make the model and the program that trains it, and check them against the samples."""
    federation = samples.federation
    rule = components.rule
    freezes = () if rule is None else rule.made.adapter.freezes
    merged = () if rule is None else rule.made.adapter.merges
    always_frozen = freezes[0] if len(freezes) == 1 else ()
    model = problems.attempt(
        model_of, scenario, federation, supplied, always_frozen, merged, reads=[("model",)]
    )
    model = problems.attempt(_model_of_method, scenario, components.client, federation, model)
    local_model = _make_local_model(
        problems,
        components.client,
        model,
        scenario,
        federation,
        supplied,
        always_frozen,
        merged,
    )
    _check_targets(problems, components, samples, model)
    problems.check(model_without_parts, scenario, model)
    problems.check(model_without_ranks, scenario, model)

    loss = supplied.loss
    if not loss:
        loss = problems.attempt(loss_of, scenario, federation, reads=[("model",)])
    inputs = TrainingInputs(
        model=model,
        loss=loss,
        classes=samples.classes,
        client=client_key(scenario.spec.client),
        augment=augment_key(scenario.spec.data),
        mix=scenario.spec.topology.mix if is_graph(scenario.spec.topology) else None,
        edges=edges_key(scenario.spec.topology),
        sample=_sample_of(federation),
        turns=freezes if len(freezes) > 1 else (),
        widths=widths_of(scenario.spec.client),
        ranks=ranks_of(scenario.spec.client),
        merges=bool(merged),
        local_model=None if local_model is model else local_model,
    )

    def make_training(client: Client, *inputs: Any) -> Training:
        del client  # `training` makes it once more; here it only has to be known
        return training(TrainingInputs(*inputs))

    hook_keys = [("client", "optimizer"), AUGMENT]
    trained = problems.attempt(make_training, components.client, *inputs, reads=hook_keys)

    started = problems.attempt(start_models, scenario, model, trained, supplied)
    shared, shapes = (UNKNOWN, UNKNOWN) if started is UNKNOWN else started

    federations = samples.federations or {}
    client = components.client
    is_known = client is not UNKNOWN and federation is not UNKNOWN
    if is_known and client.not_federated == POOLED:
        federation = federation.pooled
        federations = {seed: each.pooled for seed, each in federations.items()}
    widths = problems.attempt(batch_widths, components.local, federation, federations)
    activations = problems.attempt(
        activation_bytes, scenario, local_model, supplied, federation, widths, shapes
    )
    activations = problems.attempt(with_gradients, scenario, activations, shapes)
    for each in federations.values():
        problems.check(short_batches, scenario, model, each, components.local)
    return _Learning(
        inputs=inputs,
        trained=trained,
        shared=shared,
        shapes=shapes,
        activation_bytes=activations,
    )


def _make_local_model(problems: Problems, client: Any, model: Any, *arguments: Any) -> Any:
    """The model as clients compute it while they train: `model`, unless `numerics` says otherwise.

    Args:
      problems: where refusals are recorded.
      client: the method.
      model: what is scored.
      arguments: those of `model_of`.
    """
    numerics = problems.scenario.spec.numerics
    if not numerics.remat and numerics.compute is None:
        return model
    make = partial(model_of, local=True)
    reads = [("model",), ("numerics",)]
    local_model = problems.attempt(make, *arguments, reads=reads)
    federation = arguments[1]
    return problems.attempt(_model_of_method, problems.scenario, client, federation, local_model)


def _sample_of(federation: Any) -> tuple[tuple[int, ...], str] | None:
    """The shape and type of one training sample; None: no samples are known."""
    if federation is UNKNOWN:
        return None
    x = federation.train.x
    return x.shape[1:], str(x.dtype)


def _model_of_method(
    scenario: Scenario, client: Client, federation: Federation, model: Model
) -> Model:
    """The model that the client method trains in place of the scenario's.

    Raises:
      ScenarioError: where leaves of the scenario's model are frozen, or features are missing.
    """
    if client.model is None:
        return model
    section = scenario.spec.model
    if section.freeze or section.train or section.adapter is not None:
        raise made_of_all_leaves(scenario)
    if "features" in client.needs and (model.features is None or model.head is None):
        text = f"{scenario.spec.client.kind} {FEATURES} and a `head`"
        raise scenario.error(("client", "kind"), text)
    x = federation.train.x
    return client.model(model, jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype))


def _check_targets(
    problems: Problems, components: Components, samples: _Samples, model: Any
) -> None:
    """Check that client method, cohort and metric suit the targets and the model."""
    scenario = problems.scenario
    classes = samples.classes
    per_token = samples.per_token
    has_features = model is UNKNOWN or model.features is not None
    problems.check(unmet_needs, scenario, components.client, classes, per_token, has_features)
    problems.check(unknown_columns, scenario, components.cohort, classes, per_token)
    problems.check(loss_without_classes, scenario, classes, per_token)
    problems.check(foreign_metric, scenario, classes, per_token)


def _check_training(
    problems: Problems, components: Components, samples: _Samples, learning: _Learning
) -> Any:
    """Check the hooks of the client method, and that it can work with the schedule.

    Returns:
      Shapes of the variables that travel; UNKNOWN where the method was refused.
    """
    scenario = problems.scenario
    cohort = components.cohort
    timetable = components.timetable
    trained = learning.trained
    shapes = learning.shapes
    problems.attempt(
        check_training, scenario, trained, shapes, samples.federation, components.local
    )
    travelling = problems.attempt(shared_leaves, scenario, trained, shapes)
    problems.check(idle_statistics, scenario, components.client, shapes)
    if components.rule is not None:
        problems.check(leaves_of_rule, scenario, components.rule, travelling)
        problems.check(unmergeable, scenario, components.rule, learning.inputs.model, travelling)

    # A method whose leaves are refused has no memory to look at either.
    if all_known(travelling, timetable, cohort, samples.eligible):
        problems.check(asynchronous_cohort, scenario, timetable, cohort, samples.eligible)
        if not merges(components.rule):  # which no such schedule goes with
            problems.check(asynchronous_client, scenario, timetable, trained, shapes)
        problems.check(asynchronous_links, scenario, timetable, cohort, trained, components.links)
    problems.check(memory_beside_models, scenario, components.client)
    problems.check(remembered_adapters, scenario, trained, shapes)
    problems.check(method_without_parts, scenario, components.client, shapes)
    problems.check(sections_beside_models, scenario, components.client, timetable)
    problems.check(sections_beside_made_models, scenario, components.client)
    made_links = [link for link in components.links if link.made is not UNKNOWN]
    problems.check(links_beside_models, scenario, components.client, made_links)
    return travelling


def _check_hooks(
    problems: Problems,
    components: Components,
    N: Any,
    K: Any,
    trained: Training,
    travelling: Any,
) -> StackShapes:
    """Check the hooks of every link on a stack of K messages -> its shapes, or UNKNOWN."""
    scenario = problems.scenario
    stack = problems.attempt(stack_shapes, scenario, trained, travelling, K, N)
    if stack is UNKNOWN:
        return UNKNOWN
    has_parameters = bool(jax.tree.leaves(travelling["params"]))
    if not has_parameters:
        problems.check(undiagnosed, scenario)
    for link in (*components.broadcast, *components.links):
        if not has_parameters and not works_on_nothing(link):
            problems.check(without_parameters, scenario, link)
        elif link.made is not UNKNOWN:
            problems.attempt(check_link, scenario, link, stack)
            problems.attempt(check_size, scenario, link, travelling["params"])
    return stack


def _check_shares(problems: Problems, components: Components, samples: _Samples) -> None:
    """Check that a rule that divides by how often each client takes part can do so."""
    scenario = problems.scenario
    rule = components.rule
    if rule is None or "share" not in rule.made.needs:
        return
    if problems.refused("client", "cohort", "fleet", "schedule"):
        return

    def make_plans(federations: dict[int, Federation], *inputs: Any) -> list[Plan]:
        return list(plans_of(scenario, federations, PlanInputs(*inputs)).values())

    plans = problems.attempt(make_plans, samples.federations, *components.plan_inputs)
    problems.check(unknown_probabilities, scenario, rule, plans)


def _check_privacy(
    problems: Problems,
    components: Components,
    samples: _Samples,
    learning: _Learning,
    travelling: Any,
) -> PrivacyPlan | None:
    """Check that ε can be counted -> what a private scenario spends, or UNKNOWN.

    Args:
      problems: where refusals are recorded.
      components: of the scenario.
      samples: likewise.
      learning: likewise.
      travelling: shapes of the variables that travel.
    """
    scenario = problems.scenario
    if scenario.spec.privacy is None:
        return None
    refusals = len(problems.errors)
    problems.check(private_numbers, scenario)
    problems.check(private_client, scenario, components.client)
    problems.check(private_statistics, scenario, learning.shapes)
    problems.check(private_cohort, scenario, components.cohort, components.fleet)
    if components.rule is not None:
        problems.check(private_rule, scenario, components.rule)
    for link in components.links:
        if link.made is not UNKNOWN:
            problems.check(private_link, scenario, link)
    if len(problems.errors) > refusals:
        return UNKNOWN
    reads = [("privacy",), ("cohort",), ("schedule",), ("rounds",)]

    def resolve(cohort: Cohort, eligible: int, travelling: Any) -> PrivacyPlan:
        parameters = sum(leaf.size for leaf in jax.tree.leaves(travelling["params"]))
        return resolved_privacy(scenario, cohort, eligible, parameters)

    return problems.attempt(resolve, components.cohort, samples.eligible, travelling, reads=reads)


def _check_private_samples(
    problems: Problems, components: Components, samples: _Samples, learning: _Learning
) -> None:
    """Check that ε of the samples of a client can be counted."""
    scenario = problems.scenario
    problems.check(poisson_keys, scenario, components.client)
    problems.check(private_batches, scenario)
    problems.check(private_method, scenario, components.client)
    problems.check(private_model, scenario, learning.inputs.model, learning.shapes)
    federation = samples.federation
    problems.check(private_gradient, scenario, learning.trained, learning.shapes, federation)
    if components.rule is not None:
        problems.check(private_reports, scenario, components.cohort, components.rule)


def _check_topology(
    problems: Problems, components: Components, samples: _Samples, learning: _Learning
) -> None:
    """Check that clients can be the nodes of the scenario's graph, if it has one."""
    scenario = problems.scenario
    problems.check(graph_needed, scenario, components.client)
    if components.network is None:
        return
    problems.check(beside_topology, scenario)
    problems.check(unusable_graphs, scenario, components.network, samples.N)
    problems.check(node_statistics, scenario, learning.shapes)
    if not problems.refused("topology"):
        problems.check(unfit_node, scenario, components.client, components.network, samples.N)
        problems.check(
            node_without_samples, scenario, components.client, samples.N, samples.eligible
        )
        problems.check(
            unfit_mix_rule,
            scenario,
            components.client,
            components.network,
            samples.N,
            learning.shapes,
        )


def _message(updates: Updates) -> Any:
    """Shapes of one client's message `[...]`, from those of a stack `[K, ...]`."""
    sent = (updates.delta, updates.stats, updates.aux)
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), sent)


def _encoded_bytes(message: Any, params: Any, links: list[Link]) -> int:
    """The most bytes of a message, whose parameters a codec among the links encodes."""
    message_bytes = tree.payload_bytes(message)
    codec = next((link.made for link in links if isinstance(link.made, Codec)), None)
    if codec is None:
        return message_bytes
    return message_bytes - tree.payload_bytes(params) + max_bytes(codec, params)
