"""The terminal: results on stdout."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from fedsim.cli.screen import rows_of_terms, wrapped
from fedsim.cli.tables import empty_table, print_table
from fedsim.disk.tables import Record
from fedsim.installed import modules_with
from fedsim.report.mark import marks_of_fields
from fedsim.report.results import amount, metric_of, results, score_text
from fedsim.runs.comparison import Comparison
from fedsim.runs.result import OPTIONAL_TABLES, TABLE_COLUMNS, Result
from fedsim.study.outside import remark
from fedsim.study.summary import findings_of_fields, in_words, two_halves
from fedsim.study.words import seconds_in_words, words_of
from fedsim.study.wrap_lines import wrap_lines

if TYPE_CHECKING:
    from pandas import DataFrame


@contextlib.contextmanager
def status_line(wanted: bool) -> Iterator[Callable[[str], None]]:
    """Show a line about the work in progress on stderr, if that is a terminal -> what sets it."""
    console = Console(stderr=True)
    if not wanted or not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as status:
        yield status.update


# Columns of a comparison.
COLUMNS = (
    "method", "runs", "score", "sd", "difference", "95 %", "p (Holm)", "better in", "verdict",
)  # fmt: skip
# Columns that a narrow terminal does without, the first ones first.
LESS_OF_RUNS = ("MB down", "MB up")
LESS_OF_METHODS = ("better in", "sd", "runs", "p (Holm)", "95 %", "difference")

# Value of a run that is compared -> in front of the metric's name in the title of its column.
SCORE_TITLES = {"final": "", "best": "best", "mean_last_k": "mean of last", "own": "own"}

PARAMETERS = ("trained", "frozen", "sent")  # what `fedsim check` says of the model's numbers


def table(result: Result, out: Path) -> None:
    """Print the summary of every seed, and where the files are."""
    summary = result.records["summary"]
    scores = ("final", "best", f"mean of last {summary[0]['k']}")
    titles = ["method", "seed", "rounds", "metric", *scores, "MB up", "MB down"]
    view = empty_table(titles, left=("method", "metric"))
    for row in summary:
        last = [r for r in result.records["rounds"] if r["seed"] == row["seed"]][-1]
        view.add_row(
            row["method"],
            str(row["seed"]),
            str(last["round"]),
            row["metric"] or "",
            score_text(row["final"]),
            score_text(row["best"]),
            score_text(row["mean_last_k"]),
            _megabytes(last["bytes_up"]),
            _megabytes(last["bytes_down"]),
        )
    print_table(view, [*LESS_OF_RUNS, scores[-1]])
    texts = [
        remark(summary),
        two_halves(metric_of(summary)),
        *findings_of_fields(summary),
        *wrap_lines(result.records["rounds"]),
    ]
    for text in filter(None, texts):
        print(f"\n{wrapped(text)}")
    _print_marks(result.rounds, result.scenario)
    tables = [
        f"{name}.csv"
        for name in TABLE_COLUMNS
        if result.records[name] or name not in OPTIONAL_TABLES
    ]
    _print_files(out, ["report.html", *tables])


def _print_marks(rounds: "DataFrame", scenario: dict[str, Any]) -> None:
    """Print what fields say of runs; nothing where no round ended."""
    if not rounds.empty:
        for mark in marks_of_fields(rounds, scenario):
            print(f"\n{wrapped(mark)}")


def _megabytes(size: int | None) -> str:
    """Megabytes with two decimals, or with two significant digits where those would be zeros."""
    if size is None:
        return ""
    megabytes = size / 1e6
    return f"{megabytes:.2f}" if megabytes >= 0.1 else f"{megabytes:.2g}"


def verdict(comparison: Comparison, out: Path) -> None:
    """Print the headline, a line per method, the verdict in words, and where the files are."""
    headline, *sentences = comparison.verdict
    summary = comparison.records["summary"]
    variants = [outcome.cell.key_columns.get("variant") for outcome in comparison.outcomes]
    rows = results(
        summary,
        comparison.records["compare"],
        comparison.score,
        list(dict.fromkeys(variants)),
        comparison.standings,
    )

    score = f"{SCORE_TITLES[comparison.score]} {in_words(metric_of(summary))}".strip()
    titles = [score if name == "score" else name for name in COLUMNS]
    words = words_of(comparison.scenario)
    view = empty_table(titles, left=("method", "verdict"), folded=("verdict",))
    indent = ""
    last_variation = ""
    for row in rows:
        texts = {name: text for name, (text, *_) in row.items()}
        variation = words(str(texts.get("variant", "")))
        if comparison.varied and variation != last_variation:
            view.add_row(f"{variation}:")
            last_variation = variation
            indent = "  "
        texts["method"] = indent + texts["method"]
        view.add_row(*(texts.get(name, "") for name in COLUMNS))

    print(f"{wrapped(headline)}\n")
    print_table(view, LESS_OF_METHODS)
    print()
    for sentence in [*sentences, *wrap_lines(comparison.records["rounds"])]:
        print(wrapped(sentence))
    _print_marks(comparison.rounds, comparison.scenario)
    _print_files(out, ["report.html", "compare.csv", "summary.csv", "rounds.csv"])


def _print_files(out: Path, names: list[str]) -> None:
    print(f"\n{wrapped('  '.join([f'{out}/', *names]), hanging='  ')}")


def forecast(expected: Record, verbose: bool = False) -> None:
    """Print a forecast, with what `check` adds to it, a line each."""
    traffic = _traffic(expected["bytes_up_a_round"], expected["bytes_down_a_round"])
    lines = {
        "clients": _clients(expected),
        "parameters": _parameters(expected),
        "local steps": _local_steps(expected),
        "traffic": f"{traffic} a round",
        "memory": f"{expected['peak_bytes'] / 1e6:,.1f} MB at most",
        "time": _time(expected),
        "first batch": _first_batch(expected),
    }
    if expected["parts"]:
        lines["parts"] = _parts(expected["parts"])
    if expected["graph"] is not None:
        lines["graph"] = graph(expected["graph"])
    if expected["updates_bytes"]:
        lines["updates"] = f"{amount(expected['updates_bytes'])} in files of the run directory"
    for module in modules_with("FORECAST"):
        lines |= module.lines(expected)
    if "comparison" in expected:
        lines["comparison"] = _cells(expected["comparison"], expected["step_seconds"])
    if verbose:
        lanes = f"{expected['lanes']} to a shard, {expected['shards']} shards"
        lines["lanes"] = f"{lanes}, blocks of {expected['block']:,} clients"
        lines["messages"] = _messages(expected)
        lines["memory"] += f" ({_purposes(expected['memory'])})"

    print(f"{expected['scenario']}: in order")
    terms = [*lines.items(), *(("note", note) for note in expected["notes"])]
    print(rows_of_terms(terms, column=12))


def _clients(expected: Record) -> str:
    samples = f"{expected['clients']:,} with {expected['samples']:,} samples"
    return f"{samples}, {expected['clients_a_round']:,.6g} a round"


def _parameters(expected: Record) -> str:
    text = f"{expected['parameters']:,}"
    if expected["parameters_frozen"]:
        numbers = [f"{expected[f'parameters_{kind}']:,} {kind}" for kind in PARAMETERS]
        text += f": {', '.join(numbers)}"
    if expected["parameters_merged"]:
        text += f"; the server moves {expected['parameters_merged']:,} of the frozen ones"
    return text


def _parts(parts: list[Record]) -> str:
    """Return how many clients have a part of each size, and the numbers of it that they train."""
    texts = []
    for part in parts:
        name, size = next(iter(part.items()))
        texts.append(f"{name} {size:.4g}: {part['clients']:,} clients, {part['trained']:,} trained")
    return "; ".join(texts)


def _local_steps(expected: Record) -> str:
    longest = f"at most {expected['longest_client_steps']:,} of one client"
    text = f"{expected['steps_a_round']:,.0f} a round, {longest}"
    if expected["server_steps"]:
        text += f", and {expected['server_steps']:,} of the server"
    return text


def _traffic(bytes_up: float, bytes_down: float) -> str:
    return f"{amount(bytes_up)} up and {amount(bytes_down)} down"


def _messages(expected: Record) -> str:
    if not expected["stacked"]:
        return "folded block by block"
    return f"held together until the round's end, for {', '.join(expected['stacked_by'])}"


def _purposes(memory: dict[str, float]) -> str:
    """Return what takes memory, in MB."""
    purposes: list[str] = []
    for name, size in memory.items():
        if size >= 5e5:
            purposes.append(f"{name.replace('_', ' ')} {size / 1e6:,.0f}")
    return ", ".join(purposes)


def _time(expected: Record) -> str:
    """Return how long local training takes at the pace of the step that was timed."""
    step = f"one local step took {1e3 * expected['step_seconds']:.2g} ms here"
    seconds = expected["training_seconds"]
    return f"{_about(seconds)} of local training: {step}; compiling and scoring are not included"


def _about(seconds: float) -> str:
    return f"about {seconds_in_words(seconds)}" if seconds >= 1 else "less than a second"


def _first_batch(expected: Record) -> str:
    values = [f"{name.replace('_', ' ')} {n:.4g}" for name, n in expected["batch"].items()]
    return ", ".join(values)


def graph(graph: Record) -> str:
    """Return the links of nodes without a server, and how fast they mix."""
    degrees = f"{graph['degree_min']:,}"
    if graph["degree_max"] > graph["degree_min"]:
        degrees += f" to {graph['degree_max']:,}"
    text = f"{graph['links']:,} connections, {degrees} to a client"
    return text if graph["gap"] is None else f"{text}, spectral gap {graph['gap']:.4g}"


def _cells(comparison: Record, step_seconds: float) -> str:
    """Return how many configurations of a comparison were tried, and what it costs."""
    if comparison["checked"] < comparison["cells"]:
        tried = f"{comparison['checked']:,} of {comparison['cells']:,} configurations in order; "
        tried += "the others were read but not built, and do not count here"
    else:
        tried = f"{comparison['cells']:,} configurations in order"
    seconds = step_seconds * comparison["local_steps"]
    runs = f"{comparison['runs']:,} runs with {_about(seconds)} of local training"
    traffic = _traffic(comparison["bytes_up"], comparison["bytes_down"])
    return f"{tried}; {runs}, {traffic} at most"
