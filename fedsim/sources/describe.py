"""Samples in numbers: rows, shape, classes, clients, blanks, bytes."""

from typing import Any

import numpy as np

from fedsim.sources.arrays import (
    Arrays,
    class_count,
    encode_labels,
    is_per_token,
    vocabulary_of,
)
from fedsim.sources.ids import number_ids


def describe_arrays(arrays: Arrays) -> dict[str, Any]:
    """Return counts of the samples that a reader returned, by name; None where one does not apply.

    `missing` has the number of blanks, NaN, by column. Labels that cannot be classes are refused.
    """
    arrays, labels = encode_labels(arrays)
    arrays = arrays._replace(vocabulary=vocabulary_of(arrays))
    _require_classes(arrays)
    x: Any = arrays.x
    features = [x]
    test_rows = 0
    if arrays.x_test is not None and arrays.y_test is not None:
        features.append(arrays.x_test)
        test_rows = len(arrays.y_test)
    names = None if arrays.features is None else list(arrays.features)
    clients = None if arrays.client is None else _clients(arrays.client)
    return {
        "rows": len(arrays.y),
        "test_rows": test_rows,
        "shape": list(x.shape[1:]),
        "type": str(x.dtype),
        "scale": 1.0 if arrays.scale is None else float(arrays.scale),
        "vocabulary": arrays.vocabulary or None,
        "features": names,
        "target": _target(np.asarray(arrays.y), labels),
        "clients": clients,
        "columns": sorted(arrays.columns or ()),
        "missing": _missing(features, names),
        "bytes": sum(values.nbytes for values in features),
    }


def _require_classes(arrays: Arrays) -> None:
    """Refuse labels that would take much memory to be counted."""
    integers = []
    for labels in (arrays.y, arrays.y_test):
        if labels is None:
            continue
        labels = np.asarray(labels)
        if labels.dtype.kind in "iu" and labels.size:
            integers.append(labels)
    if integers:
        class_count(arrays, *integers)


def _target(y: np.ndarray, labels: tuple[str, ...] | None) -> dict[str, Any]:
    """The range of numbers; of classes, the number of samples (or tokens) of each."""
    if y.dtype.kind == "f":
        finite = y[np.isfinite(y)]
        return {
            "kind": "numbers",
            "shape": list(y.shape[1:]),
            "least": float(finite.min()) if len(finite) else None,
            "most": float(finite.max()) if len(finite) else None,
        }
    counts = np.bincount(y[y >= 0].astype(np.int64), minlength=len(labels or ()))
    names = labels or [str(k) for k in range(len(counts))]
    return {
        "kind": "tokens" if is_per_token(y) else "classes",
        "count": len(counts),
        "samples": dict(zip(names, counts.tolist(), strict=False)),
    }


def _clients(ids: np.ndarray) -> dict[str, Any]:
    """The number of clients, and those with the fewest and the most samples."""
    numbers, names = number_ids(np.asarray(ids))
    sizes = np.bincount(numbers, minlength=len(names))
    smallest = int(sizes.argmin())
    largest = int(sizes.argmax())
    return {
        "count": len(names),
        "smallest": {"id": names[smallest], "samples": int(sizes[smallest])},
        "largest": {"id": names[largest], "samples": int(sizes[largest])},
    }


def _missing(features: list[Any], names: list[str] | None) -> dict[str, int]:
    """The number of blanks by column, where there are any, among the features of all sets."""
    if features[0].dtype.kind != "f":
        return {}
    counts: Any = 0  # [columns]
    for values in features:
        counts = counts + np.isnan(values).reshape(len(values), -1).sum(0)
    if not names:
        names = [f"feature {j}" for j in range(len(counts))]
    return {name: int(count) for name, count in zip(names, counts, strict=False) if count}
