"""Bits of what messages are made of. Values and scalars count 32 bits, in whatever type the simulator computes."""

VALUE_BITS = 32


def index_bits(d: int) -> int:
    """⌈log₂ d⌉: bits of a number from 0 to d − 1.

    >>> [index_bits(d) for d in (1, 2, 3, 1000, 1024, 1025)]
    [0, 1, 2, 10, 10, 11]
    """
    return max(d - 1, 0).bit_length()
