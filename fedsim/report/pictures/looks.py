"""How methods are told apart: one colour and one dash each, the same in every picture.

They follow from the rank of a method in the order of the result. The first eight, the
baseline and the best, are drawn strongly; the others are pale, except on a front of costs.
"""

from collections.abc import Sequence

STRONG = 8  # methods that have a colour of their own

# Okabe and Ito's palette, which the colour-blind can tell apart.
# In place of its yellow, which is pale on paper, Tol's olive.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#999933")
# The same hues on a dark screen.
ON_DARK = ("#3D9FDB", "#FF8A3D", "#2BC79B", "#E3A3C4", "#F2F3F4", "#F2B632", "#8ACBF2", "#BDBD5C")

DASHES = 4  # different ones


def colour_class(rank: int) -> str:
    """The class of a method's colour on the page.

    >>> colour_class(0), colour_class(7), colour_class(8)
    ('s0', 's7', 'pale')
    """
    if rank >= STRONG:
        return "pale"
    return f"s{rank}"


def curve_class(rank: int) -> str:
    """The classes of a method's curve on the page: its colour and its dash.

    >>> curve_class(1), curve_class(9)
    ('s1 d1', 'pale d1')
    """
    return f"{colour_class(rank)} d{rank % DASHES}"


def curve_classes(order: Sequence[str]) -> dict[str, str]:
    """The classes of all curves by method."""
    return {name: curve_class(rank) for rank, name in enumerate(order)}
