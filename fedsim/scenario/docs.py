"""A factory's docstring in parts: what a kind does, its equation, and one text per hyper-parameter.

The docstring is the only place where a hyper-parameter is described; help, errors and editors take it from here.
"""

import functools
import inspect
import re
import textwrap
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

_HEADER = re.compile(r"([A-Z]\w*):|\.\. (?!math)(\w+)::.*")  # alone on an unindented line
_ENTRY = re.compile(r"\*{0,2}(\w+)(?: \([^)]*\))?:\s*(.*)", re.S)
_SIGNS = {"leftarrow": "←", "gets": "←", "cdot": "·", "sqrt": "√", "in": "∈", "circ": "∘"}
_ACCENTS = {"hat": "\u0302", "bar": "\u0304"}
_SPHINX = (  # pattern, replacement
    # a number here, where optax also takes a function of steps
    (
        r", either fixed or evolving\s+along\s+iterations\s+with\s+a\s+scheduler|,\s+see\s+:func:`[^`]*`",
        "",
    ),
    (r"\.\. [\w-]+::.*\n", ""),
    (r":\w+:`~?([^`<]+?)(?:\s*<[^`]*>)?`", r"\1"),
    (r"`([^`<]+?)\s*<([^`>]*)>`_+", r"\1 (\2)"),
    (r"``([^`]+)``", r"`\1`"),
    (r"[ \t]+(?=\n)", ""),
    (r"\n{3,}", "\n\n"),
)


class Docs(NamedTuple):
    """Parts of a docstring, as plain text."""

    summary: str  # the first paragraph, on one line
    body: str  # the paragraphs after it: the equation, then what it resists, costs and needs; lines as written
    args: dict[str, str]  # hyper-parameter -> its text, on one line
    sections: dict[
        str, str
    ]  # `Args`, `Raises`, `References`, `Examples` ... -> text; lines as written


@functools.cache
def docs_of(factory: Callable) -> Docs:
    """What a factory's docstring says; nothing of it is required.

    >>> def clip(norm: float):
    ...     '''Shortens long updates.
    ...
    ...     x ← x · min(1, C / ‖x‖)
    ...
    ...     Args:
    ...       norm: C, the longest that
    ...         passes.
    ...     '''
    >>> docs_of(clip)
    Docs(summary='Shortens long updates.', body='x ← x · min(1, C / ‖x‖)', args={'norm': 'C, the longest that passes.'},
         sections={'Args': 'norm: C, the longest that\\n  passes.'})
    """
    prose, sections = _divided(inspect.getdoc(factory) or "")
    summary, _, body = prose.partition("\n\n")
    entries = re.split(r"\n(?=\S)", sections.get("Args", ""))
    args = {match[1]: _one_line(match[2]) for match in map(_ENTRY.fullmatch, entries) if match}
    if "learning_rate" in args:
        args.setdefault("lr", args["learning_rate"])  # optax's name of it
    return Docs(summary=_one_line(summary), body=body.strip("\n"), args=args, sections=sections)


def labelled_parts(body: str) -> dict[str, str]:
    """What a body says in parts such as `State: none.    Sends: one model.`, on one line each, without the full stop.

    >>> labelled_parts("x ← x + Δ\\n\\nState: v, one\\nmodel.    Cost: O(D).")
    {'State': 'v, one model', 'Cost': 'O(D)'}
    """
    parts = re.split(r"(?:\s{4,}|\n)(?=[A-Z]\w+: )", body)
    matches = (
        re.fullmatch(r"([A-Z]\w+): (.*?)\.?", _one_line(part.partition("\n\n")[0]))
        for part in parts
    )
    return {match[1]: match[2] for match in matches if match}


def _divided(text: str) -> tuple[str, dict[str, str]]:
    """A docstring -> the prose before its sections, and the sections."""
    prose: list[str] = []
    sections: dict[str, list[str]] = {}
    current = prose
    for line in text.splitlines():
        header = _HEADER.fullmatch(line)
        if header:
            current = sections.setdefault(header[1] or header[2].capitalize(), [])
            continue
        if line.startswith(">>>"):
            current = sections.setdefault("Examples", [])
        current.append(line)
    return _plain("\n".join(prose)), {
        name: _plain(textwrap.dedent("\n".join(lines)).strip("\n"))
        for name, lines in sections.items()
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _plain(text: str) -> str:
    """Without the markup of Sphinx and LaTeX, which optax's docstrings have."""
    text = re.sub(r":math:`([^`]*)`", lambda match: _formula(match[1]), text)
    text = re.sub(r"\.\. math::\n((?:\s*\n| +.*(?:\n|$))+)", lambda match: _formula(match[1]), text)
    for pattern, replacement in _SPHINX:
        text = re.sub(pattern, replacement, text)
    return text


def _formula(latex: str) -> str:
    """LaTeX -> a line that can be read: Greek letters, arrows, accents; unknown commands lose their backslash."""
    text = re.sub(r"\\(?:begin|end)\{[^}]*\}|\\\\|&|\\(?:left|right)(?![a-z])", "", latex)
    text = re.sub(r"\\([a-zA-Z]+)", _sign, text)
    text = re.sub(f"([{''.join(_ACCENTS.values())}])\\{{([^{{}}])\\}}", r"\2\1", text)
    text = re.sub(r"([_^√])\{([^{}]{2,})\}", r"\1(\2)", text)
    return text.replace("{", "").replace("}", "")


def _sign(command: re.Match) -> str:
    name = command[1].removeprefix("var").replace("lambda", "lamda")  # as Unicode spells it
    try:
        return (_SIGNS | _ACCENTS).get(name) or unicodedata.lookup(f"GREEK SMALL LETTER {name}")
    except KeyError:
        return name
