"""What all pictures of a run or a comparison have in common, made once from its record."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.disk.scores import ENDS, score_of
from fedsim.report.results import Row, metric_of
from fedsim.study.summary import (
    OWN,
    common_score,
    has_score,
    in_words,
    is_federated,
    is_share,
    larger_is_better,
)
from fedsim.study.words import words_of

NOT_FEDERATED = "not federated"


class Context(NamedTuple):
    """What all pictures know of the run or comparison they show.

    Attributes:
      metric: of the scores; empty where no run has a score.
      order: all methods, the most important first; their colours follow from it.
      words: turns a variation into words; each is read once.
      outside: what is noted next to the names of methods that are not federated.
    """

    scenario: Mapping[str, Any]
    title: str
    metric: str
    score: str
    order: Sequence[str]
    words: Callable[[str], str]
    outside: Mapping[str, str] = {}

    @property
    def rising(self) -> bool:
        """Whether a larger score is better."""
        return larger_is_better(self.metric)

    def target_of(self, metric: str) -> str:
        """A metric and its target in words: `test accuracy 0.9`."""
        target = (self.scenario.get("evaluate") or {}).get("target", "")
        return f"{in_words(metric)} {target}".strip()

    def note_of(self, method: str) -> str:
        """What is noted next to a method's name: that it is not federated; else nothing."""
        return self.outside.get(method, "")

    def labels(self, methods: Sequence[str]) -> list[str]:
        """The names of methods in legends, with that note."""
        labels = []
        for method in methods:
            note = self.note_of(method)
            labels.append(f"{method} ({note})" if note else method)
        return labels

    def ordered(self, methods: Sequence[str]) -> list[str]:
        """Methods in the order of the result; those that it does not have follow."""
        first = [name for name in self.order if name in methods]
        return list(dict.fromkeys([*first, *methods]))

    def including(self, methods: Sequence[str]) -> "Context":
        """The same with methods that the order does not have behind the others."""
        return self._replace(order=list(dict.fromkeys([*self.order, *methods])))

    def rank_of(self, method: str) -> int:
        """The rank of a method in the order, from 0, which decides its colour everywhere."""
        return list(self.order).index(method)


def axis_label(metric: str) -> str:
    """A metric as the label of an axis.

    >>> axis_label("test_accuracy"), axis_label("test_loss")
    ('test accuracy (share)', 'test loss')
    """
    words = in_words(metric)
    if is_share(metric) and score_of(metric) in ENDS:
        words += " (share)"
    return words


def context_of(
    scenario: Mapping[str, Any],
    runs: Sequence[Row] = (),
    score: str = "final",
    order: Sequence[str] = (),
) -> Context:
    """What pictures of a run or a comparison have in common.

    Args:
      order: methods, the most important first; left out: as they appear.
    """
    outside = {}
    for row in runs:
        if not is_federated(row):
            outside[str(row["method"])] = _note_outside(row, score)
    return Context(
        scenario=scenario,
        title=str(scenario.get("name", "")),
        metric=metric_of(runs),
        score=score,
        order=order,
        words=words_of(scenario),
        outside=outside,
    )


def _note_outside(row: Row, score: str) -> str:
    """What is noted next to a method that is not federated, of which this is a run."""
    if common_score(score, [row]) != score and has_score(row, OWN):
        return f"{NOT_FEDERATED}, scored on own test samples"
    return NOT_FEDERATED
