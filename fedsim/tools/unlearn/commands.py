"""`fedsim fork --unlearn`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli import options
from fedsim.cli.interrupts import Interrupts

if TYPE_CHECKING:
    from fedsim.tools.unlearn.unlearning import Unlearned


@click.command("unlearn")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--client",
    "clients",
    multiple=True,
    required=True,
    type=click.IntRange(0),
    metavar="N",
    help="The number of a client to forget; repeatable.",
)
@click.option(
    "--how",
    multiple=True,
    type=click.Choice(["retrain", "federaser"]),
    help="Ways to compare; retrain is always made; repeatable [all of them].",
)
@click.option(
    "--every",
    default=2,
    show_default=True,
    type=click.IntRange(1),
    help="FedEraser: rounds from one calibrated round to the next.",
)
@click.option(
    "--ratio",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="FedEraser: the share of its local steps that a client takes in one.",
)
@options.seeds
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Directory of tables, models and runs.",
)
@click.option("--resume", is_flag=True, help="Continue what was interrupted in that directory.")
@click.option("--force", is_flag=True, help="Replace what is in that directory.")
@options.device
@options.plugins
@options.data_roots
@click.option("--quiet", is_flag=True, help="No progress bar, no table.")
@options.debug
def unlearn_command(
    directory: Path,
    clients: tuple[int, ...],
    how: tuple[str, ...],
    seeds: str | None,
    plugins: tuple[str, ...],
    quiet: bool,
    out: Path,
    **arguments: Any,
) -> None:
    """Make the model of a finished run without some of its clients, and score what it forgot.

    retrain is the run again without them, against which the other is held. federaser calibrates the
    recorded updates of the other clients by a few local steps. unlearning.csv has scores, distances
    to retraining, a membership attack and the local steps spent.

    \b
    Examples:
      fedsim fork --unlearn reports/iid --client 3 \\
          -o reports/forgotten
      fedsim fork --unlearn reports/iid --client 3 \\
          --client 5 --how retrain -o reports/retrained
      fedsim fork --unlearn reports/iid --client 3 --every 4 \\
          --ratio 0.25 -o reports/cheap
    """
    if arguments["resume"] and arguments["force"]:
        text = "--resume continues what was interrupted and --force replaces it"
        raise click.UsageError(f"{text}; give one of them")
    options.enable(plugins)
    from fedsim.tools.unlearn.unlearning import unlearn

    numbers = None
    if seeds:
        is_list = seeds.startswith("[")
        numbers = [int(seed) for seed in seeds.strip("[]").split(",")] if is_list else int(seeds)
    interrupts: Interrupts = click.get_current_context().obj
    with interrupts.heeded():
        result = unlearn(
            directory,
            clients=clients,
            out=out,
            how=how or ("retrain", "federaser"),
            seeds=numbers,
            progress=not quiet,
            ask=interrupts.asked,
            **arguments,
        )
    if not quiet:
        _print(result, out)


def _print(result: "Unlearned", out: Path) -> None:
    """Print what every way to forget clients made of every seed, and where the files are."""
    from fedsim.cli.console import score_text
    from fedsim.cli.tables import empty_table, print_table

    table = result.table
    scores = [name for name in ("accuracy", "r2", "loss") if f"test_{name}" in table]
    columns = {"gradient_steps": "local steps", "attack_auc": "attack AUC"}
    if scores:
        columns |= {f"{part}_{scores[0]}": f"{part} {scores[0]}" for part in ("test", "forgotten")}
    columns |= {"relative_distance": "distance"}
    shown = [column for column in columns if column in table]
    view = empty_table(["seed", "how", *(columns[column] for column in shown)], left=("how",))
    for row in table.to_dict("records"):
        cells = []
        for column in shown:
            value = row[column]
            if value is None or value != value:  # NaN: there is none
                cells.append("")
            elif column == "gradient_steps":
                cells.append(str(int(value)))
            else:
                cells.append(score_text(value))
        view.add_row(str(row["seed"]), row["how"], *cells)
    print_table(view)
    print("\ndistance: to retraining, of the parameters; 1 is that of the original")
    for note in result.notes:
        print(note)
    print(f"\n{out}/  unlearning.csv  unlearning_differences.csv")
