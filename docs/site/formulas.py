"""Which parts of a text are formulas: runs of tokens between words.

A run has at least one token that only formulas have, such as a Greek letter, an arrow, or a letter
with a script. Words in it are names of functions, or in the brackets of one: f(y; batch).
"""

from tokens import CALLED, FUNCTIONS, STRONG, WEAK, Token

ARTICLES = {"a", "A", "I"}  # words of one letter
EDGE = ",;:.!'′…"  # punctuation around a formula, not of it
BEFORE_NOUN = (["space", "letter"], ["space", "word"])  # what follows an article
BOUNDS = {"≥", "≤"}
CALL = 3  # words in the brackets of a function, at most: f(y; batch)


def parts(text: list[Token], letters: bool = True) -> list[tuple[bool, list[Token]]]:
    """The parts of a text: whether it is a formula, and its tokens.

    Args:
      text: its tokens.
      letters: whether a Latin letter alone is a formula; in prose it may be a unit, or a name.
    """
    inside = _in_formulas(text, letters)
    found: list[tuple[bool, list[Token]]] = []
    for token, is_formula in zip(text, inside, strict=True):
        if not found or found[-1][0] != is_formula:
            found.append((is_formula, []))
        found[-1][1].append(token)
    return found


def _in_formulas(text: list[Token], letters: bool) -> list[bool]:
    """For each token whether it is in a formula."""
    pairs = _brackets(text)
    may = [_may_be(text, at) for at in range(len(text))]
    for begin, end in pairs.items():
        if _is_call(text, begin, end):
            may[begin : end + 1] = [True] * (end + 1 - begin)
        elif not all(may[begin + 1 : end]):
            may[begin] = may[end] = False  # a remark in brackets
    for at, token in enumerate(text):
        if token.kind in ("open", "close") and at not in pairs and at not in pairs.values():
            may[at] = False

    inside = [False] * len(text)
    at = 0
    while at < len(text):
        end = at
        while end < len(text) and may[end]:
            end += 1
        for begin, stop in _clauses(text, at, end):
            _mark(text, begin, stop, letters, inside)
        at = max(end, at + 1)
    return inside


def _brackets(text: list[Token]) -> dict[int, int]:
    """The position of every opening bracket -> that of its closing one."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for at, token in enumerate(text):
        if token.kind == "open":
            opened.append(at)
        elif token.kind == "close" and opened:
            pairs[opened.pop()] = at
    return pairs


def _may_be(text: list[Token], at: int) -> bool:
    """Whether a token may be in a formula."""
    token = text[at]
    after = text[at + 1] if at + 1 < len(text) else Token("space", " ")
    if at and text[at - 1].text == "√":
        return token.kind != "code"
    if token.kind == "word":
        is_called = token.text in CALLED and after.kind in ("open", "sub", "super")
        return is_called or token.text in FUNCTIONS
    if token.kind == "sign":
        return token.text in STRONG or token.text in WEAK or token.text in ";."
    return token.kind not in ("plain", "code")


def _is_call(text: list[Token], begin: int, end: int) -> bool:
    """Whether brackets are those of a function or a probability, with at most a few words."""
    if begin == 0 or text[begin].text == "[":
        return False
    before = text[begin - 1]
    attached = before.kind in ("letter", "sub", "super", "accent")
    attached = attached or before.text in {"√", *FUNCTIONS, *CALLED}
    words = [token for token in text[begin:end] if token.kind in ("word", "plain", "code")]
    has_code = any(token.kind == "code" for token in words)
    return attached and len(words) <= CALL and not has_code


def _clauses(text: list[Token], begin: int, end: int) -> list[tuple[int, int]]:
    """A run, cut behind the punctuation that is followed by a space, outside of brackets."""
    cut: list[tuple[int, int]] = []
    depth = 0
    start = begin
    for at in range(begin, end):
        token = text[at]
        if token.kind in ("open", "close"):
            depth += 1 if token.kind == "open" else -1
        last = at + 1 == len(text)
        if (
            depth <= 0
            and token.text in (",", ";", ":", ".")
            and (last or text[at + 1].kind == "space")
        ):
            cut.append((start, at))
            start = at + 1
    cut.append((start, end))
    return cut


def _mark(text: list[Token], begin: int, end: int, letters: bool, inside: list[bool]) -> None:
    """Mark the formula of a clause, if it has a token that only formulas have."""
    if not any(_is_strong(token, letters) for token in text[begin:end]):
        return
    marks = [token for token in text[begin:end] if token.kind != "space"]
    if marks[0].text in BOUNDS and all(token.kind in ("sign", "number") for token in marks):
        return  # of a version, such as "Python ≥ 3.11"
    pairs = _brackets(text[begin:end])
    matched = {begin + at for pair in pairs.items() for at in pair}

    def belongs(at: int) -> bool:
        token = text[at]
        if token.kind in ("open", "close"):
            return at in matched
        return token.kind != "space" and token.text not in EDGE

    def is_article(at: int) -> bool:
        return text[at].text in ARTICLES and [t.kind for t in text[at + 1 : at + 3]] in BEFORE_NOUN

    while not belongs(begin) or is_article(begin):
        begin += 1
    while not belongs(end - 1):
        end -= 1
    inside[begin:end] = [True] * (end - begin)


def _is_strong(token: Token, letters: bool) -> bool:
    """Whether only formulas have a token."""
    if token.kind in ("sub", "super", "accent"):
        return True
    if token.kind == "sign":
        return token.text in STRONG
    if token.kind != "letter" or token.text in ARTICLES:
        return False
    return letters or not token.text.isascii()
