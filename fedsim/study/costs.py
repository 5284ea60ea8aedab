"""What scores cost: the rows of `bytes.csv` and of `seconds.csv`, and which methods no other one
beats in both.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from fedsim.scenario.shorthand import top_level
from fedsim.study.cost_axes import DOWN, SECONDS, UP, WAYS, Axis
from fedsim.study.standings import seed_scores
from fedsim.study.statistics import interval, median_interval
from fedsim.study.summary import Record, larger_is_better, ran, worst
from fedsim.study.words import variation

Who = tuple[str, str]
"""method and variation"""
Courses = dict[tuple[str, str, int], list[Record]]
"""rows of `rounds.csv` by run: method, variation and seed"""


def costs(
    axis: Axis,
    summary: Sequence[Record],
    rounds: Iterable[Record],
    score: str,
    varied: Sequence[str] = (),
) -> list[Record]:
    """Scores beside what they cost: the rows of `bytes.csv` or `seconds.csv`; none where all rows
    cost the same, of bytes where no run reached a target either.

    Rows are compared where they differ in method alone, and in what a scenario chooses to spend
    less: codecs, or what decides how long a round is. One is on the front where no other has a
    score at least as good for at most as much, and is better in one of the two. The interval of the
    median to the target is that of order statistics; a run that did not reach the target counts as
    ∞.

    Args:
      axis: what is counted.
      summary: rows of `summary.csv`.
      rounds: rows of `rounds.csv`.
      score: `final`, `best` or `mean_last_k`.
      varied: paths that vary.
    """
    courses, runs = courses_of(rounds), runs_of(summary)
    aimed = any(run.get(axis.target) is not None for run in summary)
    made = {who: _row(axis, part, courses, score, varied, aimed) for who, part in runs.items()}
    rows = []
    for group in groups(axis, [row for row in made.values() if row is not None]).values():
        way = direction(axis, group)
        if way:
            equal = _equal(group, runs, courses) if axis.equal else [{} for _ in group]
            rows += [
                {**row, "front": int(on_front(row, group, way)), **more}
                for row, more in zip(group, equal, strict=True)
            ]
        elif aimed and not axis.equal:
            rows += group
    return rows


def groups(axis: Axis, rows: Sequence[Record]) -> dict[str, list[Record]]:
    """Rows by what varies beside what is compared."""
    compared = axis.compared(str(row.get("variant") or "") for row in rows)
    parted: dict[str, list[Record]] = {}
    for row in rows:
        parts = top_level(str(row.get("variant") or "")) if row.get("variant") else []
        rest = [part.strip() for part in parts if part.partition("=")[0].strip() not in compared]
        parted.setdefault(", ".join(rest), []).append(row)
    return parted


def name_of(
    axis: Axis, row: Record, rows: Sequence[Record], words: Callable[[str], str] = variation
) -> str:
    """What a row is called among those of its group: its method, what it chose, or both, as far as
    these differ.

    Args:
      axis: what is counted.
      row: of its table.
      rows: of the group.
      words: a variation in words.
    """
    compared = axis.compared(str(one.get("variant") or "") for one in rows)
    methods = {one["method"] for one in rows}
    parts = top_level(str(row["variant"])) if row.get("variant") and compared else []
    named = [words(part.strip()) for part in parts if part.partition("=")[0].strip() in compared]
    return ", ".join([*([row["method"]] if len(methods) > 1 or not named else []), *named])


def direction(axis: Axis, rows: Sequence[Record]) -> str:
    """The way in which rows differ, such as `up`, `down` or `both`; empty where they do not."""
    differing = [way for way in axis.ways if len({cost(row, way) for row in rows}) > 1]
    return axis.several if len(differing) > 1 else "".join(differing)


def cost(row: Record, way: str) -> float:
    """What a row costs, in the way that counts."""
    return sum(row[name] for name in WAYS[way].columns)


def on_front(row: Record, rows: Sequence[Record], way: str) -> bool:
    """Whether no other row is at least as good in score and in cost, and better in one of them."""
    sign = 1 if larger_is_better(row["metric"]) else -1
    value, spent = sign * row["mean"], cost(row, way)
    pairs = [(sign * other["mean"], cost(other, way)) for other in rows]
    return not any(s >= value and b <= spent and (s > value or b < spent) for s, b in pairs)


def front_of(rows: Sequence[Record], way: str) -> list[tuple[Record, float]]:
    """The rows of the front with what they cost, those that cost least first."""
    return sorted(
        ((row, cost(row, way)) for row in rows if row.get("front")), key=lambda pair: pair[1]
    )


def ordered(rows: Sequence[Record], way: str) -> list[Record]:
    """Rows of the front, then the others, and among each those that cost most; the best first where
    all cost the same.
    """
    sign = -1 if larger_is_better(str(rows[0]["metric"])) else 1
    place = lambda row: (not row.get("front"), -cost(row, way) if way else 0, sign * row["mean"])
    return sorted(rows, key=place)


def reference_of(rows: Sequence[Record], baseline: str, way: str) -> Record:
    """The row that the others are measured by: of those of the baseline the one that costs most."""
    candidates = [row for row in rows if row["method"] == baseline] or list(rows)
    return max(candidates, key=lambda row: cost(row, way) if way else 0)


def runs_of(summary: Sequence[Record]) -> dict[Who, list[Record]]:
    """Runs that have a result, by method and variation."""
    runs: dict[Who, list[Record]] = {}
    for run in summary:
        if ran(run):
            runs.setdefault(who_of(run), []).append(run)
    return runs


def who_of(row: Record) -> Who:
    """Method and variation of a row."""
    return row["method"], row.get("variant") or ""


def equal_scores(
    rows: Sequence[Record], runs: Mapping[Who, Sequence[Record]], courses: Courses
) -> list[dict[int, float]]:
    """Scores of every row at an equal time by seed: that at which the first of the rows' runs ends
    under this seed.

    It is the last value of the metric by then, of a run that diverged the worst there is.
    """
    ran = [
        {run["seed"]: run for run in runs[who_of(row)] if courses.get((*who_of(row), run["seed"]))}
        for row in rows
    ]
    shared = sorted(set.intersection(*(set(part) for part in ran)))
    last = lambda row, seed: courses[(*who_of(row), seed)][-1][SECONDS]
    scores: list[dict[int, float]] = [{} for _ in rows]
    for seed in shared:
        whole = [row for row, part in zip(rows, ran, strict=True) if not part[seed].get("diverged")]
        end = min((last(row, seed) for row in whole), default=math.inf)
        for row, part, of_row in zip(rows, ran, scores, strict=True):
            of_row[seed] = worst(row["metric"])
            if not part[seed].get("diverged"):
                course, metric = courses[(*who_of(row), seed)], row["metric"]
                values = [
                    r[metric] for r in course if r[SECONDS] <= end and r.get(metric) is not None
                ]
                of_row[seed] = values[-1] if values else worst(metric)
    return scores


def courses_of(rounds: Iterable[Record]) -> Courses:
    """Rows of `rounds.csv` by run."""
    courses: Courses = {}
    for row in rounds:
        courses.setdefault((*who_of(row), row["seed"]), []).append(row)
    return courses


def _equal(
    rows: Sequence[Record], runs: Mapping[Who, Sequence[Record]], courses: Courses
) -> list[Record]:
    """Columns of the scores at an equal time."""
    made = []
    for scores in equal_scores(rows, runs, courses):
        values = np.array(list(scores.values()))
        low, high = interval(values) or (None, None)
        made.append(
            {
                "in_time": float(values.mean()) if len(values) else None,
                "in_time_low": low,
                "in_time_high": high,
            }
        )
    return made


def _row(
    axis: Axis,
    runs: Sequence[Record],
    courses: Courses,
    score: str,
    varied: Sequence[str],
    aimed: bool,
) -> Record | None:
    """One method under one variation; None where nothing of it was sent or scored."""
    spent = [_spent(axis, courses.get((*who_of(run), run["seed"]), ())) for run in runs]
    counted = [part for part in spent if part]
    values = np.array(list(seed_scores(runs, score).values()))
    if not counted or not len(values):
        return None
    low, high = interval(values) or (None, None)
    row = {name: runs[0][name] for name in ("method", "variant", *varied) if name in runs[0]}
    row |= {
        "metric": next(str(run["metric"]) for run in runs),
        "score": score,
        "seeds": len(values),
    }
    row |= {"mean": float(values.mean()), "ci_low": low, "ci_high": high}
    row |= {name: float(np.mean([part[name] for part in counted])) for name in counted[0]}
    return {**row, **_to_target(axis, runs)} if aimed else row


def _spent(axis: Axis, course: Sequence[Record]) -> dict[str, float]:
    """What a run spent to its end: all of it, and of bytes that of a message; nothing where no
    client was drawn.

    Where the fleet leaves clients out, that is of a message that counts: it has to pay for those
    that are lost.
    """
    sampled, reported = (
        sum(row.get(f"clients_{name}") or 0 for row in course) for name in ("sampled", "reported")
    )
    if not sampled:
        return {}
    selective = any("clients_late" in row for row in course)
    messages = reported if selective and reported else sampled
    totals = {name: float(course[-1][name]) for way in axis.ways for name in WAYS[way].grown}
    parts = {"bytes_up": UP, "bytes_down": DOWN}
    return totals | {
        parts[name]: total / messages for name, total in totals.items() if name in parts
    }


def _to_target(axis: Axis, runs: Sequence[Record]) -> Record:
    """Runs that reached the target, and the median of what they spent by then; a run that did not
    counts as ∞.
    """
    arrived = [run[axis.target] for run in runs if run.get(axis.target) is not None]
    median, low, high = median_interval([*arrived, *[math.inf] * (len(runs) - len(arrived))])
    return {"reached": len(arrived), axis.target: median, "target_low": low, "target_high": high}
