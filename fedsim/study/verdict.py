"""A comparison in sentences: one headline, then what is sure, what leans, what is level, variation by variation."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedsim.study.not_run import not_run_lines
from fedsim.study.pairing import SURE, others
from fedsim.study.standings import Standing, standings
from fedsim.study.statistics import smallest_p
from fedsim.study.summary import Record, is_share, larger_is_better
from fedsim.study.unpaired import unpaired
from fedsim.study.words import attacks, variation
from fedsim.study.worst_case import worst_case_lines, worst_cases


def verdict(
    compared: Sequence[Record],
    summary: Sequence[Record],
    baseline: str,
    score: str = "final",
    chance: Mapping[str, float] | None = None,
    scenario: Mapping[str, Any] | None = None,
) -> list[str]:
    """A comparison in sentences, the headline first: who leads, by how much, how sure.

    Args:
      compared: rows of `compare.csv`.
      summary: rows of `summary.csv`.
      baseline: label of the method that the others are compared with.
      score: `final`, `best` or `mean_last_k`.
      chance: what guessing gives, by variation; left out: nothing is said of it.
      scenario: as in `run.json`, for the names of what varies.
    """
    compared = others(compared)
    by_variant = standings(compared, summary, baseline, score, chance)
    words = {name: variation(name, scenario) for name in by_variant}
    not_run = not_run_lines(summary, words)
    if not any(s.mean is not None for group in by_variant.values() for s in group):
        return ["No run has a score." if by_variant else "Nothing was run.", *not_run]
    metric = next(str(run["metric"]) for run in summary if run.get("metric"))
    lines = worst_case_lines(worst_cases(summary, score), scenario)  # what attacks leave is what they were tried for
    lines.append(_headline(by_variant, words, baseline, metric))
    for name, group in by_variant.items():
        where = f"With {words[name]}: " if name else ""
        lines += [f"{where}{line[0].lower() if where else line[0]}{line[1:]}" for line in _group(group, baseline)]
    return [*lines, *not_run, *_power(compared), *unpaired(scenario, compared)]


def _headline(by_variant: Mapping[str, list[Standing]], words: Mapping[str, str], baseline: str, metric: str) -> str:
    """Who leads; where something varies: who holds where the baseline does worst, and who leads where it does best."""
    name, rising = metric.replace("_", " "), larger_is_better(metric)
    if len(by_variant) == 1 and len(next(iter(by_variant.values()))) > 1:
        (group,) = by_variant.values()
        text = f"{_leading(group, baseline, name)}{_lost(group)}."
        return f"N{text[1:]}" if group[0].chance else text
    if len({standing.method for group in by_variant.values() for standing in group}) == 1:
        return _alone(by_variant, words, name, rising)
    leaders = {variant: group[0] for variant, group in by_variant.items() if group[0].mean is not None}
    worth = lambda variant: _worth(by_variant[variant], baseline, rising)
    hard, easy = min(leaders, key=worth), max(leaders, key=worth)
    first, verb = leaders[hard], "holds" if attacks(hard) else "leads"
    start = subject = ""
    if {leader.method for leader in leaders.values()} == {first.method} and not any(s.chance for s in leaders.values()):
        which = "both" if len(by_variant) == 2 else f"all {len(by_variant)}"
        start = f"{first.method}{'' if first.row else ', the baseline,'} leads in {which} variations: "
        subject = "it"
    text = f"with {words[hard]}, {_leading(by_variant[hard], baseline, name, verb, subject)}"
    text += f"; with {words[easy]}, {_brief(by_variant[easy], baseline, name, subject)}" if easy != hard else ""
    return f"{start}{text}." if start else f"W{text[1:]}."


def _alone(by_variant: Mapping[str, list[Standing]], words: Mapping[str, str], metric: str, rising: bool) -> str:
    """What the only method reaches: where it does best, and where it does worst."""
    means = {variant: group[0].mean for variant, group in by_variant.items() if group[0].mean is not None}
    ranked = sorted(means, key=lambda variant: means[variant], reverse=rising)
    where = [
        f"{_score(means[v], metric)}{f' with {words[v]}' * bool(v)}" for v in dict.fromkeys([ranked[0], ranked[-1]])
    ]
    method = next(iter(by_variant.values()))[0].method
    return f"{method} ends with {metric} {' and '.join(where)}."


def _lost(group: Sequence[Standing]) -> str:
    """Methods all of whose runs diverged, as the end of a sentence."""
    names = [s.method for s in group if s.diverged]
    return f"; {', '.join(names)} diverged under all seeds" if names else ""


def _worth(group: Sequence[Standing], baseline: str, rising: bool) -> float:
    """How well the baseline does, or without it the best: larger is better."""
    mean = next((s.mean for s in group if s.method == baseline and s.mean is not None), group[0].mean)
    return 0.0 if mean is None else mean if rising else -mean


def _leading(group: Sequence[Standing], baseline: str, metric: str, verb: str = "leads", subject: str = "") -> str:
    """The best method under one variation: its score, what it gains on the baseline, and how sure that is.

    Args:
      group: methods, the best first.
      baseline: what they are compared with.
      metric: in words.
      verb: what the best does.
      subject: the best, where it was named before.
    """
    best, base = group[0], next((s for s in group if s.method == baseline), None)
    who = subject or best.method
    if best.chance:
        return f"no method does better than chance: {best.method}, the best, has {metric} {_score(best.mean, metric)}"
    if best.row is None or base is None or base.mean is None:
        rivals = [s for s in group if s.row and s.row["seeds"]]
        sure = sum(s.sure for s in rivals)
        how = f"; {_of(sure, len(rivals))} surely worse" if rivals else ""
        kept = ", the baseline," if best.method == baseline and rivals and not subject else ""
        return f"{who}{kept} {verb} with {metric} {_score(best.mean, metric)}{how}"
    guess = ", which is at chance level" if base.chance else ""
    start = f"{who} {verb} with {metric} {_score(best.mean, metric)} against {_score(base.mean, metric)} of {baseline}{guess}"
    if best.sure:
        return f"{start} ({_gain(best)}; {best.seeds}, p = {best.row['p_adjusted']:.2g} after Holm)"
    if best.clear:
        return f"{start} ({_gain(best)}; {best.seeds}, too few to be sure)"
    return f"{start}, but cannot be told apart from it ({_gain(best)}; {best.seeds})"


def _gain(standing: Standing) -> str:
    """How much better than the baseline, with its interval, as far as these are numbers."""
    row = standing.row or {}
    if row["difference"] is None:
        return "better" if standing.benefit > 0 else "no better"
    if row["ci_low"] is None:
        return f"{standing.benefit:.3g} better"
    ends = (row["ci_low"], row["ci_high"]) if larger_is_better(row["metric"]) else (-row["ci_high"], -row["ci_low"])
    return f"{standing.benefit:.3g} better, 95 % {ends[0]:.3g} to {ends[1]:.3g}"


def _brief(group: Sequence[Standing], baseline: str, metric: str, subject: str) -> str:
    """The best method under one variation and its score, in few words."""
    best, base = group[0], next((s for s in group if s.method == baseline), None)
    if best.chance:
        return "no method does better than chance"
    against = (
        f" against {_score(base.mean, metric)} of {baseline}" if best.row and base and base.mean is not None else ""
    )
    how = "" if best.row is None or best.sure else ", which is not sure"
    return f"{subject or best.method} leads with {_score(best.mean, metric)}{against}{how}"


def _score(value: float | None, metric: str) -> str:
    """A mean score: of a share three decimals, of others three digits.

    >>> _score(0.9348, "test accuracy"), _score(0.00648, "test loss")
    ('0.935', '0.00648')
    """
    if value is None or not math.isfinite(value):
        return "without bound"
    return f"{value:.3f}" if is_share(metric.replace(" ", "_")) else f"{value:.3g}"


def _of(count: int, total: int) -> str:
    """So many of the others, as the subject of a sentence.

    >>> _of(2, 2), _of(1, 3), _of(0, 3)
    ('all 2 others are', '1 of the 3 others is', 'none of the 3 others is')
    """
    if count == total:
        return "the other is" if total == 1 else f"all {total} others are"
    some = f"{count or 'none'} of the {total} others" if total > 1 else "the other"
    return f"{some} {'are' if count > 1 else 'is' if total > 1 else 'is not'}"


def _group(group: Sequence[Standing], baseline: str) -> list[str]:
    """Sentences about one variation: what is surely better and worse, what leans, what is level, at chance, failed."""
    rivals = [s for s in group if s.row is not None]
    guessing = [s.method for s in group if s.chance]
    compared = [s for s in rivals if s.row and s.row["seeds"] and not (s.chance and baseline in guessing)]
    compared.sort(key=lambda s: -s.benefit)
    sure, clear = [s for s in compared if s.sure], [s for s in compared if s.clear and not s.sure]
    parts = {
        f"Surely better than {baseline} (p < {SURE} after Holm)": [s for s in sure if s.benefit > 0],
        f"Surely worse than {baseline} (p < {SURE} after Holm)": [s for s in sure if s.benefit <= 0],
        f"Better than {baseline} by the 95 % interval, too few seeds to be sure": [s for s in clear if s.benefit > 0],
        f"Worse than {baseline} by the 95 % interval, too few seeds to be sure": [s for s in clear if s.benefit <= 0],
        f"Not told apart from {baseline}": [s for s in compared if not s.sure and not s.clear and not s.diverged],
        "Diverged under all seeds": [s for s in compared if not s.sure and s.diverged],
    }
    lines = [f"{title}: {', '.join(map(_item, some))}." for title, some in parts.items() if some]
    if guessing:
        several = "; what they differ by means nothing" if len(guessing) > 1 else ""
        lines.append(f"At chance level: {', '.join(guessing)}{several}.")
    failed = [s.method for s in rivals if s.mean is None and not s.not_run]
    return [*lines, *([f"Failed under all seeds, compared with nothing: {', '.join(failed)}."] if failed else [])]


def _item(standing: Standing) -> str:
    """A method with its difference, its interval, and how often it was better."""
    row = standing.row or {}
    lost = f"; {row['diverged']} of {row['seeds']} runs diverged" if row["diverged"] else ""
    ends = "" if row["ci_low"] is None else f", 95 % {row['ci_low']:+.3g} to {row['ci_high']:+.3g}"
    number = "" if row["difference"] is None else f"{row['difference']:+.3g}{ends}; "
    return f"{standing.method} ({number}{standing.seeds}{lost})"


def _power(table: Iterable[Record]) -> list[str]:
    """What so few seeds could not have shown, whatever had come out."""
    rows = [row for row in table if row["seeds"]]
    if not rows:
        return []
    seeds, tests = min(row["seeds"] for row in rows), sum(row["p_value"] is not None for row in rows)
    least = smallest_p(seeds) * max(tests, 1)
    if least < SURE:
        return []
    needed = next(n for n in range(2, 64) if smallest_p(n) * max(tests, 1) < SURE)
    of = f"{tests} comparisons" if tests > 1 else "one comparison"
    return [
        f"With {seeds} seed{'s' * (seeds > 1)} no difference can be called sure: of {of} the smallest p that a two-sided "
        f"test can give is {min(least, 1):.3g}. {needed} seeds could."
    ]
