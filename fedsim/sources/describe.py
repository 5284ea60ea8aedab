"""What samples are, in numbers: rows, shape, classes, clients, blanks, bytes."""

from typing import Any

import numpy as np

from fedsim.sources.arrays import (
    Arrays,
    class_count,
    classes_named,
    numbered,
    per_token,
    vocabulary_of,
)
from fedsim.sources.mapped import Mapped, chunks, in_file


def described(arrays: Arrays) -> dict[str, Any]:
    """Counts of samples that a reader gave.

    Args:
      arrays: the samples, blanks NaN.

    Returns:
      By name: `rows`, `test_rows`, `shape` and `type` of a sample, `scale`, `vocabulary`, `features`, `target`, `clients`,
      `missing` (blanks by column), `bytes`, `in_file`; what does not apply is None.

    Raises:
      DataError: for names that are no text in UTF-8, and for labels that are no classes.
    """
    arrays, labels = classes_named(arrays)
    arrays = arrays._replace(vocabulary=vocabulary_of(arrays))
    _require_classes(arrays)
    x: Any = arrays.x
    parts = [part for part in (arrays.x, arrays.x_test) if part is not None]
    return {
        "rows": len(arrays.y),
        "test_rows": 0 if arrays.y_test is None else len(arrays.y_test),
        "shape": list(x.shape[1:]),
        "type": str(x.dtype),
        "scale": float(arrays.scale),
        "vocabulary": arrays.vocabulary or None,
        "features": None if arrays.features is None else list(arrays.features),
        "target": _target(np.asarray(arrays.y), labels),
        "clients": None if arrays.client is None else _clients(arrays.client),
        "columns": sorted(arrays.columns or ()),
        "missing": _missing(parts, arrays.features),
        "bytes": sum(int(np.prod(part.shape)) * part.dtype.itemsize for part in parts),
        "in_file": isinstance(x, Mapped) or in_file(x),
    }


def _require_classes(arrays: Arrays) -> None:
    """Refuse labels that would take much memory to be counted.

    Raises:
      DataError: for timestamps, ids, and classes that have no names where others have.
    """
    parts = [np.asarray(part) for part in (arrays.y, arrays.y_test) if part is not None]
    whole = [part for part in parts if part.dtype.kind in "iu" and part.size]
    if whole:
        class_count(arrays, *whole)


def _target(y: np.ndarray, labels: tuple[str, ...] | None) -> dict[str, Any]:
    """Classes and how many samples (or tokens) each has; of numbers their range."""
    if y.dtype.kind == "f":
        known = y[np.isfinite(y)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (None, None)
        return {"kind": "numbers", "shape": list(y.shape[1:]), "least": low, "most": high}
    counts = np.bincount(y[y >= 0].astype(np.int64), minlength=len(labels or ()))
    names = labels or [str(k) for k in range(len(counts))]
    kind = "tokens" if per_token(y) else "classes"
    return {
        "kind": kind,
        "count": len(counts),
        "samples": dict(zip(names, counts.tolist(), strict=False)),
    }


def _clients(ids: np.ndarray) -> dict[str, Any]:
    code, names = numbered(np.asarray(ids))
    sizes = np.bincount(code, minlength=len(names))
    ends = {"smallest": int(sizes.argmin()), "largest": int(sizes.argmax())}
    return {
        "count": len(names),
        **{end: {"id": names[k], "samples": int(sizes[k])} for end, k in ends.items()},
    }


def _missing(parts: list[Any], features: Any) -> dict[str, int]:
    """Blanks by column, where there are any."""
    if parts[0].dtype.kind != "f":
        return {}
    blanks: Any = sum(
        np.isnan(c).reshape(len(c), -1).sum(0) for part in parts for c in chunks(part)
    )
    names = features or [f"feature {j}" for j in range(len(blanks))]
    return {name: int(n) for name, n in zip(names, blanks, strict=False) if n}
