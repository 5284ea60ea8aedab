"""What sentences claim of methods, as data beside their words: so that what is claimed can be
counted, and checked.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple, Self

# kinds of claims; `docs/comparing.md` says which test stands behind each, and over what Holm's
# adjustment runs
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


class Weight(IntEnum):
    """How much a sentence counts, the weightiest first: what a verdict has no room for is left to
    the tables.

    Sentences of one weight are told together or not at all, so that of many variations none is
    picked out.
    """

    HEADLINE = 0
    BREAKDOWN = 1  # else in breakdown.csv
    COSTS = 2  # of what the comparison is about; else in bytes.csv or seconds.csv
    SAVING = 3
    TARGET = 4
    CAUTION = 5  # what to know before anything else is read
    WORST_CASE = 6  # else in worst.csv
    # from here on, but for other costs and settings: else in the column `verdict`
    SURE = 7
    EDGE = 8  # else on stderr
    LOST = 9
    OTHER_COSTS = 10
    OTHER_SAVING = 11
    OTHER_TARGET = 12
    UNSURE = 13
    REPEATED = 14
    CHANCE = 15
    LEVEL = 16
    SETTINGS = 17  # else in tuning.csv


class Claim(NamedTuple):
    """What a sentence is sure of: one method beside another, or by itself.

    Attributes:
      kind: one of `KINDS`.
      who: of whom it is claimed.
      whom: beside whom; empty where it is of one method alone.
      where: under which variation, as in the column `variant`.
      p: of its test, adjusted over all claims of its kind that the page could have made; None where
        only the table of which the sentence is made knew it.
    """

    kind: str
    who: str
    whom: str
    where: str
    p: float | None


class Sentence(str):
    """A sentence, with its weight and what it claims; to everything else a text."""

    weight: Weight
    claims: tuple[Claim, ...]

    def __new__(
        cls, text: str, weight: Weight = Weight.HEADLINE, claims: Iterable[Claim] = ()
    ) -> Self:
        """Args:
        text: of the sentence.
        weight: how much it counts.
        claims: what it is sure of; none where it tells numbers alone.
        """
        sentence = super().__new__(cls, text)
        sentence.weight = weight
        sentence.claims = tuple(claims)
        return sentence

    def behind(self, start: str, named: bool = False) -> "Sentence":
        """The same behind what it holds for, such as `With 20 % malicious: `.

        Args:
          start: what stands before it; empty: nothing.
          named: whether it begins with a name, which stays as it is.
        """
        if not start:
            return self
        text = str(self) if named else f"{self[0].lower()}{self[1:]}"
        return Sentence(f"{start}{text}", self.weight, self.claims)


def claims_of(lines: Iterable[str]) -> list[Claim]:
    """All that sentences claim.

    >>> claim = Claim(BETTER, "a", "b", "", 0.01)
    >>> claims_of([Sentence("a leads.", claims=[claim]), "A note."])[0].who
    'a'
    """
    return [claim for line in lines if isinstance(line, Sentence) for claim in line.claims]
