"""The terminal: results on stdout."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedsim.disk.tables import Record
from fedsim.report.results import amount, metric_of, results
from fedsim.runs.comparison import Comparison
from fedsim.runs.result import OPTIONAL, ORDER, Result
from fedsim.study.words import variation


@contextlib.contextmanager
def status_line(wanted: bool) -> Iterator[Callable[[str], None]]:
    """A line on stderr about the work in progress, where there is somebody to read it -> how to change it."""
    console = Console(stderr=True)
    if not (wanted and console.is_terminal):
        yield lambda text: None
        return
    with console.status("") as status:
        yield status.update


def table(result: Result, out: Path) -> None:
    """The summary of every seed, and where the files are."""
    summary = result.records["summary"]
    scores = ("final", "best", f"mean of last {summary[0]['k']}")
    view = _table(
        ["method", "seed", "rounds", "metric", *scores, "MB up", "MB down"],
        left=("method", "metric"),
    )
    for row in summary:
        last = [r for r in result.records["rounds"] if r["seed"] == row["seed"]][-1]
        numbers = [
            "" if row[name] is None else f"{row[name]:.4f}"
            for name in ("final", "best", "mean_last_k")
        ]
        megabytes = [f"{last[name] / 1e6:.2f}" for name in ("bytes_up", "bytes_down")]
        view.add_row(
            row["method"], str(row["seed"]), str(last["round"]), row["metric"], *numbers, *megabytes
        )
    _print(view, 100)
    tables = [f"{name}.csv" for name in ORDER if result.records[name] or name not in OPTIONAL]
    print("  ".join([f"\n{out}/", "report.html", *tables]))


def verdict(comparison: Comparison, out: Path) -> None:
    """The headline, a line per method, the verdict in words, and where the files are."""
    headline, *lines = comparison.verdict
    print(f"{headline}\n")
    summary, compare = comparison.records["summary"], comparison.records["compare"]
    variants = list(
        dict.fromkeys(outcome.cell.who.get("variant") for outcome in comparison.outcomes)
    )
    varied = ["variant"] if comparison.varied else []
    names = [
        "method",
        *varied,
        "runs",
        "score",
        "sd",
        "difference",
        "95 %",
        "p (Holm)",
        "better in",
        "verdict",
    ]
    titles = {"score": f"{comparison.score} {metric_of(summary)}"}
    view = _table([titles.get(name, name) for name in names], left=("method", "variant", "verdict"))
    for row in results(summary, compare, comparison.score, variants, comparison.standings):
        row["variant"] = (variation(str(row.get("variant", ("",))[0]), comparison.scenario), "")
        view.add_row(*(row.get(name, ("",))[0] for name in names))
    _print(view, 150)
    print()
    for line in lines:
        print(line)
    print(f"\n{out}/  report.html  compare.csv  summary.csv  rounds.csv")


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
        "message_bytes": ("a message", amount),
    }
    columns = {
        name: column
        for name, column in columns.items()
        if any(name in record for record in records)
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
    parts = ", ".join(
        f"{name.replace('_', ' ')} {n / 1e6:,.0f}" for name, n in e["memory"].items() if n >= 5e5
    )
    of_server = f", and {e['server_steps']:,} of the server" if e["server_steps"] else ""
    together = f"held together until the round's end, for {', '.join(e['stacked_by'])}"
    lines = {
        "clients": f"{e['clients']:,} with {e['samples']:,} samples, {e['clients_a_round']:,.6g} a round",
        "parameters": f"{e['parameters']:,}",
        "local steps": f"{e['steps_a_round']:,.0f} a round, at most {e['longest_client_steps']:,} of one client{of_server}",
        "traffic": f"{amount(e['bytes_up_a_round'])} up and {amount(e['bytes_down_a_round'])} down a round",
        "messages": together if e["stacked"] else "folded block by block",
        "lanes": f"{e['lanes']} to a shard, {e['shards']} shards, blocks of {e['block']:,} clients",
        "memory": f"{mega(e['peak_bytes'])} at most ({parts})",
        "first batch": ", ".join(
            f"{name.replace('_', ' ')} {n:.4g}" for name, n in e["batch"].items()
        ),
    }
    print(f"{e['scenario']}: in order")
    for name, text in lines.items():
        print(f"  {name:<12} {text}")
    if "comparison" in e:
        print(f"  {'comparison':<12} {_of_cells(e['comparison'])}")
    for note in e["notes"]:
        print(f"  note         {note}")


def _of_cells(tried: Record) -> str:
    """How many cells of a comparison were tried, and what it costs."""
    cells = f"{tried['cells']:,} cells in order, {tried['built']:,} of them built as a whole"
    if tried["checked"] < tried["cells"]:
        others = "the others were read and not built, and do not count here"
        cells = f"{tried['checked']:,} of {tried['cells']:,} cells in order; {others}"
    traffic = f"{amount(tried['bytes_up'])} up and {amount(tried['bytes_down'])} down at most"
    return f"{cells}; {tried['runs']:,} runs, {tried['local_steps']:,.0f} local steps, {traffic}"


def _table(names: list[str], left: tuple[str, ...]) -> Table:
    """An empty table; columns of numbers stand on the right."""
    view = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        view.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return view


def _print(view: Table, width: int) -> None:
    """A table at least so wide, and wide enough for all of it: a narrow terminal wraps it, and nothing is cut."""
    needed = Console(width=10_000).measure(view).maximum
    Console(width=max(Console().width, width, needed)).print(view)


def _milli(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"
