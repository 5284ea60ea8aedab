"""Sentences of a verdict and the claims they make, so that claims can be counted and checked."""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple, Self

# Kinds of claims. `docs/comparing.md` says which test is behind each, and which claims Holm's
# adjustment runs over.
BETTER = "significantly better or worse than the baseline"
WORST_CASE = "significantly better under the worst attack"
SAME_SCORE = "fewer bytes or seconds at the same score"
NONE_KEEPS = "none that costs less keeps the score"
IN_TIME = "further in equal time"
SOONER = "target reached at less cost"
HOLDS = "holds up under an attack"
FALLS = "gains from training, half of which is lost"
APART = "worse than the best of a column"
KINDS = (BETTER, WORST_CASE, SAME_SCORE, NONE_KEEPS, IN_TIME, SOONER, HOLDS, FALLS, APART)


class Priority(IntEnum):
    """How important a sentence is, the most important first.

    Sentences of one priority are shown together or not at all, so that no variation is picked out
    of many. What is not shown can be read elsewhere: the comments say where.
    """

    HEADLINE = 0  # always shown
    BREAKDOWN = 1  # breakdown.csv

    # costs, if they are what the comparison is about: bytes.csv or seconds.csv
    COSTS = 2
    SAVING = 3
    TARGET = 4

    CAUTION = 5  # what to know before reading on
    OUTSIDE = 6  # methods that are not federated: the column `verdict`
    WORST_CASE = 7  # worst.csv
    SIGNIFICANT = 8  # the column `verdict`
    EDGE = 9  # stderr
    LOST = 10  # the column `verdict`

    # costs, if the comparison is about something else: bytes.csv or seconds.csv
    OTHER_COSTS = 11
    OTHER_SAVING = 12
    OTHER_TARGET = 13

    # the column `verdict`
    UNCERTAIN = 14
    REPEATED = 15
    CHANCE = 16
    LEVEL = 17

    SETTINGS = 18  # tuning.csv


class Claim(NamedTuple):
    """A tested assertion of a sentence, about one method or about one against another.

    Attributes:
      kind: one of `KINDS`.
      who: the method that the claim is about.
      whom: the method it is compared with; empty if there is none.
      where: the variation, as in the column `variant`.
      p: the p-value of its test, adjusted over all claims of its kind that the page could make;
        None if only the table behind the sentence used it.
    """

    kind: str
    who: str
    whom: str
    where: str
    p: float | None


class Sentence(str):
    """A string that also has a priority and the claims it makes.

    Attributes:
      priority: how important it is.
      claims: what it asserts with a test behind it; none if it only reports numbers.
      begins_with_name: whether its first word is a name, which keeps its case.
    """

    priority: Priority
    claims: tuple[Claim, ...]
    begins_with_name: bool

    def __new__(
        cls,
        text: str,
        priority: Priority = Priority.HEADLINE,
        claims: Iterable[Claim] = (),
        begins_with_name: bool = False,
    ) -> Self:
        """Create a sentence; the arguments are its text and its attributes."""
        sentence = super().__new__(cls, text)
        sentence.priority = priority
        sentence.claims = tuple(claims)
        sentence.begins_with_name = begins_with_name
        return sentence

    def after(self, prefix: str) -> "Sentence":
        """Return the sentence after a prefix such as `With 20 % malicious: `.

        >>> Sentence("At chance level: mean.").after("With 20 % malicious: ")
        'With 20 % malicious: at chance level: mean.'
        """
        if not prefix:
            return self
        text = str(self)
        if not self.begins_with_name:
            text = text[0].lower() + text[1:]
        return Sentence(prefix + text, self.priority, self.claims)

    def with_priority(self, priority: Priority) -> "Sentence":
        """Return the sentence with another priority."""
        return Sentence(str(self), priority, self.claims, self.begins_with_name)


def claims_of(sentences: Iterable[str]) -> list[Claim]:
    """Return all claims that sentences make; plain strings make none.

    >>> claim = Claim(BETTER, "a", "b", "", 0.01)
    >>> claims_of([Sentence("a leads.", claims=[claim]), "A note."])[0].who
    'a'
    """
    claims: list[Claim] = []
    for sentence in sentences:
        if isinstance(sentence, Sentence):
            claims += sentence.claims
    return claims
