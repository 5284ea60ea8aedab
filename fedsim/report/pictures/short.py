"""Numbers as the labels of ticks."""

# from which size on, unit, and letter of the unit
UNITS = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))


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
