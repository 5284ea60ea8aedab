"""Data sets of torch as samples in memory."""

from typing import Any

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays


def samples(dataset: Any, **columns: str) -> Arrays:
    """Return the samples of a `torch.utils.data.Dataset` whose items are pairs (x, y).

    Args:
      dataset: the set.
      columns: names of columns by their use, of which it has none.

    Raises:
      DataError: for one without a length, for other items, for samples of several shapes, and for
        names of columns.
    """
    for key in columns:
        text = "names a column, and items of a torch data set are pairs without names"
        raise DataError(f"data.{key} {text}; remove it")
    try:
        n = len(dataset)
    except TypeError:
        raise DataError("data: a torch data set needs a length; a stream has none") from None
    pairs = [dataset[i] for i in range(n)]
    if not pairs or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise DataError("data: items of a torch data set should be pairs (x, y)")
    try:
        x = np.stack([np.asarray(x) for x, _ in pairs])
        y = np.stack([np.asarray(y) for _, y in pairs])
    except ValueError as error:
        raise DataError(f"data: samples of a torch data set: {error}") from None
    return Arrays(x, y)
