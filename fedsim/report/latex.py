"""LaTeX: how text prints, and how wide it is in Computer Modern at 8 points.

That is the size of `\\footnotesize` in a 10-point article.
"""

import functools
from typing import Any

from fedsim.errors import printable

POINTS = 8.0
SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedblright{}",
    "±": r"$\pm$",
    "²": "$^2$",
    "−": "$-$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}

# Widths in thousandths of the type size, from the font's metrics (cmr8.tfm).
# `\_` is a rule; `<` and `>` are of the mathematical font.
WIDTHS = {
    295: "!',.:;[]`il|",
    325: "fj",
    354: "-",
    383: "I",
    413: "()t",
    414: "r",
    419: "s",
    472: "cez",
    502: "?",
    531: '"$*/0123456789\\^ago{}~²',
    546: "J",
    561: "kqvxy",
    590: "Sbdhnpu",
    595: "_",
    649: "Z",
    664: "L",
    693: "F",
    723: "EP",
    752: "B",
    767: "CTw",
    782: "R",
    796: "AHNUVXY",
    811: "D",
    826: "K&+=@OQ<>±−",
    834: "G",
    885: "#%m",
    973: "M",
    1091: "W",
}
SPACE = 354
OTHER = 1091  # a character that is not listed: as wide as the widest
BOLD = 1.18  # width of a line in bold over that in roman, at most
LATIN = 0x180  # LaTeX's own fonts have the characters below


@functools.cache
def _widths() -> dict[str, int]:
    widths = {" ": SPACE}
    for width, signs in WIDTHS.items():
        widths |= dict.fromkeys(signs, width)
    return widths


def width(text: str, bold: bool = False) -> float:
    """How wide a text is in points; an upper bound, since kerning only brings letters closer.

    >>> round(width("0.9329"), 2)
    23.6
    """
    widths = _widths()
    thousandths = sum(widths.get(sign, OTHER) for sign in text)
    points = thousandths / 1000 * POINTS
    if bold:
        points *= BOLD
    return points


def plain(cell: Any) -> str:
    """A cell as text that LaTeX's own fonts have; other characters become their code points.

    >>> plain("naïve 猫")
    'naïve U+732B'
    """
    text = ""
    for sign in printable(str(cell)):
        if ord(sign) < LATIN or sign in SIGNS:
            text += sign
        else:
            text += f"U+{ord(sign):04X}"
    return text


def escaped(cell: Any) -> str:
    """A cell as LaTeX source.

    >>> print(escaped("trimmed_mean, 5 %"))
    trimmed\\_mean, 5 \\%
    """
    return "".join(SIGNS.get(sign, sign) for sign in plain(cell))
