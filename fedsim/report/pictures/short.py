"""Numbers as the labels of ticks, and titles without what all of them say."""

import re
from collections.abc import Sequence

# from which size on, unit, and letter of the unit
UNITS = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
COMMA = re.compile(r", (?![^(]*\))")  # outside of brackets


def short(value: float) -> str:
    """A number as the label of a tick.

    >>> short(0.2), short(1000000.0), short(1e-05), short(2500.0)
    ('0.2', '1M', '1e-05', '2500')
    """
    for smallest, unit, letter in UNITS:
        if abs(value) >= smallest:
            scaled = value / unit
            if scaled < 1e5:
                return f"{scaled:g}{letter}"
            return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:g}"


def told_apart(titles: Sequence[str]) -> tuple[str, list[str]]:
    """What all titles of panels have in common, and each without it.

    >>> told_apart(["sign_flip(scale=3, p=1), 5 % malicious", "sign_flip(scale=3, p=1), IID"])
    ('sign_flip(scale=3, p=1)', ['5 % malicious', 'IID'])
    >>> told_apart(["5 % malicious"])
    ('', ['5 % malicious'])
    """
    if len(titles) < 2:
        return "", [*titles]
    parts = [COMMA.split(title) for title in titles]
    common = set(parts[0]).intersection(*parts[1:])
    shared = ", ".join(part for part in parts[0] if part in common)
    return shared, [", ".join(part for part in own if part not in common) for own in parts]
