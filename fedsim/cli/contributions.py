"""`fedsim contributions`."""

import json
from pathlib import Path
from typing import Any

import click

from fedsim.cli import options
from fedsim.cli.interrupts import Interrupts


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
    "-o", "--out", type=click.Path(path_type=Path), help="Write contributions.csv into this folder."
)
@click.option(
    "--draws", default=0, type=click.IntRange(0), help="Seed of the permutations of gtg. [0]"
)
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
      fedsim contributions reports/iid
      fedsim contributions reports/iid --how gtg -o reports/contributions
      fedsim contributions reports/iid --how leave_one_out --seeds 0,1
    """
    options.enable(plugins)
    from fedsim.cli import console
    from fedsim.runs.contributions import contributions

    chosen = None
    if seeds:
        chosen = json.loads(seeds) if seeds.startswith("[") else list(range(int(seeds)))
    interrupts: Interrupts = click.get_current_context().obj
    with interrupts.heeded():
        result = contributions(directory, seeds=chosen, ask=interrupts.asked, **arguments)
    if as_json:
        click.echo(json.dumps(result.plain()))
    else:
        console.contributions(result, arguments["out"])
