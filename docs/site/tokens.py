"""The tokens of a text with formulas in plain Unicode, as fedsim's docstrings have them."""

import re
import unicodedata
from typing import NamedTuple

ACCENTS = {"\u0304": "‾", "\u0302": "^", "\u0303": "~", "\u0306": "˘", "\u0307": "˙"}

FUNCTIONS = {
    *("min", "max", "argmin", "argmax", "sign", "log", "ln", "exp", "mean", "mod", "agg", "med"),
    *("diag", "KL", "Dir", "softmax", "tanh", "Var", "Cov", "cos", "lognormal", "ReLU", "GELU"),
}
# Words that are functions only where a bracket or a script follows.
CALLED = {"round", "clip", "rank", "median", "std", "floor", "LN", "sin"}
# Signs that only formulas have; the others may also stand between words.
STRONG = set("←∈∉∪∩⊂⊆∖∅≤≥≠≈≡∝√‖∇∂∞∀∃⌊⌋⌈⌉⊙⊗⊕∘Σ∏∫ℓ≪≫∧∨⟨⟩")
WEAK = set("+−=<>·×/±~*|,:!½¼⅓'′…")
OPENING, CLOSING = "([{", ")]}"

PATTERN = re.compile(
    r"""
    (?P<code>`[^`]+`)
  | (?P<space>\s+)
  | (?P<plain>(?!(?:max|min|mean|med|argmin|argmax|std)_[A-Za-z0-9]?\b)
        [A-Za-z0-9]{2,}(?:_[A-Za-z0-9]+)+(?![_\w{])   # rounds_joined
      | [A-Za-z]+(?:['’-][A-Za-z]+)+ | ['’]s\b         # client's, k-means
      | [A-Za-z]{2,}[0-9]+ | [0-9]+[a-z]{2}\b          # CIFAR10, 2nd
      | e\.g\.? | i\.e\.? | https?://\S+ | arXiv:\S+)
  | (?P<word>[A-Za-zÀ-ÖØ-öø-ÿ]{2,})
  | (?P<number>\d+(?:[.,]\d+)*(?:e[-−]?\d+)?)
  | (?P<script>[_^](?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|\([^()]*\)|[A-Za-z]+(?:-[a-z]+)?|\d+|\S))
  | (?P<sign>.)
    """,
    re.X | re.S,
)


class Token(NamedTuple):
    """A token of a text.

    Attributes:
      kind: `code`, `space`, `plain`, `word`, `number`, `letter`, `sub`, `super`, `accent`,
        `sign`, `open` or `close`.
      text: of scripts, what is in them.
    """

    kind: str
    text: str


def tokens(text: str) -> list[Token]:
    """The tokens of a text, of which scripts and accents belong to what is before them.

    >>> [token.kind for token in tokens("y ← x_{k+1}")]
    ['letter', 'space', 'sign', 'space', 'letter', 'sub']
    """
    found: list[Token] = []
    for match in PATTERN.finditer(text):
        found.append(_token(match.lastgroup or "sign", match[0]))
    return _with_joined_scripts(found)


def _token(kind: str, text: str) -> Token:
    if kind == "script":
        inside = text[1:]
        if inside[:1] in "{(" and inside[-1:] in "})":
            inside = inside[1:-1]
        return Token("sub" if text[0] == "_" else "super", inside)
    if kind != "sign":
        return Token(kind, text)
    position, _, code = unicodedata.decomposition(text).partition(" ")
    if position in ("<sub>", "<super>"):
        return Token(position.strip("<>"), chr(int(code, 16)))
    if text in ACCENTS:
        return Token("accent", text)
    if text in OPENING:
        return Token("open", text)
    if text in CLOSING:
        return Token("close", text)
    if text not in STRONG and unicodedata.category(text).startswith("L"):
        return Token("letter", text)
    return Token("sign", text)


def _with_joined_scripts(found: list[Token]) -> list[Token]:
    """With `⁻` and `¹` as one script, and the apostrophe behind a letter as a prime."""
    joined: list[Token] = []
    for token in found:
        if token.text == "'" and joined and joined[-1].kind in ("letter", "sub"):
            token = Token("super", "′")
        if joined and token.kind in ("sub", "super") and joined[-1].kind == token.kind:
            joined[-1] = Token(token.kind, joined[-1].text + token.text)
        else:
            joined.append(token)
    return joined
