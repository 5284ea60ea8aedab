"""Results on stdout: tables for people."""

import math
import statistics
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedsim.disk.tables import Record
from fedsim.runs.comparison import Comparison
from fedsim.runs.result import Result
from fedsim.study.summary import larger_is_better


def table(result: Result, out: Path) -> None:
    """The summary of every seed, and where the files are."""
    summary = result.records["summary"]
    scores = ("final", "best", f"mean of last {summary[0]['k']}")
    view = _table(["method", "seed", "rounds", "metric", *scores, "MB up", "MB down"], left=("method", "metric"))
    for row in summary:
        last = [r for r in result.records["rounds"] if r["seed"] == row["seed"]][-1]
        numbers = ["" if row[name] is None else f"{row[name]:.4f}" for name in ("final", "best", "mean_last_k")]
        megabytes = [f"{last[name] / 1e6:.2f}" for name in ("bytes_up", "bytes_down")]
        view.add_row(row["method"], str(row["seed"]), str(last["round"]), row["metric"], *numbers, *megabytes)
    _print(view, 100)
    print(f"\n{out}/  report.html  rounds.csv  clients.csv  partition.csv  summary.csv  timing.csv")


def verdict(comparison: Comparison, out: Path) -> None:
    """The verdict in words, then a line per method, and where the files are."""
    for line in comparison.verdict:
        print(line)
    print()
    summary: dict[tuple[str, str], list[Record]] = {}
    for row in comparison.records["summary"]:
        summary.setdefault((row.get("variant", ""), row["method"]), []).append(row)
    differences = {(row.get("variant", ""), row["method"]): row for row in comparison.records["compare"]}
    varied = ["variant"] if comparison.varied else []
    scores = (f"{comparison.score} {_metric(comparison)}", "sd")
    names = ["method", *varied, "runs", *scores, "difference", "95 %", "p (Holm)", "better in"]
    view = _table(names, left=("method", "variant"))
    for key in sorted(summary, key=lambda key: _place(key, summary[key], key in differences, comparison)):
        variant, method = key
        cells = (*_scores(summary[key], comparison.score), *_difference(differences.get(key)))
        view.add_row(method, *([variant] if varied else []), *cells)
    _print(view, 150)
    print(f"\n{out}/  report.html  compare.csv  summary.csv  rounds.csv")


def _metric(comparison: Comparison) -> str:
    return next((row["metric"] for row in comparison.records["summary"] if row.get("metric")), "")


def _place(key: tuple[str, str], rows: list[Record], compared: bool, comparison: Comparison) -> tuple:
    """Variations as they were written; in each the baseline first, then the best one; last those without a score."""
    variants = list(dict.fromkeys(outcome.cell.variant for outcome in comparison.outcomes))
    values = [row[comparison.score] for row in rows if row.get(comparison.score) is not None]
    mean = statistics.fmean(values) if values else -math.inf
    better = larger_is_better(_metric(comparison))
    return variants.index(key[0]), compared, not values, -mean if better else mean


def _scores(rows: list[Record], score: str) -> tuple[str, str, str]:
    """Runs, mean and standard deviation of their scores; nothing is left out."""
    values = [row[score] for row in rows if row.get(score) is not None]
    bad = sum(bool(row.get("diverged")) or row.get("status") == "failed" for row in rows)
    runs = f"{len(rows)}, {bad} bad" if bad else str(len(rows))
    spread = f"{statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return runs, f"{statistics.fmean(values):.4f}" if values else "", spread


def _difference(row: Record | None) -> tuple[str, str, str, str]:
    """A method's differences to the baseline; nothing for the baseline itself."""
    if row is None:
        return "baseline", "", "", ""
    interval = "" if row["ci_low"] is None else f"{row['ci_low']:+.4f} to {row['ci_high']:+.4f}"
    better = "" if row["probability_of_improvement"] is None else f"{row['probability_of_improvement']:.0%}"
    difference = "" if row["difference"] is None else f"{row['difference']:+.4f}"
    return difference, interval, "" if row["p_adjusted"] is None else f"{row['p_adjusted']:.3g}", better


def bench_table(records: list[Record]) -> None:
    """Workloads and the ways they were run."""
    columns = {
        "workload": ("workload", str),
        "how": ("how", str),
        "seconds": ("ms a round", _milli),
        "least": ("least", _milli),
        "most": ("most", _milli),
        "times_lanes": ("× lanes", lambda v: f"{v:.2f}"),
        "steps_per_second": ("steps/s", lambda v: f"{v:,.0f}"),
        "gflops": ("GFLOP/s", lambda v: f"{v:.1f}"),
        "share_of_peak": ("of peak", lambda v: f"{v:.0%}"),
        "lane_efficiency": ("lanes busy", lambda v: f"{v:.2f}"),
        "compile_seconds": ("compile s", lambda v: f"{v:.1f}"),
        "plan_seconds": ("plan ms", _milli),
        "evaluation_seconds": ("test ms", _milli),
        "peak_bytes": ("peak MB", lambda v: f"{v / 1e6:,.0f}"),
    }
    view = _table([title for title, _ in columns.values()], left=("workload", "how"))
    for record in records:
        known = ((form, record.get(name)) for name, (_, form) in columns.items())
        view.add_row(*("" if value is None else form(value) for form, value in known))
    _print(view, 150)


def forecast(expected: Record) -> None:
    """The expected costs of a run, a line each."""
    mega = lambda n: f"{n / 1e6:,.1f} MB"
    e = expected
    parts = ", ".join(f"{name.replace('_', ' ')} {n / 1e6:,.0f}" for name, n in e["memory"].items() if n >= 5e5)
    together = f"held together until the round's end, for {', '.join(e['stacked_by'])}"
    lines = {
        "clients": f"{e['clients']:,} with {e['samples']:,} samples, {e['clients_a_round']:,.6g} a round",
        "parameters": f"{e['parameters']:,}",
        "local steps": f"{e['steps_a_round']:,.0f} a round, at most {e['longest_client_steps']:,} of one client",
        "traffic": f"{mega(e['bytes_up_a_round'])} up and {mega(e['bytes_down_a_round'])} down a round",
        "messages": together if e["stacked"] else "folded block by block",
        "lanes": f"{e['lanes']} to a shard, {e['shards']} shards, blocks of {e['block']:,} clients",
        "memory": f"{mega(e['peak_bytes'])} at most ({parts})",
        "first batch": ", ".join(f"{name.replace('_', ' ')} {n:.4g}" for name, n in e["batch"].items()),
    }
    print(f"{e['scenario']}: in order")
    for name, text in lines.items():
        print(f"  {name:<12} {text}")
    for note in e["notes"]:
        print(f"  note         {note}")


def examination(findings: Record) -> None:
    """The environment of a run, a line each; then the problems, or that there are none."""
    for heading, lines in findings.items():
        if isinstance(lines, dict):
            print(heading)
            for name, value in lines.items():
                print(f"  {name:<14} {', '.join(map(str, value)) if isinstance(value, list) else value}")
    for problem in findings["problems"]:
        print(f"problem: {problem}")
    if not findings["problems"]:
        print("no problems found")


def _table(names: list[str], left: tuple[str, ...]) -> Table:
    """An empty table; columns of numbers stand on the right."""
    view = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        view.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return view


def _print(view: Table, width: int) -> None:
    """A table at least so wide: a narrow terminal wraps it, and nothing is cut."""
    Console(width=max(Console().width, width)).print(view)


def _milli(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"
