"""What a comparison finds, as text and as claims, which can be counted and checked."""

from collections.abc import Sequence
from typing import NamedTuple

# Kinds of claims. `docs/comparing.md` says which test is behind each, and which claims Holm's
# adjustment runs over.
BETTER = "significantly better or worse than the baseline"
WORST_CASE = "significantly better under the worst attack"
SAME_SCORE = "fewer bytes or seconds at the same score"
IN_TIME = "further in equal time"
FALLS = "gains from training, half of which is lost"
COSTS = "an end of an axis costs something"
APART = "worse than the best of a column"
KINDS = (BETTER, WORST_CASE, SAME_SCORE, IN_TIME, FALLS, COSTS, APART)

MAX_WORDS = 15  # of a headline


class Claim(NamedTuple):
    """A tested assertion, about one method or about one against another.

    Attributes:
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


class Finding(NamedTuple):
    """Something that a comparison finds: a headline, or one of the sentences below it.

    Attributes:
      text: what is found, without a full stop.
      numbers: what it rests on, likewise; empty if there is nothing.
      claims: what it asserts with a test behind it; none if it only reports numbers.
      begins_with_name: whether its first word is a name, which keeps its case.
      where: under which variation, in words; empty if nothing varies.
      in_table: whether the numbers are in the table as well, so that a sentence does without them.
      main_number: the number in the text, behind what it is of, such as `fewer bytes` and
        `18.7 times`; None where the text is about none.
    """

    text: str
    numbers: str = ""
    claims: Sequence[Claim] = ()
    begins_with_name: bool = False
    where: str = ""
    in_table: bool = False
    main_number: tuple[str, str] | None = None

    @property
    def headline(self) -> str:
        """It as a headline: where it was found comes first, unless that makes it too long."""
        if self.is_short:
            return f"{self._located}."
        return f"{self.text}."

    @property
    def statistics(self) -> str:
        """The line below the headline; empty if there is nothing to say."""
        numbers = self.numbers
        if not self.is_short:
            numbers = f"{numbers}; with {self.where}" if numbers else f"with {self.where}"
        return f"{numbers[0].upper()}{numbers[1:]}." if numbers else ""

    @property
    def sentence(self) -> str:
        """It as one of the sentences below."""
        if self.numbers and not self.in_table:
            return f"{self._located} ({self.numbers})."
        return f"{self._located}."

    @property
    def is_short(self) -> bool:
        """Whether a headline has space for where it was found."""
        return len(self._located.split()) <= MAX_WORDS or not self.where

    @property
    def _located(self) -> str:
        """What is found, and before it where, such as `With 20 % malicious, ...`."""
        if not self.where:
            return self.text
        text = self.text
        if not self.begins_with_name:
            text = text[0].lower() + text[1:]
        return f"With {self.where}, {text}"
