"""A comparison in sentences: one headline, then what is sure, what leans, what is level, variation by variation."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedsim.study.claims import Sentence
from fedsim.study.headline import Page, headline
from fedsim.study.not_run import not_run_lines
from fedsim.study.pairing import SURE, others, same_runs
from fedsim.study.standings import Standing, standings
from fedsim.study.statistics import smallest_p
from fedsim.study.summary import Record
from fedsim.study.unpaired import unpaired
from fedsim.study.words import variation
from fedsim.study.worst_case import worst_case_lines, worst_cases


def verdict(
    compared: Sequence[Record],
    summary: Sequence[Record],
    baseline: str,
    score: str = "final",
    chance: Mapping[str, float] | None = None,
    scenario: Mapping[str, Any] | None = None,
    start: Mapping[str, float] | None = None,
    errors: Mapping[tuple[str, str], str] | None = None,
) -> list[str]:
    """A comparison in sentences, the headline first: who leads, by how much, how sure.

    Sentences are `Sentence`s: what they are sure of stands beside the words.

    Args:
      compared: rows of `compare.csv`.
      summary: rows of `summary.csv`.
      baseline: label of the method that the others are compared with.
      score: `final`, `best` or `mean_last_k`.
      chance: what guessing gives, by variation; left out: nothing is said of it.
      scenario: as in `run.json`, for the names of what varies.
      start: the score of the untrained models by variation, over which methods gain; left out: that of guessing.
      errors: R² and MAE in words, by variation and method, where targets are numbers.
    """
    compared = others(compared)
    every = standings(compared, summary, baseline, score, chance)
    words = {name: variation(name, scenario) for name in every}
    not_run = not_run_lines(summary, words)
    if not any(s.mean is not None for group in every.values() for s in group):
        return ["No run has a score." if every else "Nothing was run.", *not_run]
    repeats = _repeats(summary, score)
    by_variant = {name: group for name, group in every.items() if name not in repeats}
    page = Page(
        summary=summary,
        baseline=baseline,
        metric=next(str(run["metric"]) for run in summary if run.get("metric")),
        score=score,
        words=words,
        start={**(chance or {}), **(start or {})},
        errors=errors or {},
        tests=len({s.test for group in every.values() for s in group if s.row and s.row["p_value"] is not None}),
    )
    lines = worst_case_lines(worst_cases(summary, score), scenario)  # what attacks leave is what they were tried for
    lines.append(headline(by_variant, page))
    told: dict[Any, str] = {}
    for name, group in by_variant.items():
        lines += [line.behind(f"With {page.words[name]}: " if name else "") for line in _group(name, group, page, told)]
    lines += [f"With {page.words[name]}: the same scores as with {page.words[of]}." for name, of in repeats.items()]
    return [*lines, *not_run, *_power(compared, page.tests), *unpaired(scenario, compared)]


def _repeats(summary: Sequence[Record], score: str) -> dict[str, str]:
    """Variations in which every method has the same scores as in an earlier one, which is told instead."""
    runs: dict[str, dict[str, list[Record]]] = {}
    for run in summary:
        runs.setdefault(run.get("variant") or "", {}).setdefault(run["method"], []).append(run)
    first: dict[Any, str] = {}
    repeats = {}
    for name, methods in runs.items():
        scored = any(run.get(score) is not None for some in methods.values() for run in some)
        content = frozenset((method, same_runs(some, score)) for method, some in methods.items())
        if scored and first.setdefault(content, name) != name:
            repeats[name] = first[content]
    return repeats


def _group(name: str, group: Sequence[Standing], page: Page, told: dict[Any, str]) -> list[Sentence]:
    """Sentences about one variation: what is surely better and worse, what leans, what is level, at chance, failed.

    Args:
      name: of the variation.
      group: its standings.
      page: what the others know.
      told: variation by test, of what was told before; what is told here is added.
    """
    baseline = page.baseline
    rivals = [s for s in group if s.row is not None]
    guessing = [s.method for s in group if s.chance]
    compared = [s for s in rivals if s.row and s.row["seeds"] and not (s.chance and baseline in guessing)]
    again = [s for s in compared if told.get(s.test, name) != name]
    compared = [s for s in compared if s not in again]
    compared.sort(key=lambda s: -s.benefit)
    told |= {s.test: name for s in compared}
    sure = [s for s in compared if s.sure]
    clear = [s for s in compared if s.clear and not s.sure]
    few = [s for s in clear if page.too_few(s)]
    more = [s for s in clear if not page.too_few(s)]
    parts = {
        f"Surely better than {baseline} (p < {SURE} after Holm)": [s for s in sure if s.benefit > 0],
        f"Surely worse than {baseline} (p < {SURE} after Holm)": [s for s in sure if s.benefit <= 0],
        f"Better than {baseline} by the 95 % interval, not after Holm": [s for s in more if s.benefit > 0],
        f"Worse than {baseline} by the 95 % interval, not after Holm": [s for s in more if s.benefit <= 0],
        f"Better than {baseline} by the 95 % interval, too few seeds to be sure": [s for s in few if s.benefit > 0],
        f"Worse than {baseline} by the 95 % interval, too few seeds to be sure": [s for s in few if s.benefit <= 0],
        f"Not told apart from {baseline}": [s for s in compared if not s.sure and not s.clear and not s.diverged],
        "Diverged under all seeds": [s for s in compared if not s.sure and s.diverged],
    }
    lines = [_listed(title, some, name, page) for title, some in parts.items() if some]
    if again:
        where = " and ".join(dict.fromkeys(page.words[told[s.test]] for s in again))
        lines.append(Sentence(f"The same scores as with {where}: {', '.join(s.method for s in again)}."))
    if guessing:
        several = "; they are not compared with each other" if len(guessing) > 1 else ""
        lines.append(Sentence(f"At chance level: {', '.join(guessing)}{several}."))
    failed = [s.method for s in rivals if s.mean is None and not s.not_run]
    if failed:
        lines.append(Sentence(f"Failed under all seeds, compared with nothing: {', '.join(failed)}."))
    return lines


def _listed(title: str, some: Sequence[Standing], variant: str, page: Page) -> Sentence:
    """A title and the methods below it; those with the same scores are one item."""
    items: dict[Any, list[Standing]] = {}
    for standing in some:
        items.setdefault(standing.test, []).append(standing)
    claims = [page.claim(s, variant) for s in some if s.sure]
    return Sentence(f"{title}: {', '.join(map(_item, items.values()))}.", claims)


def _item(same: Sequence[Standing]) -> str:
    """A method with its difference, its interval, and how often it was better; several with the same scores as one."""
    row = same[0].row or {}
    lost = f"; {row['diverged']} of {row['seeds']} runs diverged" if row["diverged"] else ""
    none = row["ci_low"] is None or row["ci_low"] == row["ci_high"]  # of width 0 where all scores are the same
    ends = "" if none else f", 95 % {row['ci_low']:+.3g} to {row['ci_high']:+.3g}"
    number = "" if row["difference"] is None else f"{row['difference']:+.3g}{ends}; "
    alike = "; the same scores" if len(same) > 1 else ""
    return f"{' and '.join(s.method for s in same)} ({number}{same[0].seeds}{lost}{alike})"


def _power(table: Iterable[Record], tests: int) -> list[str]:
    """What so few seeds could not have shown, whatever had come out."""
    rows = [row for row in table if row["seeds"]]
    if not rows:
        return []
    seeds = max(row["seeds"] for row in rows)
    least = smallest_p(seeds) * max(tests, 1)
    if least < SURE:
        return []
    needed = next(n for n in range(2, 64) if smallest_p(n) * max(tests, 1) < SURE)
    of = f"{tests} comparisons" if tests > 1 else "one comparison"
    return [
        f"With {seeds} seed{'s' * (seeds > 1)} no difference can be called sure: of {of} the smallest p that a two-sided "
        f"test can give is {min(least, 1):.3g}. {needed} seeds could."
    ]
