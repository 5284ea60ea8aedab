"""The model of a scenario and how it is trained, as steps of its check."""

from functools import partial
from typing import Any

import jax

from fedsim.assemble.facts import Facts
from fedsim.assemble.fields import fields, of_all
from fedsim.assemble.hooks import check_link, check_training, shared_leaves, stack_shapes
from fedsim.assemble.loading import AUGMENT
from fedsim.assemble.losses import loss_of
from fedsim.assemble.model import (
    activation_bytes,
    batch_widths,
    model_of,
    model_section,
    start_models,
)
from fedsim.assemble.problems import UNKNOWN, all_known
from fedsim.assemble.programs import (
    Training,
    TrainingInputs,
    augment_key,
    client_key,
    training,
)
from fedsim.assemble.wire import check_size, works_on_nothing
from fedsim.data import Federation
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client, Loss, Model
from fedsim.types.client import POOLED


def choose_model(facts: Facts) -> None:
    """Put the model that suits the samples into the scenario, where it names none."""
    federation = facts.maybe("federation")
    section = facts.attempt(model_section, facts.scenario, federation, reads=[("model",)])
    if section is not UNKNOWN:
        spec = facts.spec.model_copy(update={"model": section})
        facts.scenario = facts.scenario._replace(spec=spec)


def make_model(facts: Facts) -> None:
    """Make the model and its loss."""
    scenario = facts.scenario
    federation = facts.maybe("federation")
    counts_models = of_all(lambda field: field.counts_models)
    client = UNKNOWN if facts.refused(*counts_models) else facts.maybe("at_server")
    rule = None if facts.rule is None else facts.rule.made

    loss = _loss(facts, federation)
    known_loss = None if loss is UNKNOWN else loss

    def make(*, local: bool, reads: list) -> Any:
        make_model = partial(model_of, loss=known_loss, rule=rule, local=local)
        made = facts.attempt(make_model, scenario, federation, facts.supplied, reads=reads)
        if all_known(client) and client.model and facts.refused("model"):
            return UNKNOWN
        return facts.attempt(_model_of_method, scenario, client, federation, made)

    model = make(local=False, reads=[("model",)])
    local_model = model
    numerics = scenario.spec.numerics
    if numerics.remat or numerics.compute is not None:
        local_model = make(local=True, reads=[("model",), ("numerics",)])
    inputs = TrainingInputs(
        model=model,
        loss=loss,
        classes=facts.maybe("classes"),
        client=client_key(scenario.spec.client),
        augment=augment_key(scenario.spec.data),
        sample=_sample_of(federation),
        of_fields=tuple(
            (name, field.method(scenario.spec, rule)) for name, field in fields().items()
        ),
        local_model=None if local_model is model else local_model,
    )
    facts.learn(model=model, local_model=local_model, loss=loss, training_inputs=inputs)


def _loss(facts: Facts, federation: Any) -> Any:
    """What the model learns by: the user's own function, or the scenario's loss."""
    supplied = facts.supplied.loss
    if supplied is not None:
        return supplied if isinstance(supplied, Loss) else Loss(supplied)
    return facts.attempt(loss_of, facts.scenario, federation, reads=[("model",)])


def _sample_of(federation: Any) -> tuple[tuple[int, ...], str] | None:
    """The shape and type of one training sample; None: no samples are known."""
    if federation is UNKNOWN:
        return None
    x = federation.train.x
    return x.shape[1:], str(x.dtype)


def _model_of_method(
    scenario: Scenario, client: Client, federation: Federation, model: Model
) -> Model:
    """The model that the client method trains in place of the scenario's."""
    if client.model is None:
        return model
    if "features" in client.needs and (model.features is None or model.head is None):
        text = f"{scenario.spec.client.kind} compares features, and this model returns none"
        text = f"{text}; use mlp or cnn, or a model with `features` and a `head`"
        raise scenario.error(("client", "kind"), text)
    x = federation.train.x
    return client.model(model, jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype))


def make_training(facts: Facts) -> None:
    """Make the program that trains, its start variables, and what travels."""
    scenario = facts.scenario
    supplied = facts.supplied
    model = facts.maybe("model")

    def make(*inputs: Any) -> Training:
        return training(TrainingInputs(*inputs))

    hook_keys = [("client", "optimizer"), AUGMENT]
    trained = facts.attempt(make, *facts.training_inputs, reads=hook_keys)
    started = facts.attempt(start_models, scenario, model, trained, supplied)
    shared, shapes = (UNKNOWN, UNKNOWN) if started is UNKNOWN else started
    facts.learn(trained=trained, shared=shared, shapes=shapes)
    _count_activations(facts)

    federation = facts.maybe("federation")
    local = facts.maybe("local")
    facts.attempt(check_training, scenario, trained, shapes, federation, local)
    travelling = _travelling(facts)
    facts.learn(travelling=travelling, row=facts.attempt(_row, trained, shapes, travelling))


def _travelling(facts: Facts) -> Any:
    known = (facts.maybe("trained"), facts.maybe("shapes"))
    try:
        return facts.attempt(shared_leaves, facts.scenario, *known)
    except Exception:
        if facts.refused("client.kind"):  # its hooks may lack what they need
            return UNKNOWN
        raise


def _row(trained: Training, shapes: Any, travelling: Any) -> Any:
    """Shapes of what a client remembers; a method whose leaves are refused remembers nothing."""
    del travelling  # it only has to be known
    return jax.eval_shape(trained.client.memory, shapes, jax.eval_shape(jax.random.key, 0))


def _count_activations(facts: Facts) -> None:
    """Count the bytes of the largest value in a pass of a batch through the model."""
    scenario = facts.scenario
    federation = facts.maybe("federation")
    federations = facts.maybe("federations") or {}
    client = facts.maybe("client")
    if all_known(client, federation) and client.not_federated == POOLED:
        federation = federation.pooled
        federations = {seed: each.pooled for seed, each in federations.items()}
    facts.learn(trained_on=federations)

    widths = facts.attempt(batch_widths, facts.maybe("local"), federation, federations)
    shapes = facts.maybe("shapes")
    arguments = (facts.maybe("local_model"), facts.supplied, federation, widths, shapes)
    activations = facts.attempt(activation_bytes, scenario, *arguments)
    facts.learn(activation_bytes=activations)


def trace_links(facts: Facts) -> None:
    """Trace every link on a stack of K messages."""
    scenario = facts.scenario
    travelling = facts.maybe("travelling")
    names = ("trained", "travelling", "K", "N")
    stack = facts.attempt(stack_shapes, scenario, *map(facts.maybe, names))
    facts.learn(stack=stack)
    if stack is UNKNOWN:
        return
    has_parameters = bool(jax.tree.leaves(travelling["params"]))
    for link in (*facts.further_links, *facts.links):
        if link.made is not UNKNOWN and (has_parameters or works_on_nothing(link)):
            facts.attempt(check_link, scenario, link, stack)
            facts.attempt(check_size, scenario, link, travelling["params"])
