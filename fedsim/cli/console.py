"""What a terminal shows: progress on stderr, the table on stdout."""

import contextlib
import math
import statistics
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedsim.build import Experiment
from fedsim.disk.tables import Record
from fedsim.engine.run import Row
from fedsim.runs.comparison import Comparison
from fedsim.runs.result import Result
from fedsim.scenario import Scenario
from fedsim.study.pairing import larger_is_better

SHOWN = {"train_loss": "train loss", "test_loss": "test loss", "test_accuracy": "accuracy"}  # beside the bar


class Bar:
    """What `fedsim.run` and `fedsim.compare` call as their `watch`: a bar over all rounds of all runs.

    It only shows rows that are there anyway, and never makes the device wait.

    Args:
      progress: rich's, on stderr.
      scenario: whose rounds are counted.
    """

    def __init__(self, progress: Progress, scenario: Scenario):
        self.progress, self.spec = progress, scenario.spec
        self.rounds, self.over = max(self.spec.rounds, 1), 0
        self.runs, self.at = len(self.spec.seeds), dict[tuple[int, int], int]()  # rounds of the runs that go on
        self.task = progress.add_task(self.spec.name, total=self.rounds * self.runs, said="compiling")

    def begin(self, runs: int) -> None:
        """There are so many runs."""
        self.runs = runs
        self.progress.update(self.task, total=self.rounds * runs)

    def ended(self, runs: int) -> None:
        """So many runs more are over, wherever they ran."""
        self.over += runs
        self.progress.update(self.task, completed=self.rounds * self.over, said=f"run {self.over} of {self.runs}")

    def __call__(self, experiment: Experiment, seed: int, row: Row) -> None:
        v, t = row.values, row.timing
        working = max(t["wall_seconds"] - t["compile_seconds"], 1e-9)
        self.at[id(experiment), seed] = v["round"]
        several = [f"{_numbered(self.over, len(self.at))} of {self.runs}"] if self.runs > 1 else []
        said = [*several, f"{v['round'] / working:.1f} rounds/s"]
        said += [f"{words} {v[name]:.4f}" for name, words in SHOWN.items() if v.get(name) is not None]
        said += [f"compiled in {t['compile_seconds']:.1f} s"]
        completed = self.rounds * self.over + sum(self.at.values())
        self.progress.update(self.task, completed=completed, said="  ".join(said) if v["round"] else "compiling")
        if row.status != "running":
            self.over += 1
            del self.at[id(experiment), seed]


def _numbered(over: int, going: int) -> str:
    """Which runs are going on.

    >>> _numbered(3, 1), _numbered(3, 5)
    ('run 4', 'runs 4 to 8')
    """
    return f"run {over + 1}" if going == 1 else f"runs {over + 1} to {over + going}"


@contextlib.contextmanager
def progress(scenario: Scenario, quiet: bool) -> Iterator[Bar | None]:
    """A bar on stderr, where that is a terminal and nobody asked for quiet."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[said]}"))
    with Progress(*parts, TimeRemainingColumn(), console=console, transient=True) as bar:
        yield Bar(bar, scenario)


@contextlib.contextmanager
def saying(wanted: bool):
    """A line on stderr that says what is being done, where there is somebody to read it -> how to change it."""
    console = Console(stderr=True)
    if not (wanted and console.is_terminal):
        yield lambda text: None
        return
    with console.status("") as status:
        yield status.update


def table(result: Result, out: Path) -> None:
    """The summary of every seed, and where the files are."""
    view = Table(box=None, header_style="bold", pad_edge=False)
    summary = result.records["summary"]
    names = [
        "method",
        "seed",
        "rounds",
        "metric",
        "final",
        "best",
        f"mean of last {summary[0]['k']}",
        "MB up",
        "MB down",
    ]
    for name in names:
        view.add_column(name, justify="left" if name in ("method", "metric") else "right", no_wrap=True)
    for line in summary:
        last = [r for r in result.records["rounds"] if r["seed"] == line["seed"]][-1]
        numbers = [_number(line[name]) for name in ("final", "best", "mean_last_k")]
        bytes_ = [f"{last[name] / 1e6:.2f}" for name in ("bytes_up", "bytes_down")]
        view.add_row(line["method"], str(line["seed"]), str(last["round"]), line["metric"], *numbers, *bytes_)
    Console(width=max(Console().width, 100)).print(view)  # a narrow terminal wraps, nothing is cut
    print(f"\n{out}/  report.html  rounds.csv  clients.csv  partition.csv  summary.csv  timing.csv")


def verdict(found: Comparison, out: Path) -> None:
    """The verdict in words, then a line per method, and where the files are."""
    for line in found.verdict:
        print(line)
    print()
    table = found.records["compare"]
    summary: dict[tuple[str, str], list[Record]] = {}
    for row in found.records["summary"]:
        summary.setdefault((row.get("variant", ""), row["method"]), []).append(row)
    view = Table(box=None, header_style="bold", pad_edge=False)
    varied = ["variant"] if found.varied else []
    metric = next((row["metric"] for row in found.records["summary"] if row.get("metric")), "")
    names = ["method", *varied, "runs", f"{found.score} {metric}", "sd", "difference", "95 %", "p (Holm)", "better in"]
    for name in names:
        view.add_column(name, justify="left" if name in ("method", "variant") else "right", no_wrap=True)
    against = {(row.get("variant", ""), row["method"]): row for row in table}
    for variant, method in sorted(summary, key=lambda who: _place(who, summary, against, found)):
        rows, said = summary[variant, method], against.get((variant, method))
        view.add_row(method, *([variant] if varied else []), *_scores(rows, found.score), *_against(said))
    Console(width=max(Console().width, 150)).print(view)
    print(f"\n{out}/  report.html  compare.csv  summary.csv  rounds.csv")


def _place(who: tuple[str, str], summary: dict, against: dict, found: Comparison) -> tuple:
    """Variations as they were written; in each the baseline first, then the best one; what has no score last."""
    variants = list(dict.fromkeys(o.cell.variant for o in found.outcomes))
    values = [row[found.score] for row in summary[who] if row.get(found.score) is not None]
    mean = statistics.fmean(values) if values else -math.inf
    better = larger_is_better(next((row["metric"] for row in found.records["summary"] if row.get("metric")), ""))
    return variants.index(who[0]), who in against, not values, -mean if better else mean


def _scores(rows: list[Record], score: str) -> tuple[str, str, str]:
    """Runs, mean and standard deviation of what they reached; nothing is left out."""
    values = [row[score] for row in rows if row.get(score) is not None]
    bad = sum(bool(row.get("diverged")) or row.get("status") == "failed" for row in rows)
    runs = f"{len(rows)}, {bad} bad" if bad else str(len(rows))
    spread = f"{statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return runs, f"{statistics.fmean(values):.4f}" if values else "", spread


def _against(row: Record | None) -> tuple[str, str, str, str]:
    """A method's differences to the baseline; nothing for the baseline itself."""
    if row is None:
        return "baseline", "", "", ""
    interval = "" if row["ci_low"] is None else f"{row['ci_low']:+.4f} to {row['ci_high']:+.4f}"
    better = "" if row["probability_of_improvement"] is None else f"{row['probability_of_improvement']:.0%}"
    difference = "" if row["difference"] is None else f"{row['difference']:+.4f}"
    return difference, interval, "" if row["p_adjusted"] is None else f"{row['p_adjusted']:.3g}", better


def bench_table(records: list[Record]) -> None:
    """Workloads and the ways they were run."""
    view = Table(box=None, header_style="bold", pad_edge=False)
    shown = {
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
    for title, _ in shown.values():
        view.add_column(title, justify="left" if title in ("workload", "how") else "right", no_wrap=True)
    for record in records:
        view.add_row(*(form(record[name]) if record.get(name) is not None else "" for name, (_, form) in shown.items()))
    Console(width=max(Console().width, 150)).print(view)


def forecast(told: Record) -> None:
    """What a run will take, a line each."""
    mega = lambda n: f"{n / 1e6:,.1f} MB"
    parts = ", ".join(f"{name.replace('_', ' ')} {n / 1e6:,.0f}" for name, n in told["memory"].items() if n >= 5e5)
    whole = f"held together until the round's end, for {', '.join(told['stacked_by'])}"
    stacked = whole if told["stacked"] else "folded block by block"
    lines = {
        "clients": f"{told['clients']:,} with {told['samples']:,} samples, {told['clients_a_round']:,.6g} a round",
        "parameters": f"{told['parameters']:,}",
        "local steps": f"{told['steps_a_round']:,.0f} a round, at most {told['longest_client_steps']:,} of one client",
        "traffic": f"{mega(told['bytes_up_a_round'])} up and {mega(told['bytes_down_a_round'])} down a round",
        "messages": stacked,
        "lanes": f"{told['lanes']} to a crew, {told['crews']} crews, blocks of {told['block']:,} clients",
        "memory": f"{mega(told['peak_bytes'])} at most ({parts})",
        "first batch": ", ".join(f"{name.replace('_', ' ')} {n:.4g}" for name, n in told["batch"].items()),
    }
    print(f"{told['scenario']}: in order")
    for name, text in lines.items():
        print(f"  {name:<12} {text}")
    for note in told["notes"]:
        print(f"  note         {note}")


def examination(found: Record) -> None:
    """What a run would use here, a line each; then what is wrong, or that nothing is."""
    for heading, lines in found.items():
        if isinstance(lines, dict):
            print(heading)
            for name, value in lines.items():
                print(f"  {name:<14} {', '.join(map(str, value)) if isinstance(value, list) else value}")
    for problem in found["problems"]:
        print(f"problem: {problem}")
    if not found["problems"]:
        print("no problems found")


def _milli(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
