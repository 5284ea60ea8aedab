"""LaTeX: text as it prints it, and how wide it is in Computer Modern at 8 points, the `\\footnotesize` of a 10-point article."""

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
    "−": "$-$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}
# Thousandths of the type size, of the font's metrics (cmr8.tfm); `\_` is a rule, `<` and `>` are of the mathematical font
WIDTHS = {
    295: "!',.:;[]`il|", 325: "fj", 354: "-", 383: "I", 413: "()t", 414: "r", 419: "s", 472: "cez", 502: "?",
    531: "\"$*/0123456789\\^ago{}~", 546: "J", 561: "kqvxy", 590: "Sbdhnpu", 595: "_", 649: "Z", 664: "L", 693: "F",
    723: "EP", 752: "B", 767: "CTw", 782: "R", 796: "AHNUVXY", 811: "D", 826: "K&+=@OQ<>±−", 834: "G", 885: "#%m",
    973: "M", 1091: "W",
}  # fmt: skip
SPACE, OTHER = 354, 1091  # a space, and a character that is not listed: as the widest one
BOLD = 1.18  # of a line in bold, to the same in roman at most


@functools.cache
def _widths() -> dict[str, int]:
    return {sign: width for width, signs in WIDTHS.items() for sign in signs} | {" ": SPACE}


def width(text: str, bold: bool = False) -> float:
    """How wide a text is that stands as it is, in points; an upper bound, since kerning only brings letters closer.

    >>> round(width("0.9329"), 2)
    23.6
    """
    widths = _widths()
    return sum(widths.get(sign, OTHER) for sign in text) / 1000 * POINTS * (BOLD if bold else 1)


def plain(cell: Any) -> str:
    """A cell as a line of text that LaTeX's own fonts have: letters of western languages; others are spelled out."""
    text = printable(str(cell))
    return "".join(
        sign if ord(sign) < 0x180 or sign in SIGNS else f"U+{ord(sign):04X}" for sign in text
    )


def escaped(cell: Any) -> str:
    """Text as LaTeX prints it."""
    return "".join(SIGNS.get(sign, sign) for sign in plain(cell))
