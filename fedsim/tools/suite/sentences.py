"""What a suite shows, in sentences. What they assert has been tested, after Holm over all pairs.

So on pure noise, a sentence is wrong in at most 5 % of suites. A difference that is not
significant is open: nothing is said to be equal.
"""

from collections.abc import Sequence

from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.standings import OUTSIDE, enough_seeds
from fedsim.study.statistics import smallest_p
from fedsim.study.words import count, others_of
from fedsim.tools.suite.analysis import Analysis
from fedsim.tools.suite.statistics import Pair
from fedsim.types.client import ALONE

NOT_COMPARED = "No two methods have scores in all tasks under a common seed, so none are compared."
NO_SCORE = (
    "{method} has no score and is not ranked: scores are those of a shared model on all test "
    "samples, and {method} trains a model for each client alone. In tasks with data.client_test, "
    "compare.csv of the task compares these models with the baseline on the clients' own test "
    "samples."
)
NOT_EQUAL = "Methods that are not told apart may still differ: the intervals say by how much."


def headline(analysis: Analysis) -> str:
    """Return the sentence about all tasks together: which mean is best, and who is told apart."""
    if not analysis.across or not analysis.seeds:
        return NOT_COMPARED
    best, mean = _best(analysis)
    tasks = count(len(analysis.common), "task")
    if len(analysis.common) < len(analysis.tasks):
        tasks = f"{len(analysis.common)} of {len(analysis.tasks)} tasks"
    few = too_few(analysis.across)
    if few:
        return f"Over {tasks}, no clear difference: {few}."

    pairs = _pairs_of(best, analysis.across)
    apart = [pair for pair in pairs if pair.told_apart]
    metric = analysis.metric_in_words
    if not apart:
        return f"Over {tasks}, no clear difference from {best}, the best mean: {metric} {mean:.3g}."
    others = _others(apart, best)
    if len(apart) > 2:
        others = others_of(len(apart), len(pairs))
    return f"Over {tasks}, {best} beats {others}: mean {metric} {mean:.3g}."


def best_mean(analysis: Analysis) -> tuple[str, str] | None:
    """Return the best mean over all tasks, behind what it is of; None where none are compared."""
    if not analysis.across or not analysis.seeds:
        return None
    _, mean = _best(analysis)
    return f"mean {analysis.metric_in_words}", f"{mean:.3g}"


def across_lines(analysis: Analysis) -> list[str]:
    """Return a sentence for every further method that is better than others over the tasks."""
    if not analysis.across or not analysis.seeds:
        return []
    lines = []
    best, _ = _best(analysis)
    for method in analysis.ranked:
        beaten = _beaten_by(method, analysis.across)
        if beaten and method != best:
            others = _others(beaten, method)
            lines.append(f"Over the tasks, {method} beats {others} ({_largest(beaten)}).")
    if not all(pair.told_apart for pair in analysis.across):
        lines.append(NOT_EQUAL)
    return lines


def task_lines(analysis: Analysis) -> list[str]:
    """Return a sentence for every task: which methods are told apart in it."""
    texts = {name: _in_task(pairs) for name, pairs in analysis.pairs.items() if pairs}
    few = {too_few(pairs) for pairs in analysis.pairs.values() if pairs}
    if len(texts) > 1 and len(few) == 1 and "" not in few:
        return [f"In every task: {few.pop()}."]
    return [f"{name}: {text}." for name, text in texts.items()]


def notes(analysis: Analysis) -> list[str]:
    """Return what else to know: unranked methods, lost runs, settings at an end, the scale."""
    lines = []
    for method, tasks in analysis.missing.items():
        lines.append(f"{method} is not compared over tasks: no score in {', '.join(tasks)}.")
    for method, reason in analysis.outside.items():
        if reason == ALONE and not any(task.scores(method) for task in analysis.tasks):
            lines.append(NO_SCORE.format(method=method))
        else:
            lines.append(f"{method} is not ranked ({OUTSIDE[reason]}).")
    for task in analysis.tasks:
        for method, number in task.lost.items():
            runs = count(number, "run")
            lines.append(
                f"{task.name}: {runs} of {method} failed, diverged or did not run; the score is "
                "the worst possible."
            )
        lines += [f"{task.name}: {caution}" for caution in task.cautions]
    return [*lines, *analysis.remarks]


def too_few(pairs: Sequence[Pair]) -> str:
    """Return that no difference could be significant, whatever the scores; empty if one could."""
    most = max(pair.test.seeds for pair in pairs)
    tested = [pair for pair in pairs if pair.test.p_value is not None]
    if tested and smallest_p(most) * len(tested) < SIGNIFICANCE_LEVEL:
        return ""
    needed = enough_seeds(len(pairs))
    sizes = f"{count(most, 'seed')} and {count(len(pairs), 'pair')}"
    text = f"with {sizes}, no two methods can be told apart"
    if needed is None:
        return text
    return f"{text}, which takes at least {needed} seeds"


def _in_task(pairs: Sequence[Pair]) -> str:
    """Which methods are told apart in a task."""
    few = too_few(pairs)
    if few:
        return few
    methods: dict[str, None] = {}
    for pair in pairs:
        methods |= dict.fromkeys((pair.one, pair.other))
    parts = []
    for method in methods:
        beaten = _beaten_by(method, pairs)
        if beaten:
            parts.append(f"{method} is better than {_others(beaten, method)} ({_largest(beaten)})")
    if not parts:
        return "no clear difference"
    return "; ".join(parts)


def _best(analysis: Analysis) -> tuple[str, float]:
    """The ranked method with the best mean over the tasks, and that mean."""
    means = analysis.of_methods(analysis.ranked).mean((1, 2))
    index = int(means.argmax() if analysis.larger_is_better else means.argmin())
    return analysis.ranked[index], float(means[index])


def _pairs_of(method: str, pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if method in (pair.one, pair.other)]


def _beaten_by(method: str, pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs in which a method is significantly better."""
    return [pair for pair in _pairs_of(method, pairs) if pair.outcome_of(method) > 0]


def _others(pairs: Sequence[Pair], method: str) -> str:
    """The other methods of pairs, listed."""
    names = [pair.other if pair.one == method else pair.one for pair in pairs]
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _largest(pairs: Sequence[Pair]) -> str:
    """The largest p of significant pairs, after Holm: `p <= 0.012 after Holm`."""
    values = [pair.p_adjusted for pair in pairs if pair.p_adjusted is not None]
    sign = "=" if len(values) == 1 else "≤"
    return f"p {sign} {max(values):.2g} after Holm"
