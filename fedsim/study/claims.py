"""What sentences claim of methods, as data beside their words: so that what is claimed can be counted, and checked."""

from collections.abc import Iterable
from typing import NamedTuple, Self

# kinds of claims; `docs/comparing.md` says which test stands behind each, and over what Holm's adjustment runs
BETTER = "surely better or worse than the baseline"
WORST_CASE = "surely more under the worst attack"
SAME_SCORE = "fewer bytes or seconds at the same score"
NONE_KEEPS = "none that costs less keeps the score"
IN_TIME = "further in equal time"
SOONER = "less to the target"
HOLDS = "holds under an attack"
FALLS = "gains something, of which half is lost"
APART = "worse than the best of a column"
KINDS = (BETTER, WORST_CASE, SAME_SCORE, NONE_KEEPS, IN_TIME, SOONER, HOLDS, FALLS, APART)


class Claim(NamedTuple):
    """What a sentence is sure of: one method beside another, or by itself.

    Attributes:
      kind: one of `KINDS`.
      who: of whom it is claimed.
      whom: beside whom; empty where it is of one method alone.
      where: under which variation, as in the column `variant`.
      p: of its test, adjusted over all claims of its kind that the page could have made; None where only the table of
        which the sentence is made knew it.
    """

    kind: str
    who: str
    whom: str
    where: str
    p: float | None


class Sentence(str):
    """A sentence, with what it claims; to everything else a text."""

    claims: tuple[Claim, ...]

    def __new__(cls, text: str, claims: Iterable[Claim] = ()) -> Self:
        """Args:
        text: of the sentence.
        claims: what it is sure of; none where it tells numbers alone.
        """
        sentence = super().__new__(cls, text)
        sentence.claims = tuple(claims)
        return sentence

    def behind(self, start: str) -> "Sentence":
        """The same behind what it holds for, such as `With 20 % malicious: `."""
        return Sentence(f"{start}{self[0].lower()}{self[1:]}" if start else self, self.claims)


def claims_of(lines: Iterable[str]) -> list[Claim]:
    """All that sentences claim.

    >>> claims_of([Sentence("a leads.", [Claim(BETTER, "a", "b", "", 0.01)]), "A note."])[0].who
    'a'
    """
    return [claim for line in lines if isinstance(line, Sentence) for claim in line.claims]
