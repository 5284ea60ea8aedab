"""`fedsim doctor --bench`."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli import options

if TYPE_CHECKING:
    from fedsim.disk.tables import Record
    from fedsim.tools.bench.peers import Peer


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"


# Name in a record of a benchmark -> (title of its column, format).
COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "workload": ("workload", str),
    "how": ("how", str),
    "version": ("version", str),
    "seconds": ("ms a round", _milliseconds),
    "least": ("least", _milliseconds),
    "most": ("most", _milliseconds),
    "times_lanes": ("× lanes", "{:.2f}".format),
    "steps_per_second": ("steps/s", "{:,.0f}".format),
    "gflops": ("GFLOP/s", "{:.1f}".format),
    "share_of_peak": ("of peak", "{:.0%}".format),
    "lane_efficiency": ("lanes busy", "{:.2f}".format),
    "compile_seconds": ("compile s", "{:.1f}".format),
    "plan_seconds": ("plan ms", _milliseconds),
    "evaluation_seconds": ("test ms", _milliseconds),
    "peak_bytes": ("peak MB", lambda size: f"{size / 1e6:,.0f}"),
    "final_accuracy": ("accuracy", "{:.4f}".format),
}


@click.command("bench")
@click.argument(
    "workloads",
    nargs=-1,
    metavar="[rules|SCENARIO]...",
    type=click.Path(dir_okay=False),
)
@options.edits
@click.option(
    "--peers",
    multiple=True,
    is_flag=False,
    flag_value="",
    metavar="[TOOL=PYTHON]",
    help="Also measure torch, flower and fedjax, in turn with ours. Each is looked for in "
    "this Python, or in the named one; repeatable.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Folder [reports/bench, whose records are replaced].",
)
@options.force
@options.as_json("the records")
@options.debug
def bench_command(
    workloads: tuple[str, ...],
    edits: tuple[str, ...],
    peers: tuple[str, ...],
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Measure rounds on this machine, next to its matrix-product peak and plain JAX.

    Without arguments: the three scenarios of scenarios/bench, and `rules`: fourteen rules on stacks
    of three sizes, beside the same in NumPy. scenarios/bench/networks has the networks that people
    use.

    With --peers, other libraries do the same work, each in a process of the Python that has it:
    torch the rules, and torch, flower and fedjax the rounds of a scenario whose model is logistic,
    mlp or cnn; torch and flower also those of lenet, resnet, char_lstm and transformer. What cannot
    be imported is named, with what to install.

    \b
    Examples:
      fedsim doctor --bench
      fedsim doctor --bench rules --peers
      fedsim doctor --bench rules \\
          --peers torch=~/torch/bin/python
      fedsim doctor \\
          --bench scenarios/bench/networks/resnet20.yaml \\
          --peers torch=~/torch/bin/python
      fedsim doctor --bench scenarios/bench/w2.yaml \\
          --set numerics.lanes=8
    """
    # Before NumPy is imported: its rules have a thread for each tile.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from fedsim.cli import console
    from fedsim.machine import compile_cache
    from fedsim.tools.bench.measure import measured

    folder = out or Path("reports/bench")
    with compile_cache(), console.status_line(not as_json) as say:
        found = _importable(workloads, peers) if peers else []
        records = measured(workloads, edits, folder, say, found, force or out is None)
    if as_json:
        click.echo(json.dumps(records))
    else:
        _print(records)
        click.echo(f"\n{folder}/  bench.csv  bench.json")


def _importable(workloads: tuple[str, ...], peers: tuple[str, ...]) -> list["Peer"]:
    """The peers that can be imported; the others are named on stderr."""
    from fedsim.tools.bench.peers import TOOLS, importable

    pythons = {}
    for text in filter(None, peers):
        tool, _, path = text.partition("=")
        if tool not in TOOLS:
            raise _bad_peers(f"{text}: not TOOL=PYTHON, where TOOL is one of {', '.join(TOOLS)}")
        python = shutil.which(Path(path).expanduser())
        if python is None:
            raise _bad_peers(f"{text}: {path or 'an empty path'} is not a program")
        pythons[tool] = str(Path(python).absolute())

    found, missing = importable(workloads, pythons)
    for tool, line in missing.items():
        if tool in pythons:
            raise _bad_peers(line)
        click.echo(f"left out: {line}", err=True)
    return found


def _bad_peers(text: str) -> click.BadParameter:
    return click.BadParameter(text, param_hint="--peers")


def _print(records: list["Record"]) -> None:
    """Print workloads and the ways they were run."""
    from fedsim.cli.tables import empty_table, print_table

    names = [name for name in COLUMNS if any(name in record for record in records)]
    titles = [COLUMNS[name][0] for name in names]
    view = empty_table(titles, left=("workload", "how"))
    for record in records:
        texts: list[str] = []
        for name in names:
            _, form = COLUMNS[name]
            value = record.get(name)
            texts.append("" if value is None else form(value))
        view.add_row(*texts)
    print_table(view)
