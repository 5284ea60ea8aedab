"""`fedsim report --contributions`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli import options
from fedsim.cli.interrupts import Interrupts

if TYPE_CHECKING:
    from fedsim.tools.contributions.analysis import Contributions


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
    help="Write table and figure into this folder.",
)
@options.force
@click.option(
    "--draws", default=0, type=click.IntRange(0), help="Seed of the permutations of gtg. [0]"
)
@click.option(
    "--between",
    type=click.FloatRange(0),
    help="gtg: a round whose gain is at most this gives everybody 0. [0.01]",
)
@click.option(
    "--within",
    type=click.FloatRange(0),
    help="gtg: an order ends where its score is nearer than this to that of all. [0.001]",
)
@options.device
@options.plugins
@options.data_roots
@options.as_json("the rows")
@options.debug
def contributions_command(
    directory: Path,
    seeds: str | None,
    between: float | None,
    within: float | None,
    plugins: tuple[str, ...],
    as_json: bool,
    **arguments: Any,
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
          --between 0 --within 0
      fedsim report --contributions reports/iid \\
          --how leave_one_out --seeds 0,1
    """
    given = {"between": between, "within": within}
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
            truncation=Truncation()._replace(**given),
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
    if result.note:
        print(result.note)
    if out is not None:
        print(f"\n{out}/  contributions.csv  contributions.png")
