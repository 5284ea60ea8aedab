"""What users may not have meant with their samples: notes and warnings, a line for each."""

from typing import Any

import numpy as np

from fedsim.assemble.losses import class_weight_notes
from fedsim.data import Federation, scale_remark
from fedsim.errors import shortened
from fedsim.scenario.scenario import Scenario

MANY_CLASSES = 30  # above which whole numbers may be meant as targets


def data_warnings(scenario: Scenario, federation: Federation) -> list[str]:
    """Return what a user may not have meant with the samples: a line for each, usually none."""
    section = scenario.spec.data
    unused = _unused_samples(federation)
    scales = _scale_warnings(section, federation)
    labels = []
    if federation.classes:
        labels = _label_warnings(federation) or _class_warnings(section, federation)
    tests = _test_warnings(section, federation)
    weights = class_weight_notes(scenario, federation)
    return [*federation.remarks, *unused, *tests, *labels, *weights, *scales]


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


def _test_warnings(section: Any, f: Federation) -> list[str]:
    """A line for a frame that is all trained on, where the scenario does not say so."""
    said = "test" in section.model_fields_set or f.names.table is None
    if said or len(f.test.y) or f.test_holders.sizes.any():
        return []
    text = "no samples are held out to test on, as a fifth of a file would be"
    return [f"{text}; write data.test: 0.2, or 0 for none"]


def _class_warnings(section: Any, f: Federation) -> list[str]:
    """A line for many classes that are whole numbers, which may be meant as such."""
    guessed = hasattr(section, "task") and section.task is None
    many_numbers = f.names.labels is None and f.classes > MANY_CLASSES and not f.per_token
    if not guessed or not many_numbers:
        return []
    numbers = f"labels are whole numbers up to {f.classes - 1}"
    return [f"{numbers}, learned as {f.classes} classes; to predict them, data.task: regression"]


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
