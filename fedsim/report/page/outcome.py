"""What runs came to where nothing is compared: a sentence, and a few numbers."""

import math
import statistics
from collections.abc import Sequence

from fedsim.report.results import Row, amount, by, metric_of, reached
from fedsim.study.regression import errors_of
from fedsim.study.summary import in_words, median_to_target

FAINT = 1.2  # times what guessing gives: hardly more than that


def headline(
    summary: Sequence[Row],
    rounds: Sequence[Row],
    names: Sequence[str],
    score: str,
    chance: float | None = None,
    over: bool = True,
) -> str:
    """What runs came to, in a sentence: how one ended, or which of several ended best.

    Args:
      summary: the rows of `summary.csv`.
      rounds: those of `rounds.csv`.
      names: of methods, in the order of the result.
      score: `final`, `best` or `mean_last_k`.
      chance: the accuracy of guessing.
      over: whether the runs have ended.
    """
    if not summary:
        return "Nothing has been evaluated yet."
    runs = by(summary, "method")
    metric = in_words(metric_of(summary))
    scores = {name: values for name in names if (values := _finite(runs.get((name,), []), score))}
    bad = sum(bool(row.get("diverged")) for row in summary)
    lost = f"; {bad} of {len(summary)} runs diverged" if bad else ""
    if not scores:
        return f"No run has a score{lost}."
    first, *others = scores
    mean = statistics.fmean(scores[first])
    if others:
        second = statistics.fmean(scores[others[0]])
        leads = "ends best" if over else "is ahead so far"
        return f"{first} {leads} with {metric} {mean:.4g}, {others[0]} next with {second:.4g}{lost}, by the means alone."
    after = f" after {max(row['round'] for row in rounds):,} rounds" if rounds else ""
    several, ends = len(scores[first]), (min(scores[first]), max(scores[first]))
    mean_of = (
        f", the mean of {several} seeds ({ends[0]:.4g} to {ends[1]:.4g})"
        if several > 1
        else ", under one seed"
    )
    guess = (
        f", hardly more than guessing ({chance:.2g})"
        if chance is not None and mean <= FAINT * chance
        else ""
    )
    ends = "ends with" if over else "is at"
    errors = next(iter(errors_of(rounds, metric_of(summary)).values()), "")
    beside = f" ({errors})" if errors else ""
    return f"{first} {ends} {metric} {mean:.4g}{beside}{after}{mean_of}{guess}{lost}."


def numbers(
    summary: Sequence[Row], rounds: Sequence[Row], over: bool = True
) -> list[tuple[str, str, str]]:
    """What a run of one method came to, in a few numbers: name, number, and a remark each; means over seeds.

    Args:
      summary: the rows of `summary.csv`.
      rounds: those of `rounds.csv`.
      over: whether the runs have ended.
    """
    metric, last = metric_of(summary), [group[-1] for group in by(rounds, "seed").values()]
    words = in_words(metric)
    titles = {
        "final": f"{'final' if over else 'latest'} {words}",
        "best": f"best {words}",
        "mean_last_k": f"mean of the last {summary[0].get('k')}",
    }
    shown = [
        (title, *_mean(summary, name)) for name, title in titles.items() if _finite(summary, name)
    ]
    for name, title in (("test_r2", "R² on test data"), ("test_mae", "mean absolute error")):
        if name != metric and _finite(last, name):
            shown.append((title, *_mean(last, name)))
    if any(row.get("rounds_to_target") is not None for row in summary):
        spent, _ = median_to_target(summary, "bytes_to_target")
        until = f"{amount(spent)} until then" if math.isfinite(spent) else ""
        shown.append(
            ("rounds to the target", reached(summary, "rounds_to_target", 1, ".0f")[0], until)
        )
    if last and all(row.get("bytes_up") is not None for row in last):
        both = statistics.fmean(row["bytes_up"] + row["bytes_down"] for row in last)
        shown.append(
            ("sent, both ways", amount(both), f"in {max(row['round'] for row in last):,} rounds")
        )
    return shown


def _mean(rows: Sequence[Row], name: str) -> tuple[str, str]:
    """The mean over seeds, and how far they spread."""
    values = _finite(rows, name)
    spread = f"{min(values):.4g} to {max(values):.4g}" if len(values) > 1 else "one seed"
    return f"{statistics.fmean(values):.4g}", spread


def _finite(rows: Sequence[Row], name: str) -> list[float]:
    return [row[name] for row in rows if row.get(name) is not None and math.isfinite(row[name])]
