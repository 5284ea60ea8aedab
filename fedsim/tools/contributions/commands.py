"""`fedsim report --contributions`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli import options
from fedsim.cli.interrupts import Interrupts

if TYPE_CHECKING:
    from fedsim.tools.contributions.analysis import Contributions

# as in `fedsim.tools.contributions.shapley.Truncation`, which takes NumPy to import
OF_GTG = ("between", "within", "least", "window", "tolerance", "most")


def _of_gtg(name: str, default: float, text: str, lowest: int = 0) -> Callable:
    """An option for when GTG-Shapley stops.

    Args:
      name: of the option.
      default: as published.
      text: what it is.
      lowest: its smallest value.
    """
    form = click.IntRange(lowest) if isinstance(default, int) else click.FloatRange(lowest)
    return click.option(f"--{name}", type=form, help=f"gtg: {text} [{default}]")


@click.command("contributions")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--how",
    default="shapley",
    show_default=False,
    type=click.Choice(["shapley", "gtg", "leave_one_out"]),
    help="Exact Shapley values for at most 8 clients a round, their estimate by GTG-Shapley, or "
    "training again without each client. [shapley]",
)
@options.seeds
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Write table, page and figure into this folder.",
)
@options.force
@click.option(
    "--draws", default=0, type=click.IntRange(0), help="Seed of the permutations of gtg. [0]"
)
@_of_gtg("between", 0.01, "a round whose gain is at most this gives everybody 0.")
@_of_gtg("within", 0.001, "an order ends where its score is nearer than this to that of all.")
@_of_gtg("least", 30, "orders of a round before its estimate can have converged.")
@_of_gtg("window", 10, "last estimates that have to agree.", lowest=1)
@_of_gtg("tolerance", 0.05, "the largest mean relative difference among them.")
@_of_gtg("most", 1000, "orders of a round at most.", lowest=1)
@options.device
@options.plugins
@options.data_roots
@options.as_json("the rows")
@options.debug
def contributions_command(
    directory: Path, seeds: str | None, plugins: tuple[str, ...], as_json: bool, **arguments: Any
) -> None:
    """Say what every client of a finished run contributed to its final score.

    Shapley values share out what each round gained, by the models that the server would have made
    of the updates of some of its clients; they sum to the gain of the run. The score is that on
    validation samples where there are any, else on test samples. Updates are those that the run
    kept (checkpoint: {updates: true}); without them it is replayed. Exit code 7 if that differs
    from the record, or if the server remembers what such models would need.

    \b
    Examples:
      fedsim report --contributions reports/iid
      fedsim report --contributions reports/iid --how gtg \\
          -o reports/contributions
      fedsim report --contributions reports/iid --how gtg \\
          --between 0 --within 0 --most 200
      fedsim report --contributions reports/iid \\
          --how leave_one_out --seeds 0,1
    """
    given = {name: arguments.pop(name) for name in OF_GTG}
    given = {name: value for name, value in given.items() if value is not None}
    if given and arguments["how"] != "gtg":
        raise click.UsageError(f"--{next(iter(given))} is for --how gtg")
    options.enable(plugins)
    from fedsim.tools.contributions.analysis import contributions
    from fedsim.tools.contributions.shapley import Truncation

    chosen = None
    if seeds:
        chosen = json.loads(seeds) if seeds.startswith("[") else list(range(int(seeds)))
    interrupts: Interrupts = click.get_current_context().obj
    with interrupts.heeded():
        result = contributions(
            directory,
            seeds=chosen,
            truncation=Truncation(**given),
            ask=interrupts.asked,
            **arguments,
        )
    if as_json:
        click.echo(json.dumps(result.plain()))
    else:
        _print(result, arguments["out"])


def _print(result: "Contributions", out: Path | None) -> None:
    """Print what clients contributed, and where the file is."""
    from fedsim.cli.console import score_text
    from fedsim.cli.tables import empty_table, print_table

    titles = ["client", "value", "samples", "rounds"]
    has_interval = any(row["low"] is not None for row in result.records)
    has_error = any(row["standard_error"] is not None for row in result.records)
    if has_error:
        titles.insert(2, "std. error")
    if has_interval:
        titles.insert(2, "95 % interval")
    view = empty_table(titles, left=("client",))
    for row in result.records:
        cells = [str(row["client"]), f"{row['value']:+z.4f}"]
        if has_interval:
            cells.append(f"{row['low']:+z.4f} to {row['high']:+z.4f}")
        if has_error:
            cells.append(score_text(row["standard_error"]))
        view.add_row(*cells, f"{row['samples']:g}", f"{row['rounds']:g}")
    print_table(view)
    print(f"\n{result.sentence}")
    for text in filter(None, [result.note]):
        print(text)
    if out is not None:
        print(f"\n{out}/  contributions.html  contributions.csv  contributions.png")
