"""The result of runs that are not compared: a sentence, and a few numbers."""

import math
import statistics
from collections.abc import Sequence

from fedsim.report.results import ROUNDS, Row, amount, grouped_by, metric_of, reached
from fedsim.study.outside import remark
from fedsim.study.regression import mean_errors
from fedsim.study.summary import in_words, is_federated, median_to_target, values_of

ERROR_TITLES = {
    "test_r2": "R² on test data",
    "test_mae": "mean absolute error",
    "test_perplexity": "perplexity on test data",
}
FAINT = 1.2  # a score up to that many times what guessing gives is hardly more than guessing

Number = tuple[str, str, str]
"""name, number, and a remark"""


def headline(
    summary: Sequence[Row],
    rounds: Sequence[Row],
    names: Sequence[str],
    score: str,
    chance: float | None = None,
    over: bool = True,
) -> str:
    """The result of runs in a sentence: how one method ended, or which of several ended best."""
    if not summary:
        return "Nothing has been evaluated yet."

    outside = remark(summary)
    if any(map(is_federated, summary)):
        summary = [row for row in summary if is_federated(row)]
    diverged = sum(bool(row.get("diverged")) for row in summary)
    lost = ""
    if diverged:
        lost = f"; {diverged} of {len(summary)} runs diverged"

    runs = grouped_by(summary, "method")
    scores = {}
    for name in names:
        values = _finite(runs.get((name,), []), score)
        if values:
            scores[name] = values
    if not scores:
        return outside or f"No run has a score{lost}."

    metric = in_words(metric_of(summary))
    first, *others = scores
    mean = statistics.fmean(scores[first])
    if others:
        second = others[0]
        leads = "ends best" if over else "is ahead so far"
        best = f"{first} {leads} with {metric} {mean:.4g}"
        next_best = f"{second} next with {statistics.fmean(scores[second]):.4g}"
        return f"{best}, {next_best}{lost}, by the means alone."

    ends = "ends with" if over else "is at"
    text = f"{first} {ends} {metric} {mean:.4g}"
    errors = next(iter(mean_errors(rounds, metric_of(summary)).values()), {})
    if errors:
        text += f" ({', '.join(f'{name} {mean:.3g}' for name, mean in errors.items())})"
    if rounds:
        text += f" after {_last_round(rounds):,} rounds"
    text += _over_seeds(scores[first])
    if chance is not None and mean <= FAINT * chance:
        text += f", hardly more than guessing ({chance:.2g})"
    text += f"{lost}."
    if outside:
        text += f" {outside}"
    return text


def _over_seeds(scores: Sequence[float]) -> str:
    if len(scores) == 1:
        return ", under one seed"
    return f", the mean of {len(scores)} seeds ({min(scores):.4g} to {max(scores):.4g})"


def _last_round(rounds: Sequence[Row]) -> int:
    return max(row["round"] for row in rounds)


def numbers(summary: Sequence[Row], rounds: Sequence[Row], over: bool = True) -> list[Number]:
    """The result of one method in a few numbers, means over the seeds."""
    last = [rows[-1] for rows in grouped_by(rounds, "seed").values()]
    shown = [*_scores(summary, over), *_errors(summary, last)]
    if any(row.get("rounds_to_target") is not None for row in summary):
        shown.append(_to_target(summary))

    spent = values_of(last, "epsilon")
    if last and len(spent) == len(last):
        shown.append(("ε spent", f"{max(spent):.4g}", f"in {_last_round(last):,} rounds"))
    shown += _audited(summary)
    if last and all(row.get("bytes_up") is not None for row in last):
        sent = statistics.fmean(row["bytes_up"] + row["bytes_down"] for row in last)
        shown.append(("sent, both ways", amount(sent), f"in {_last_round(last):,} rounds"))
    return shown


def _audited(summary: Sequence[Row]) -> list[Number]:
    """The ε that canaries show, of which every run has its own; the smallest is shown."""
    lows = _finite(summary, "epsilon_low")
    if not lows:
        return []
    remark = f"{100 * summary[0]['epsilon_confidence']:.4g} % confidence"
    if len(lows) > 1:
        remark = f"to {max(lows):.3g}, {remark} each"
    return [("ε by canaries, at least", f"{min(lows):.3g}", remark)]


def _scores(summary: Sequence[Row], over: bool) -> list[Number]:
    metric = in_words(metric_of(summary))
    when = "final" if over else "latest"
    titles = {
        "final": f"{when} {metric}",
        "best": f"best {metric}",
        "mean_last_k": f"mean of the last {summary[0].get('k')}",
    }
    shown = []
    for name, title in titles.items():
        if _finite(summary, name):
            shown.append((title, *_mean(summary, name)))
    return shown


def _errors(summary: Sequence[Row], last: Sequence[Row]) -> list[Number]:
    """R², the mean absolute error and perplexity, where there are any that are not the metric."""
    shown = []
    for name, title in ERROR_TITLES.items():
        if name != metric_of(summary) and _finite(last, name):
            shown.append((title, *_mean(last, name)))
    return shown


def _to_target(summary: Sequence[Row]) -> Number:
    sent, _ = median_to_target(summary, "bytes_to_target")
    rounds, _ = reached(summary, ROUNDS)
    remark = ""
    if math.isfinite(sent):
        remark = f"{amount(sent)} until then"
    return "rounds to the target", rounds, remark


def _mean(rows: Sequence[Row], name: str) -> tuple[str, str]:
    """The mean over the seeds, and their range."""
    values = _finite(rows, name)
    spread = "one seed"
    if len(values) > 1:
        spread = f"{min(values):.4g} to {max(values):.4g}"
    return f"{statistics.fmean(values):.4g}", spread


def _finite(rows: Sequence[Row], name: str) -> list[float]:
    """The values of a column that are finite numbers."""
    return list(filter(math.isfinite, values_of(rows, name)))
