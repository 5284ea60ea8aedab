"""Codecs that are made of another one."""

from collections.abc import Callable

from fedsim.types import Codec


def with_memory(codec: Codec, around: Callable[[Codec], Codec]) -> Codec:
    """`around(codec)`, also where the codec is made for the shapes of the leaves when these are known.

    Raises:
      ValueError: for a codec that repeats what its receiver has, which is no part of the message that it is given.
    """
    if codec.recursive:
        raise ValueError(f"{codec.name} remembers what was received, and needs no memory around it; take it alone")
    made, inner = around(codec), codec.shaped
    return made if inner is None else made._replace(shaped=lambda shapes: around(inner(shapes)))
