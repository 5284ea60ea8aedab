"""What the model learns by: the loss of a scenario, or a user's, checked against the samples."""

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedsim.assemble.facts import Facts
from fedsim.assemble.links import factory_of
from fedsim.assemble.section_keys import HashableSection
from fedsim.assemble.traits import SILENT, Reason, Voice
from fedsim.data import Federation
from fedsim.errors import shortened
from fedsim.kinds.targets import has_times
from fedsim.losses import balanced_weights, weighted
from fedsim.losses.weights import BALANCED, BY_CLIENT
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import LOSSES
from fedsim.sources.targets import is_one_hot
from fedsim.types import Loss

MAX_CACHED = 64
FEW_CLASSES = 100  # up to which whole targets may be meant as classes
WHERE = ("model", "loss")

# What samples have -> in words, and the losses for them.
TARGETS = {
    "classes": ("these are classes", "cross_entropy, focal or hinge"),
    "tokens": ("here every token has a class", "cross_entropy or focal"),
    "numbers": ("these targets are numbers", "squared, huber, quantile or poisson"),
    "times": ("these are times and events", "cox or discrete_cox"),
}
IN_WORDS = {
    "classes": "classes",
    "tokens": "labels of tokens",
    "numbers": "targets that are numbers",
    "sets": "samples with any number of labels",
    "times": "times and events",
}


def loss_of(scenario: Scenario, federation: Federation) -> Loss:
    """Return the loss; by default cross-entropy for classes, squared error for targets.

    Weights of classes are those of the samples, but for `balanced_by_client`, which stays as it is
    written.
    """
    section: Any = scenario.spec.model.loss
    demand_clear_targets(scenario, federation)
    if section is None:
        section = LOSSES.validate("cross_entropy" if federation.classes else "squared")
    loss = _made(HashableSection(section))
    targets = _targets_of(scenario.spec.data, federation)
    fault = _misfit(section.kind, loss, targets, federation)
    if fault:
        raise scenario.error(WHERE, fault)
    if loss.fitted is not None:
        loss = loss.fitted(federation.train.y)

    weights = loss.class_weights
    if weights == BALANCED:
        weights = balanced_weights(np.asarray(federation.class_counts))
    if weights is None:
        return loss
    fault = _fault_of_weights(weights, federation)
    if fault:
        raise scenario.error((*WHERE, "class_weights"), fault)
    return loss if isinstance(weights, str) else _weighted(loss, weights)


def demand_clear_targets(scenario: Scenario, federation: Federation) -> None:
    """Refuse numbers that may be meant as classes, where no loss says which they are."""
    if scenario.spec.model.loss is None:
        unclear = unclear_targets(scenario.spec.data, federation)
        if unclear:
            raise scenario.error(WHERE, unclear)


@functools.lru_cache(MAX_CACHED)
def _made(section: HashableSection) -> Loss:
    """The loss of a section; cached, so that equal ones are compiled once."""
    made = factory_of(section.section)()
    return made if isinstance(made, Loss) else Loss(made)


_weighted = functools.lru_cache(MAX_CACHED)(weighted)


def _targets_of(section: Any, f: Federation) -> str:
    if f.classes:
        return "tokens" if f.per_token else "classes"
    return "times" if has_times(getattr(section, "target", None)) else "numbers"


def _misfit(kind: str, loss: Loss, targets: str, f: Federation) -> str:
    """Why a loss does not suit the samples; empty if it does."""
    if not loss.targets:
        return ""
    accepted = set(loss.targets)
    are_pairs = "times" in accepted and f.train.y.shape[1:] == (2,)
    if are_pairs or "sets" in accepted:
        accepted.add("numbers")
    if targets not in accepted:
        found, others = TARGETS[targets]
        whom = " and ".join(IN_WORDS[each] for each in sorted(loss.targets))
        text = f"{kind} is for {whom}, and {found}"
        if targets == "numbers" and "classes" in loss.targets:
            text = f"{text}{_shape_of_classes(f.train.y)}"
        if targets == "numbers" and "times" in loss.targets:
            others = "give y [n, 2], or data.target: {time: COLUMN, event: COLUMN}"
            return f"{text}; {others}"
        return f"{text}; write {others}"
    if loss.fault is not None:
        for y in (f.train.y, f.test.y, f.validation.y):
            if fault := loss.fault(y):
                return f"{fault}; use another loss"
    return ""


def _shape_of_classes(y: np.ndarray) -> str:
    """What numbers look like that may be meant as classes, behind "numbers"; else nothing."""
    if is_one_hot(y):
        return " in one-hot rows (y.argmax(1) makes classes of them)"
    if are_whole(y):
        return " without decimals (y.astype(int) makes classes of them)"
    return ""


def are_whole(y: np.ndarray) -> bool:
    """Return whether targets are 0.0, 1.0, 2.0 and so on, or 1.0, 2.0 ..., without gaps."""
    if y.shape[1:] not in ((), (1,)) or not len(y):
        return False
    different = np.unique(y)  # sorted
    in_order = (different == different[0] + np.arange(len(different))).all()
    return bool(1 < len(different) <= FEW_CLASSES and different[0] in (0, 1) and in_order)


def are_sets(y: np.ndarray) -> bool:
    """Return whether targets `[n, L]` are a 0 or 1 for each of several labels."""
    return y.ndim == 2 and y.shape[1] > 1 and len(y) > 0 and bool(((y == 0) | (y == 1)).all())


def unclear_targets(section: Any, f: Federation) -> str:
    """Return what to write where numbers may be meant as classes; empty where that is clear."""
    y = f.train.y
    if f.classes or getattr(section, "task", None) == "regression":
        return ""
    key = "data.task: classification or regression" if hasattr(section, "task") else ""
    if is_one_hot(y):
        seen = f"targets are rows of {y.shape[1]} numbers with a single 1, as of classes"
        remedy = "give y.argmax(1), or write loss: squared to predict the numbers"
    elif are_sets(y):
        seen = f"targets are 0 or 1 in {y.shape[1]} columns, as of samples with several labels"
        return f"{seen}; write loss: binary_cross_entropy, or loss: squared to predict the numbers"
    elif are_whole(y):
        different = np.unique(y)
        seen = f"targets are {different[0]} to {different[-1]} without decimals"
        seen = f"{seen}, which may be numbers or classes"
        remedy = "give y.astype(int) for classes, or write loss: squared for numbers"
    else:
        return ""
    return f"{seen}; {remedy}{f', or {key}' if key else ''}"


def _fault_of_weights(weights: tuple[float, ...] | str, f: Federation) -> str:
    """What is wrong with weights of classes, or with `balanced_by_client`; empty if nothing is."""
    if isinstance(weights, str):
        text = f"{weights} counts samples of one class each, and here every token has one"
        return f"{text}; write balanced" if f.per_token else ""
    if len(weights) != f.classes:
        noun = "weight" if len(weights) == 1 else "weights"
        text = f"{len(weights)} {noun}, and the samples have {f.classes} classes"
        return f"{text}; write one for each, or balanced"
    if not any(weights):
        return "all weights are 0, so that no sample counts; write one above 0"
    return ""


def loss_voice(facts: Facts) -> Voice:
    """What a loss reads of samples besides their gradients, and what its outputs are not."""
    section: Any = facts.spec.model.loss
    if section is None or facts.supplied.loss is not None:
        return SILENT
    return voice_of_loss(section.kind, _made(HashableSection(section)))


def voice_of_loss(kind: str, loss: Loss) -> Voice:
    """A loss alone."""
    instead = "use cross_entropy"
    if "times" in loss.targets:
        instead = "use discrete_cox with the ends of its bins"
    return Voice(WHERE, instead, [], list(_takes(kind, loss)))


def _takes(kind: str, loss: Loss) -> Iterator[Reason]:
    if loss.targets and not loss.probabilities:
        yield Reason("softmax", f"{kind} is of no softmax")
    if loss.of_set is not None:
        yield Reason("sample_gradients", f"{kind} compares the samples of a batch")
        yield Reason("sample_losses", f"{kind} compares the samples of a batch")
    if loss.fitted is not None:
        text = f"{kind} looks at the targets of all clients without noise"
        yield Reason("noised_gradients", text)
        yield Reason("noised_mean", text)
    if not isinstance(loss.class_weights, str):
        return
    text = f"class_weights: {loss.class_weights} counts labels without noise"
    yield Reason("noised_gradients", text, "write a weight for each class")
    if loss.class_weights == BALANCED:
        yield Reason("noised_mean", text, "write a weight for each class")


def class_weight_notes(scenario: Scenario, federation: Federation) -> list[str]:
    """Return a line for clients with samples of one class alone, which no weights can balance."""
    section = scenario.spec.model.loss
    if getattr(section, "class_weights", None) != BY_CLIENT:
        return []
    classes = (federation.label_counts() > 0).sum(axis=1)
    alone = np.flatnonzero(classes == 1)
    if not len(alone):
        return []
    name = shortened(str(federation.client_names[alone[0]]), 40)
    others = f" and {len(alone) - 1} others" if len(alone) > 1 else ""
    verb = "have" if others else "has"
    text = f"client {name}{others} {verb} samples of one class, which count as without weights"
    return [f"class_weights balanced_by_client: {text}"]
