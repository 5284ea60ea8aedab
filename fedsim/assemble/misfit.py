"""What to say about a model that does not fit its samples: their shape, and what changes it."""

from typing import Any

from fedsim.data import Federation
from fedsim.errors import shortened
from fedsim.sources.image_sets import CHANNELS

# Keys of `data` that change the shape of a sample, and those that change the labels.
SHAPE_KEYS = ("shape", "features", "size", "channels", "length", "drop", "columns")
LABEL_KEYS = ("target", "classes", "coarse", "tokens", "vocabulary")
MAX_REASON = 120  # characters of what went wrong, so that the line has space for the rest


def with_samples(reason: str, section: Any, federation: Federation, is_of_outputs: bool) -> str:
    """Return what went wrong, what samples look like, and which key of `data` changes that."""
    x: Any = federation.train.x
    shape = list(federation.given_shape)
    samples = f"samples are {x.dtype} {shape}"
    if federation.vocabulary:
        samples = f"samples are tokens {shape}, integers below {federation.vocabulary}"
    elif federation.channels_first:
        samples = f"{samples}, channels first"
    elif len(shape) == 3 and shape[-1] in CHANNELS:
        samples = f"{samples}, channels last"
    if not is_of_outputs:
        samples = f"{samples} (apply takes a batch, an Equinox module one)"

    names = LABEL_KEYS if is_of_outputs else SHAPE_KEYS
    keys = [f"data.{name}" for name in names if name in type(section).model_fields]
    subject = "the labels" if is_of_outputs else "that"
    remedy = "change the model" if is_of_outputs else "reshape in the model"
    if keys:
        verb = "changes" if len(keys) == 1 else "change"
        remedy = f"{' and '.join(keys)} {verb} {subject}, or {remedy}"
    else:
        remedy = f"no key of data changes {subject}: {remedy}"
    reason = shortened(reason.rstrip("."), MAX_REASON)
    return f"{reason}; {samples}; {remedy}"
