"""What scores cost in bytes: the rows of `bytes.csv`, and which methods no other one beats in both."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fedsim.scenario.shorthand import top_level
from fedsim.study.methods import text_of
from fedsim.study.standings import seed_scores
from fedsim.study.statistics import interval, median_interval, paired
from fedsim.study.summary import Record, is_share, larger_is_better
from fedsim.study.words import codec_axes, variation

UP, DOWN = "up_per_client_round", "down_per_client_round"
WORDS = {"up": "bytes up", "down": "bytes down", "both": "bytes, both ways,"}
Runs = dict[tuple[str, str], list[Record]]
"""runs by method and variation"""


def traffic(
    summary: Sequence[Record], rounds: Iterable[Record], score: str, varied: Sequence[str] = ()
) -> list[Record]:
    """Scores beside bytes: the rows of `bytes.csv`; none where all send the same and no run reached a target.

    Rows are compared where they differ in method and codecs alone. One is on the front where no other has a score at least
    as good for at most as many bytes, and is better in one of the two. The interval of the median bytes to the target is
    that of order statistics; a run that did not reach the target counts as ∞.

    Args:
      summary: rows of `summary.csv`.
      rounds: rows of `rounds.csv`.
      score: `final`, `best` or `mean_last_k`.
      varied: paths that vary.
    """
    sent, runs = _sent(rounds), _runs(summary)
    aimed = any(run.get("bytes_to_target") is not None for run in summary)
    made = {who: _row(part, sent, score, varied, aimed) for who, part in runs.items()}
    rows = []
    for group in groups([row for row in made.values() if row is not None]).values():
        way = direction(group)
        if way:
            rows += [{**row, "front": int(on_front(row, group, way))} for row in group]
        elif aimed:
            rows += group
    return rows


def groups(rows: Sequence[Record]) -> dict[str, list[Record]]:
    """Rows by what varies beside codecs."""
    codecs = codec_axes(str(row.get("variant") or "") for row in rows)
    parted: dict[str, list[Record]] = {}
    for row in rows:
        parts = top_level(str(row.get("variant") or "")) if row.get("variant") else []
        rest = [part.strip() for part in parts if part.partition("=")[0].strip() not in codecs]
        parted.setdefault(", ".join(rest), []).append(row)
    return parted


def name_of(row: Record, rows: Sequence[Record], scenario: Mapping[str, Any] | None = None) -> str:
    """What a row is called among those of its group: its method, its codecs, or both, as far as these differ."""
    codecs, methods = codec_axes(str(one.get("variant") or "") for one in rows), {one["method"] for one in rows}
    parts = top_level(str(row["variant"])) if row.get("variant") and codecs else []
    named = [variation(part.strip(), scenario) for part in parts if part.partition("=")[0].strip() in codecs]
    return ", ".join([*([row["method"]] if len(methods) > 1 or not named else []), *named])


def compares_codecs(scenario: Mapping[str, Any] | None) -> bool:
    """Whether codecs are what a comparison is about: they vary, or methods differ in them.

    >>> compares_codecs({"compare": {"methods": [{"method": "fedavg", "set": {"wire": [{"kind": "top_k", "k": 5}]}}]}})
    True
    """
    compare = (scenario or {}).get("compare") or {}
    methods = [method for method in compare.get("methods") or [] if isinstance(method, Mapping)]
    changes = [*(compare.get("vary") or {}).items()]
    changes += [(path, [value]) for method in methods for path, value in (method.get("set") or {}).items()]
    return bool(codec_axes(f"{path}={text_of(value)}" for path, values in changes for value in values))


def direction(rows: Sequence[Record]) -> str:
    """The way in which rows differ in bytes per client and round: `up`, `down` or `both`; empty where they do not."""
    differing = [way for way, name in (("up", UP), ("down", DOWN)) if len({row[name] for row in rows}) > 1]
    return "both" if len(differing) == 2 else "".join(differing)


def cost(row: Record, way: str) -> float:
    """Bytes per client and round of a row, in the direction that counts."""
    return sum(row[name] for name, ways in ((UP, ("up", "both")), (DOWN, ("down", "both"))) if way in ways)


def on_front(row: Record, rows: Sequence[Record], way: str) -> bool:
    """Whether no other row is at least as good in score and in bytes, and better in one of them."""
    sign = 1 if larger_is_better(row["metric"]) else -1
    value, bytes_sent = sign * row["mean"], cost(row, way)
    pairs = [(sign * other["mean"], cost(other, way)) for other in rows]
    return not any(s >= value and b <= bytes_sent and (s > value or b < bytes_sent) for s, b in pairs)


def front_of(rows: Sequence[Record], way: str) -> list[tuple[Record, float]]:
    """The rows of the front with their bytes per client and round, those that send least first."""
    return sorted(((row, cost(row, way)) for row in rows if row.get("front")), key=lambda pair: pair[1])


def ordered(rows: Sequence[Record], way: str) -> list[Record]:
    """Rows of the front, then the others, and among each those that send most first; the best first where all send the same."""
    sign = -1 if larger_is_better(str(rows[0]["metric"])) else 1
    place = lambda row: (not row.get("front"), -cost(row, way), sign * row["mean"])
    return sorted(rows, key=place)


def traffic_lines(
    rows: Sequence[Record],
    summary: Sequence[Record],
    baseline: str,
    score: str,
    scenario: Mapping[str, Any] | None = None,
) -> list[str]:
    """The rows of `bytes.csv` in sentences: how much can be saved at the baseline's score, and who needs least to the target.

    Args:
      rows: of `bytes.csv`.
      summary: rows of `summary.csv`.
      baseline: label of the method that the others are compared with.
      score: `final`, `best` or `mean_last_k`.
      scenario: as in `run.json`, for the names of what varies.
    """
    runs, lines = _runs(summary), []
    for rest, group in groups(rows).items():
        way, start = direction(group), f"With {variation(rest, scenario)}: " if rest else ""
        if not way or len(group) < 2:
            continue
        reference = reference_of(group, baseline, way)
        name = partial(name_of, rows=group, scenario=scenario)
        scores = {id(row): seed_scores(runs[_who(row)], score) for row in group}
        sentences = [_saved(group, reference, way, name, scores), *_soonest(group, reference, name)]
        lines += [_behind(start, line) for line in sentences]
    return lines


def _behind(start: str, line: str) -> str:
    """A sentence behind what it holds for; a name that it begins with stays as it is."""
    return f"{start}{line[0].lower()}{line[1:]}" if start and line.startswith(("None ", "To ")) else start + line


def reference_of(rows: Sequence[Record], baseline: str, way: str) -> Record:
    """The row that the others are measured by: of those of the baseline the one that sends most."""
    candidates = [row for row in rows if row["method"] == baseline] or list(rows)
    return max(candidates, key=lambda row: cost(row, way))


def _saved(rows: Sequence[Record], reference: Record, way: str, name: Any, scores: Mapping[int, Any]) -> str:
    """The row that sends least among those that keep the reference's score, in a sentence.

    That is: its mean is not worse than the interval of the reference's, and the interval of their paired difference does
    not leave out 0 on the worse side.
    """
    metric, rising = str(reference["metric"]).replace("_", " "), larger_is_better(str(reference["metric"]))
    base, level = scores[id(reference)], []
    text = lambda value: f"{value:.3f}" if is_share(str(reference["metric"])) else f"{value:.3g}"
    cheaper = [row for row in rows if cost(row, way) < cost(reference, way)]
    for row in cheaper:
        shared = sorted(scores[id(row)].keys() & base.keys())
        if not shared:
            continue
        one, other = (np.array([part[seed] for seed in shared]) for part in (scores[id(row)], base))
        tests = paired(one, other, rising)
        if tests.ci_low is None or tests.ci_high is None or reference["ci_low"] is None:
            continue
        high, room = (tests.ci_high, row["mean"] - reference["ci_low"])
        if not rising:
            high, room = -tests.ci_low, reference["ci_high"] - row["mean"]
        if high >= 0 and room >= 0:
            level.append((row, tests))
    if not level:
        few = f"None of the {len(cheaper)} that send" if len(cheaper) > 1 else "None that sends"
        return f"{few} fewer {WORDS[way]} than {name(reference)} keeps its {metric}, {text(reference['mean'])}."
    row, tests = min(level, key=lambda one: cost(one[0], way))
    interval_text = f"{tests.difference:+.3g}, 95 % {tests.ci_low:+.3g} to {tests.ci_high:+.3g}"
    return (
        f"{name(row)} sends {_times(reference, row, way)} times fewer {WORDS[way]} than {name(reference)} "
        f"at {metric} {text(row['mean'])} against {text(reference['mean'])} ({interval_text})."
    )


def _times(more: Record, less: Record, way: str) -> str:
    """How many times as much one row sends as another; where both ways count, each of them as well."""
    ratio = lambda one: f"{cost(more, one) / cost(less, one):.3g}" if cost(less, one) else "without bound"
    return f"{ratio(way)} (up {ratio('up')}, down {ratio('down')})" if way == "both" else ratio(way)


def _soonest(rows: Sequence[Record], reference: Record, name: Any) -> list[str]:
    """Which row reaches the target with the fewest bytes in the median."""
    known = [row for row in rows if row.get("bytes_to_target") is not None]
    first = min(known, key=lambda row: row["bytes_to_target"], default=None)
    if first is None or not math.isfinite(first["bytes_to_target"]):
        return []
    least = f"{_amount(first['bytes_to_target'])}{_ends(first)}"
    if first is reference:
        return [f"To the target none takes fewer bytes than {name(first)}: {least} in the median."]
    other = reference["bytes_to_target"]
    against = f"{_amount(other)}{_ends(reference)}" if math.isfinite(other) else f"reached by {reference['reached']}"
    return [f"To the target {name(first)} takes fewest bytes, {least} in the median; {name(reference)}: {against}."]


def _ends(row: Record) -> str:
    low, high = row["target_low"], row["target_high"]
    if low is None:
        return ""
    ends = f"{_amount(low)} to {_amount(high)}" if math.isfinite(high) else f"from {_amount(low)} on"
    return f" (95 % {ends})"


def _amount(count: float) -> str:
    """Bytes as megabytes."""
    return f"{count / 1e6:.3g} MB" if math.isfinite(count) else "without bound"


def _runs(summary: Sequence[Record]) -> Runs:
    runs: Runs = {}
    for run in summary:
        if run.get("status") != "failed":
            runs.setdefault(_who(run), []).append(run)
    return runs


def _who(row: Record) -> tuple[str, str]:
    return row["method"], row.get("variant") or ""


def _sent(rounds: Iterable[Record]) -> dict[tuple, Record]:
    """Bytes of every run to its end, and its messages."""
    sent: dict[tuple, Record] = {}
    for row in rounds:
        key = (*_who(row), row["seed"])
        messages = sent[key]["messages"] if key in sent else 0
        sent[key] = {
            "up": row.get("bytes_up"),
            "down": row.get("bytes_down"),
            "messages": messages + (row.get("clients_sampled") or 0),
        }
    return sent


def _row(
    runs: Sequence[Record], sent: Mapping[tuple, Record], score: str, varied: Sequence[str], aimed: bool
) -> Record | None:
    """One method under one variation; None where nothing of it was sent or scored."""
    counted = [part for run in runs if (part := sent.get((*_who(run), run["seed"]))) and part["messages"]]
    values = np.array(list(seed_scores(runs, score).values()))
    if not counted or not len(values):
        return None
    low, high = interval(values) or (None, None)
    mean = lambda numbers: float(np.mean([float(number) for number in numbers]))
    row = {name: runs[0][name] for name in ("method", "variant", *varied) if name in runs[0]}
    row |= {"metric": next(str(run["metric"]) for run in runs), "score": score, "seeds": len(values)}
    row |= {"mean": float(values.mean()), "ci_low": low, "ci_high": high}
    row |= {f"bytes_{way}": mean(part[way] for part in counted) for way in ("up", "down")}
    row |= {name: mean(part[way] / part["messages"] for part in counted) for way, name in (("up", UP), ("down", DOWN))}
    return {**row, **_to_target(runs)} if aimed else row


def _to_target(runs: Sequence[Record]) -> Record:
    """Runs that reached the target, and the median bytes by then; a run that did not counts as ∞."""
    arrived = [run["bytes_to_target"] for run in runs if run.get("bytes_to_target") is not None]
    median, low, high = median_interval([*arrived, *[math.inf] * (len(runs) - len(arrived))])
    return {"reached": len(arrived), "bytes_to_target": median, "target_low": low, "target_high": high}
