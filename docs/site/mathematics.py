"""Formulas in plain Unicode as MathML, which browsers draw by themselves: nothing is loaded."""

from collections.abc import Iterable
from html import escape
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from formulas import parts
from tokens import ACCENTS, CALLED, FUNCTIONS, Token, tokens

FENCES = set("‖|⌊⌋⌈⌉⟨⟩")
LARGE = {"Σ": "∑", "∏": "∏"}  # letter -> sign, with what it runs over below it
PUNCTUATION = {".", ",", ";", ":", ")"}
JOINER = "\u2060"  # keeps it on the line of the formula before it
SIGNS = {"~": "∼", "*": "∗", "'": "′"}  # as MathML has them, with their spaces
LONG = 24  # tokens: a shorter formula stays on one line
BREAKS = set("=≤≥<←+−·")
ATOMS = ("letter", "number", "word")


def typeset(text: str, letters: bool = True) -> str:
    """A text as HTML: its formulas as MathML, what is in backticks as code.

    Args:
      text: with formulas in plain Unicode.
      letters: whether a Latin letter alone is a formula.

    >>> typeset("sends Δ_i, with `lr`")
    'sends <math><msub><mi>Δ</mi><mi>i</mi></msub></math>, with <code>lr</code>'
    """
    pieces: list[str] = []
    for is_formula, part in parts(tokens(text), letters):
        if is_formula:
            pieces.append(formula(part))
            continue
        if pieces and part[0].text in PUNCTUATION:
            pieces.append(JOINER)
        pieces += [_plain(token) for token in part]
    return "".join(pieces)


def formula(part: list[Token]) -> str:
    """A formula as MathML: an element for each part between which a line may break."""
    pieces: list[str] = []
    for piece in _breakable(part):
        root = Element("math")
        root.extend(_Reader(piece).row())
        if pieces and root[0].tag == "mo":
            root[0].set("form", "infix")  # for the space before it
        pieces.append(ElementTree.tostring(root, encoding="unicode"))
    return "".join(pieces)


def _breakable(part: list[Token]) -> list[list[Token]]:
    """The parts of a formula: cut before relations and sums, outside of brackets, if it is long."""
    if len(part) < LONG:
        return [part]
    pieces: list[list[Token]] = [[]]
    depth = 0
    for at, token in enumerate(part):
        depth += {"open": 1, "close": -1}.get(token.kind, 0)
        is_between = 0 < at < len(part) - 1 and part[at - 1].kind == part[at + 1].kind == "space"
        if depth == 0 and is_between and token.text in BREAKS:
            pieces.append([])
        pieces[-1].append(token)
    return pieces


def _plain(token: Token) -> str:
    """A token outside of formulas, as HTML."""
    if token.kind == "code":
        return f"<code>{escape(token.text[1:-1])}</code>"
    if token.kind == "sub":
        return f"<sub>{escape(token.text)}</sub>"
    if token.kind == "super":
        return f"<sup>{escape(token.text)}</sup>"
    return escape(token.text, quote=False)


class _Reader:
    """Reads the tokens of a formula one after another."""

    def __init__(self, part: list[Token]) -> None:
        self.part = part
        self.at = 0

    def row(self, until: int | None = None) -> list[Element]:
        """The elements of all tokens, up to a position."""
        elements: list[Element] = []
        end = len(self.part) if until is None else until
        while self.at < end:
            if self.part[self.at].kind == "space":
                elements += self._space()
                self.at += 1
            else:
                elements.append(self._scripted())
        return elements

    def _space(self) -> Iterable[Element]:
        """A thin space between two factors; operators bring their own."""
        if self.at == 0 or self.at + 1 == len(self.part):
            return []
        before = self.part[self.at - 1]
        after = self.part[self.at + 1]
        ends = before.kind in (*ATOMS, "sub", "super", "accent", "close") or before.text in FENCES
        begins = after.kind in (*ATOMS, "open") or after.text in {*FENCES, "√", "∇", "Σ"}
        if before.text in (",", ";") or (ends and begins):
            return [Element("mspace", width="0.22em")]
        return []

    def _scripted(self) -> Element:
        """An atom with its accent and its scripts."""
        large = self.part[self.at].text in LARGE
        base = self._atom()
        scripts: dict[str, Element] = {}
        while self.at < len(self.part) and self.part[self.at].kind in ("accent", "sub", "super"):
            token = self.part[self.at]
            if token.kind == "accent":
                base = _over(base, token.text)
            elif token.kind in scripts:
                break
            else:
                scripts[token.kind] = _inner(token.text)
            self.at += 1
        return _with_scripts(base, scripts, large)

    def _atom(self) -> Element:
        token = self.part[self.at]
        self.at += 1
        if token.text == "√":
            root = Element("msqrt")
            root.append(self._scripted_without_brackets())
            return root
        if token.text in LARGE:
            return _element("mo", LARGE[token.text])
        if token.kind in ("open", "close"):
            return _element("mo", token.text, stretchy="false")
        if token.kind == "letter" or token.text in ("∇", "∂", "∞", "∅", "ℓ"):
            return _element("mi", token.text)
        if token.kind == "number":
            return _element("mn", token.text)
        if token.kind == "word" and token.text in (FUNCTIONS | CALLED):
            return _element("mi", token.text)
        if token.kind in ("word", "plain", "code"):
            return _element("mtext", token.text)
        if token.text in FENCES:
            return _element("mo", token.text, stretchy="false", lspace="0", rspace="0")
        if token.kind in ("sub", "super"):  # of a word
            return _with_scripts(Element("mrow"), {token.kind: _inner(token.text)}, False)
        return _element("mo", SIGNS.get(token.text, token.text))

    def _scripted_without_brackets(self) -> Element:
        """What is under a root: an atom, or what is in brackets."""
        row = Element("mrow")
        if self.at < len(self.part) and self.part[self.at].kind == "open":
            end = _closing(self.part, self.at)
            self.at += 1
            row.extend(self.row(end))
            self.at += 1
        elif self.at < len(self.part):
            row.append(self._scripted())
        return row


def _closing(part: list[Token], at: int) -> int:
    """The position of the bracket that closes the one at a position."""
    depth = 0
    for position in range(at, len(part)):
        if part[position].kind == "open":
            depth += 1
        elif part[position].kind == "close":
            depth -= 1
        if depth == 0:
            return position
    return len(part)


def _inner(text: str) -> Element:
    """What is in a script."""
    row = Element("mrow")
    row.extend(_Reader(tokens(text)).row())
    return row[0] if len(row) == 1 else row


def _with_scripts(base: Element, scripts: dict[str, Element], large: bool) -> Element:
    """An atom with what is below and above it."""
    if not scripts:
        return base
    names = {"sub": "munder" if large else "msub", "super": "mover" if large else "msup"}
    name = names[next(iter(scripts))]
    if len(scripts) == 2:
        name = "munderover" if large else "msubsup"
    element = Element(name)
    element.append(base)
    for kind in ("sub", "super"):
        if kind in scripts:
            element.append(scripts[kind])
    return element


def _over(base: Element, accent: str) -> Element:
    # A bar is further from its letter than other accents, which it would touch.
    element = Element("mover") if accent == "\u0304" else Element("mover", accent="true")
    element.append(base)
    element.append(_element("mo", ACCENTS[accent], stretchy="false"))
    return element


def _element(name: str, text: str, **attributes: str) -> Element:
    element = Element(name, attributes)
    element.text = text
    return element
