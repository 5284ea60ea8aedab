"""How malicious clients change their training samples, and how success is scored.

Everything is drawn by seed and client, never by the method.
"""

from collections.abc import Callable

import numpy as np

from fedsim.compose import tag_of
from fedsim.compose.shapes import ContractError
from fedsim.data.federation import Federation
from fedsim.data.poison import Poison
from fedsim.data.skewing import (
    are_labels,
    finite,
    rows_of,
    with_writable_copy,
    without_labels,
    without_numbers,
)
from fedsim.data.splits import Samples

METRIC = "attack_success"


def poison_refusal(poison: Poison, f: Federation) -> str:
    """Return why these samples cannot be attacked, and what to do; an empty string if they can."""
    if f.label_shift_periods:
        return (
            "changes labels once, and those of a concept_shift with every move on from round to "
            "round; remove one"
        )
    text = without_labels(f)
    if not text and poison.features != "ignores":
        text = without_numbers(f, poison.features)
    return text or poison.refusal(f.train.x.shape[1:], f.classes)


def poisoned(
    federation: Federation,
    name: str,
    poison: Poison,
    malicious: np.ndarray,
    generator: Callable[[int, int], np.random.Generator],
    dtype: np.dtype,
    given: Federation,
) -> Federation:
    """Return a federation in which the training samples of malicious clients are poisoned.

    All test samples, and all other sets, are unchanged.

    Args:
      generator: `(tag, client) -> rng` that a client's samples are changed with.
      given: the federation before the first link, whose arrays must not be written to.

    Raises:
      ContractError: if the attack returns samples of another shape, or such that cannot be learned
        from.
    """
    f = federation
    changed = np.zeros(f.N, np.int64)  # samples per client
    clients = np.flatnonzero(malicious & (f.sizes > 0))
    if len(clients):
        f = f._replace(source=f.source or f.fingerprint()["data"])
        f = with_writable_copy(f, given, "y")
        if poison.features == "changes":
            f = with_writable_copy(f, given, "x")

    for number, client in enumerate(clients.tolist()):
        rows = rows_of(f, client, test=False)
        rng = generator(tag_of(name), client)
        changed[client] = _change(f, poison, rows, number, rng, dtype)
    return f._replace(skews={**f.skews, f"attack/{name}": changed})


def with_triggered(f: Federation, poison: Poison, dtype: np.dtype) -> Federation:
    """Return the federation with the test samples that an attack's success is scored on.

    Attacks without a target have none.

    Raises:
      ContractError: if the trigger returns features of another shape, or such that no sample can
        have.
    """
    if poison.target is None:
        return f
    rows = np.flatnonzero(f.test.y != poison.target)
    stored = f.test.x[rows]
    if poison.among is not None and len(rows):
        mask = np.asarray(poison.among(_as_seen(f, stored, dtype), f.test.y[rows]))
        if mask.shape != rows.shape or mask.dtype != bool:
            raise ContractError(
                f"among: returned {mask.dtype} {mask.shape}; expected bool {rows.shape}"
            )
        rows = rows[mask]
        stored = stored[mask]
    if poison.trigger is not None and len(rows):
        seen = _as_seen(f, stored, dtype)
        new = np.asarray(poison.trigger(seen.copy()))
        stored = _as_stored(f, new, seen, stored, "trigger")
    y = np.full(len(rows), poison.target, f.test.y.dtype)
    return f._replace(aims={METRIC: Samples(stored, y)})


def _change(
    f: Federation,
    poison: Poison,
    rows: np.ndarray,
    number: int,
    rng: np.random.Generator,
    dtype: np.dtype,
) -> int:
    """Overwrite ONE client's samples with what an attack makes of them.

    Args:
      number: the client's number among the malicious clients with samples.

    Returns:
      How many of the samples differ from before.
    """
    old_y = f.train.y[rows]
    old_x = seen = x = None
    if poison.features != "ignores":
        old_x = f.train.x[rows]
        seen = _as_seen(f, old_x, dtype)
        x = seen.copy()  # the attack may write to it

    pair = poison.samples(x, old_y.copy(), f.classes, number, rng)  # type: ignore[arg-type]
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ContractError(f"samples: returned {type(pair).__name__}; expected (x, y)")
    new_y = np.asarray(pair[1])
    if new_y.shape != rows.shape or not are_labels(new_y, f.classes):
        raise ContractError(
            f"samples: returned labels {new_y.dtype} {new_y.shape}; "
            f"expected 0 to {f.classes - 1} {rows.shape}"
        )
    differs = old_y != new_y
    f.train.y[rows] = new_y

    if poison.features == "changes":
        assert old_x is not None and seen is not None
        stored = _as_stored(f, np.asarray(pair[0]), seen, old_x, "samples")
        differs |= (stored != old_x).reshape(len(rows), -1).any(1)
        f.train.x[rows] = stored
    return int(differs.sum())


def _as_seen(f: Federation, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return features as a model sees them: floats, multiplied by their scale."""
    if x.dtype != np.uint8 and f.scale == 1.0:
        return x
    return x.astype(dtype) * dtype.type(f.scale)


def _as_stored(
    f: Federation, new: np.ndarray, seen: np.ndarray, old: np.ndarray, hook: str
) -> np.ndarray:
    """Return new features as they are stored.

    Args:
      new: features as a model sees them, which a hook returned.
      seen: the same before the attack.
      old: features as they were stored; they keep their bits where nothing changed.

    Raises:
      ContractError: for features of another shape, that are not finite, or that bytes cannot hold.
    """
    if new.shape != seen.shape or not finite(new, seen.dtype):
        raise ContractError(
            f"{hook}: returned features {new.dtype} {new.shape}; "
            f"expected finite {seen.dtype} {seen.shape}"
        )
    raw = new / f.scale
    if old.dtype == np.uint8:
        raw = np.rint(raw)
        if raw.size and (raw.min() < 0 or raw.max() > 255):
            raise ContractError(
                f"{hook}: returned features from {new.min():.6g} to {new.max():.6g}, and bytes are "
                f"stored, which stand for 0 to {255 * f.scale:.6g}"
            )
    return np.where(new == seen, old, raw.astype(old.dtype))
