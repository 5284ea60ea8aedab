"""What users may not have meant with their samples: notes and warnings, a line for each."""

from typing import Any

import numpy as np

from fedsim.data import Federation, scale_remark
from fedsim.errors import shortened
from fedsim.scenario.scenario import Scenario

FEW_CLASSES = 100  # up to which whole targets may be meant as classes


def data_warnings(scenario: Scenario, federation: Federation) -> list[str]:
    """Return what a user may not have meant with the samples: a line for each, usually none."""
    unused = _unused_samples(federation)
    scales = _scale_warnings(scenario.spec.data, federation)
    labels = []
    if federation.classes:
        labels = _label_warnings(federation)
    elif scenario.spec.model.loss is None:  # whoever names a loss has targets in mind
        labels = _target_warnings(federation)
    return [*federation.remarks, *unused, *labels, *scales]


def partition_notes(federation: Federation) -> list[str]:
    """Return a line for samples that no client holds, and one for clients that never train."""
    f = federation
    notes = _unused_samples(f)
    if f.held_out.any():
        tests = np.bincount(f.test_holders.owner, minlength=f.N)[f.held_out]
        clients = f"{len(tests):,} of {f.N:,} clients never train"
        notes.append(f"{clients}, and are tested on {tests.sum():,} samples of their own")
    return notes


def _unused_samples(f: Federation) -> list[str]:
    """A line for samples that no client holds, if there are any."""
    if not f.unused:
        return []
    n = len(f.train.x)
    return [f"the partition leaves {f.unused:,} of {n:,} training samples to nobody"]


def _scale_warnings(section: Any, federation: Federation) -> list[str]:
    """A line for features whose scales differ by orders, where the data section can change that."""
    if getattr(section, "standardize", None) is not False:
        return []
    remark = scale_remark(federation.train.x, federation.names.features)
    return [remark] if remark else []


def _target_warnings(f: Federation) -> list[str]:
    """A line for targets that look like classes: 0.0, 1.0, 2.0 and so on."""
    y = f.train.y
    predicted = "so the model predicts numbers"
    if y.ndim == 1:
        different = np.unique(y)  # sorted
        if 1 < len(different) <= FEW_CLASSES and (different == np.arange(len(different))).all():
            values = f"targets are 0.0 to {different[-1]} without decimals, {predicted}"
            return [f"{values}; if they are classes, write whole numbers (y.astype(int))"]
    return []


def _label_warnings(f: Federation) -> list[str]:
    """A line for classes without training samples: gaps in the numbering, or labels to test on."""
    if f.per_token:
        return []
    labels = f.train.y[f.holders.indices]
    trained = np.bincount(labels, minlength=f.classes) > 0  # [C]
    count = int(trained.sum())

    unnamed = f.names.labels is None
    tested = np.bincount(f.test.y, minlength=f.classes) > 0
    if unnamed and trained[1:].all() and not trained[0] and not tested[0]:
        text = f"labels run from 1 to {f.classes - 1}, and the model has a class 0 as well"
        return [f"{text}; number the classes 0, 1, 2, ... (y - 1)"]
    if unnamed and f.classes - count >= max(f.classes // 2, 1):
        classes = f"labels run from 0 to {f.classes - 1}, {f.classes} classes"
        text = f"{classes}, and {count} of them have training samples"
        return [f"{text}; number the classes 0, 1, 2, ... without gaps"]

    unseen = np.flatnonzero(tested & ~trained)
    if not len(unseen):
        return []
    names = [shortened(str(f.label_names[label]), 40) for label in unseen[:5]]
    if len(unseen) > 5:
        names.append("...")
    text = f"test labels {', '.join(names)} are in no client's training samples"
    return [f"{text}: nobody learns them"]
