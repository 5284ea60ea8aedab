"""What a final model says of samples that its scenario does not have."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.data import Federation
from fedsim.data.completion import completed_features, feature_name
from fedsim.engine.frozen import with_frozen
from fedsim.engine.run import Run
from fedsim.engine.scoring.personal import Prediction, own_samples
from fedsim.engine.scoring.scorer import end_of
from fedsim.errors import DataError
from fedsim.sources import features_of, is_frame
from fedsim.types.task import as_they_are

ROWS = 1024  # samples that pass the model at a time


def outputs(run: Run, x: Any, client: int | None = None) -> np.ndarray:
    """Return the outputs of a final model.

    Args:
      run: a run that has ended.
      x: samples `[n, ...]`, as the scenario's data source has them; a DataFrame by its columns.
      client: whose own model is asked; None: the shared one. Where each client has statistics of
        its own and no model, they are taken with the shared model.

    Returns:
      A score of each class `[n, C]`, before the softmax; of tokens `[n, T, C]`; of models that
      predict numbers these; of those that may give several labels a score of each, before the
      logistic function.

    Raises:
      ValueError: for samples unlike those of the scenario, and where there is no such model.
    """
    server = run.program.server
    apply = run.program.task.apply
    statistics = run.plan.federation.statistics
    by_client = statistics is not None and statistics.by_client
    has_own = server.client.scored.personal is not None or server.client.bank is not None
    if client is not None and (has_own or not by_client):
        end = end_of(run)
        variables = run.form.own_variables(end, client)
        if server.client.scored.predict is not None:
            own = own_samples(end.federation, np.array([client]), end.labels)
            at_hand = jax.tree.map(lambda values: values[0], own)
            apply = Prediction(server.client.scored.predict, run.program.task).forward(at_hand)
    elif server.client.bank is not None:
        raise ValueError("the server has several models; name the client whose model is meant")
    else:
        variables = with_frozen(run.result.shared, run.frozen)

    task = run.program.task
    predicts = as_they_are if task.classes else task.loss.predicts
    x = like_training(x, run.plan.federation, client)
    parts = []
    for first in range(0, len(x), ROWS):
        rows = x[first : first + ROWS]
        part, _ = apply(
            variables, rows, mask=jnp.ones(len(rows), bool), key=jax.random.key(0), train=False
        )
        parts.append(np.asarray(predicts(part)))
    return np.concatenate(parts)


def like_training(x: Any, f: Federation, client: int | None = None) -> np.ndarray:
    """Return samples in the type and on the scale of the training samples.

    Args:
      client: whose samples they are, where each client has statistics of its own.
    """
    names = f.names
    if is_frame(x):
        if names.table is None:
            text = "the scenario's samples have no names of columns"
            raise ValueError(f"x: {text}; give an array (frame.to_numpy()) in their order")
        try:
            x = features_of(x, names.table)
        except DataError as error:
            raise ValueError("\n".join(f"x: {line}" for line in error.lines)) from None
    x = np.asarray(x)
    expected = f.train.x
    if f.channels_first and x.shape[1:] == f.given_shape:
        x = np.moveaxis(x, 1, -1)
    given_shape = _shape_as_read(f)
    if x.shape[1:] != given_shape:
        shape = ", ".join(["n", *map(str, given_shape)])
        raise ValueError(f"x: samples of the scenario are [{shape}]; found {list(x.shape)}")

    if not len(x):
        raise ValueError("x: no samples")

    whole = expected.dtype.kind in "iu"  # tokens, or pixels 0 to 255
    if x.dtype.kind not in ("iu" if whole else "fiub"):
        raise ValueError(f"x: samples of the scenario are {expected.dtype}; found {x.dtype}")
    if f.statistics is not None:
        own = f.statistics.of(-1 if client is None else client)
        x = completed_features(x, own, expected.dtype)
    _require_finite(x, names.features)

    if x.dtype == np.uint8 and x.ndim > 2 and not whole and x.max() > 1 >= np.max(expected):
        raise ValueError("x: bytes, and samples of the scenario are floats up to 1; divide by 255")

    converted = x.astype(expected.dtype)
    beyond = (x < 0) | (x >= f.vocabulary) if f.vocabulary else whole & (converted != x)
    if np.any(beyond):
        largest = f.vocabulary - 1 if f.vocabulary else np.iinfo(expected.dtype).max
        raise ValueError(f"x: values of the scenario are 0 to {largest}; found {x[beyond][0]}")
    return converted


def _shape_as_read(f: Federation) -> tuple[int, ...]:
    """The shape of a sample before indicators of blanks are added."""
    shape = f.train.x.shape[1:]
    if f.statistics is None or not len(f.statistics.indicators):
        return shape
    return (shape[0] - len(f.statistics.indicators),)


def _require_finite(x: np.ndarray, names: tuple[str, ...] | None) -> None:
    """Refuse features that are blank where nothing fills them, and infinite ones."""
    if x.dtype.kind != "f" or np.isfinite(x).all():
        return
    row, *position = np.argwhere(~np.isfinite(x))[0].tolist()
    where = feature_name(position[0], names) if len(position) == 1 else f"position {position}"
    if np.isnan(x[row, *position]):
        reason = "blank; the scenario fills none, as data.missing: mean or median would"
    else:
        reason = "infinite"
    raise ValueError(f"x: row {row}, {where}: {reason}")
