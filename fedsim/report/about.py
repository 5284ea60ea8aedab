"""What all pictures of a run or a comparison know: made once from its record, and handed to each of
them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.report.results import Row, metric_of
from fedsim.study.summary import in_words, is_share, larger_is_better
from fedsim.study.words import words_of


class About(NamedTuple):
    """A run or a comparison.

    Attributes:
      scenario: resolved, for what a single picture tells of it.
      title: the scenario's name.
      metric: that is scored; empty where no run has a score.
      score: `final`, `best` or `mean_last_k`.
      order: of the methods, the most important first.
      words: a variation in words; each is read once.
    """

    scenario: Mapping[str, Any]
    title: str
    metric: str
    score: str
    order: Sequence[str]
    words: Callable[[str], str]

    @property
    def rising(self) -> bool:
        """Whether more of the metric is better."""
        return larger_is_better(self.metric)

    def target_of(self, metric: str) -> str:
        """A metric and the target in words: `test accuracy 0.9`."""
        target = (self.scenario.get("evaluate") or {}).get("target", "")
        return f"{in_words(metric)} {target}".strip()

    def ordered(self, methods: Sequence[str]) -> list[str]:
        """Some methods in their order; those that it does not have follow as they are."""
        first = [name for name in self.order if name in methods]
        return list(dict.fromkeys([*first, *methods]))


def beside_axis(metric: str) -> str:
    """A metric as it stands beside an axis.

    >>> beside_axis("test_accuracy"), beside_axis("test_loss")
    ('test accuracy (share)', 'test loss')
    """
    return in_words(metric) + (" (share)" if is_share(metric) else "")


def about(
    scenario: Mapping[str, Any],
    runs: Sequence[Row] = (),
    score: str = "final",
    order: Sequence[str] = (),
) -> About:
    """What pictures know.

    Args:
      scenario: as in `run.json`.
      runs: rows of `summary.csv`.
      score: `final`, `best` or `mean_last_k`.
      order: of the methods, the most important first; left out: as they appear.
    """
    return About(
        scenario=scenario,
        title=str(scenario.get("name", "")),
        metric=metric_of(runs),
        score=score,
        order=order,
        words=words_of(scenario),
    )
