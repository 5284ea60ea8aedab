"""Texts of optax, whose formulas are LaTeX: a library turns those into MathML."""

import re
from collections.abc import Callable
from html import escape
from inspect import getdoc

from latex2mathml.converter import convert

from fedsim.scenario.docs import docs_of

FORMULA = re.compile(r":math:`([^`]*)`")
BLOCK = re.compile(r"\.\. math::\s*\n((?:[ \t]*\n|[ \t]+\S.*(?:\n|$))+)")
MARK = re.compile("\ue000(\\d+)\ue001")  # where a formula was


def has_latex(factory: Callable) -> bool:
    """Whether the docstring of a factory has formulas in LaTeX."""
    return ":math:`" in (getdoc(factory) or "")


def html_of(factory: Callable) -> str:
    """The text of such a docstring between its first paragraph and its sections, as HTML."""
    formulas: list[str] = []

    def mark(match: re.Match, display: str) -> str:
        latex = " ".join(match[1].split())
        formulas.append(convert(latex, display=display))
        return f"\ue000{len(formulas) - 1}\ue001"

    text = BLOCK.sub(lambda match: mark(match, "block") + "\n", getdoc(factory) or "")
    text = FORMULA.sub(lambda match: mark(match, "inline"), text)

    def without_latex() -> None:
        """Has the docstring with marks."""

    without_latex.__doc__ = text
    docs = docs_of(without_latex)
    return "\n".join(_paragraph(part, formulas) for part in re.split(r"\n\s*\n", docs.body))


def _paragraph(text: str, formulas: list[str]) -> str:
    items = re.split(r"\n(?=- )", text)
    lines = [escape(" ".join(item.split()), quote=False) for item in items]
    html = re.sub(r"`+([^`]+)`+", r"<code>\1</code>", "<br>".join(lines))
    return f"<p>{MARK.sub(lambda mark: formulas[int(mark[1])], html)}</p>"
