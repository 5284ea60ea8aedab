"""A factory's docstring in its parts: what a kind does, its equation, a text per hyper-parameter.

The docstring is the only description of a hyper-parameter; help, errors and editors take it from
here.
"""

import functools
import inspect
import re
import textwrap
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

# A header, alone on an unindented line: `Args:`, or optax's `.. seealso::`.
_HEADER = re.compile(r"([A-Z]\w*):|\.\. (?!math)(\w+)::.*")
_ENTRY = re.compile(r"\*{0,2}(\w+)(?: \([^)]*\))?:\s*(.*)", re.S)

_SIGNS = {"leftarrow": "←", "gets": "←", "cdot": "·", "sqrt": "√", "in": "∈", "circ": "∘"}
_ACCENTS = {"hat": "\u0302", "bar": "\u0304"}

# Optax's markup (pattern) -> plain text (replacement), in this order.
_SPHINX = (
    # Where optax also takes a function of steps, a scenario takes a number.
    (
        r", either fixed or evolving\s+along\s+iterations\s+with\s+a\s+scheduler"
        r"|,\s+see\s+:func:`[^`]*`",
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
    """A docstring in its parts, as plain text.

    Attributes:
      summary: the first paragraph, on one line.
      body: the paragraphs after it, lines as written: the equation, what it resists, costs, needs.
      args: hyper-parameter -> its text, on one line.
      sections: `Args`, `Raises`, `References`, `Examples` ... -> their texts, lines as written.
    """

    summary: str
    body: str
    args: dict[str, str]
    sections: dict[str, str]


@functools.cache
def docs_of(factory: Callable) -> Docs:
    """Return the parts of a factory's docstring; each of them may be empty.

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
    Docs(summary='Shortens long updates.', body='x ← x · min(1, C / ‖x‖)',
         args={'norm': 'C, the longest that passes.'},
         sections={'Args': 'norm: C, the longest that\\n  passes.'})
    """
    prose, sections = _prose_and_sections(inspect.getdoc(factory) or "")
    summary, _, body = prose.partition("\n\n")

    args: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", sections.get("Args", "")):
        if match := _ENTRY.fullmatch(entry):
            args[match[1]] = _one_line(match[2])
    # Optax's name for it.
    if "learning_rate" in args:
        args.setdefault("lr", args["learning_rate"])
    return Docs(_one_line(summary), body.strip("\n"), args, sections)


def labelled_parts(body: str) -> dict[str, str]:
    """Return the parts of a body such as `State: none.    Sends: one model.`, each on one line.

    >>> labelled_parts("x ← x + Δ\\n\\nState: v, one\\nmodel.    Cost: O(D).")
    {'State': 'v, one model', 'Cost': 'O(D)'}
    """
    parts: dict[str, str] = {}
    for text in re.split(r"(?:\s{4,}|\n)(?=[A-Z]\w+: )", body):
        line = _one_line(text.partition("\n\n")[0])
        if match := re.fullmatch(r"([A-Z]\w+): (.*?)\.?", line):
            parts[match[1]] = match[2]
    return parts


def _prose_and_sections(text: str) -> tuple[str, dict[str, str]]:
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

    texts: dict[str, str] = {}
    for name, lines in sections.items():
        texts[name] = _plain(textwrap.dedent("\n".join(lines)).strip("\n"))
    return _plain("\n".join(prose)), texts


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _plain(text: str) -> str:
    """Return a text without the markup of Sphinx and LaTeX, which optax's docstrings have."""
    text = re.sub(r":math:`([^`]*)`", _formula, text)
    text = re.sub(r"\.\. math::\n((?:\s*\n| +.*(?:\n|$))+)", _formula, text)
    for pattern, replacement in _SPHINX:
        text = re.sub(pattern, replacement, text)
    return text


def _formula(match: re.Match) -> str:
    """Return the LaTeX of a match as plain text: Greek letters, arrows, accents, brackets.

    An unknown command loses its backslash.
    """
    text = re.sub(r"\\(?:begin|end)\{[^}]*\}|\\\\|&|\\(?:left|right)(?![a-z])", "", match[1])
    text = re.sub(r"\\([a-zA-Z]+)", _sign, text)
    # A combining accent follows its letter.
    text = re.sub(f"([{''.join(_ACCENTS.values())}])\\{{([^{{}}])\\}}", r"\2\1", text)
    text = re.sub(r"([_^√])\{([^{}]{2,})\}", r"\1(\2)", text)
    return text.replace("{", "").replace("}", "")


def _sign(command: re.Match) -> str:
    """Return the character of a LaTeX command, or the command's name."""
    name = command[1].removeprefix("var").replace("lambda", "lamda")  # as Unicode spells it
    if name in _SIGNS:
        return _SIGNS[name]
    if name in _ACCENTS:
        return _ACCENTS[name]
    try:
        return unicodedata.lookup(f"GREEK SMALL LETTER {name}")
    except KeyError:
        return name
