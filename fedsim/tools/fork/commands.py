"""`fedsim fork`."""

from pathlib import Path
from typing import Any

import click

from fedsim.cli import options
from fedsim.cli.interrupts import Interrupts


@click.command("fork")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--round", "round_", required=True, type=click.IntRange(1), help="The last round in common."
)
@options.edits
@options.method
@options.seeds
@click.option(
    "--without",
    metavar="LIST",
    help="Clients that take part in no round of the fork, e.g. 3 or 3,5.",
)
@click.option(
    "--fresh",
    multiple=True,
    type=click.Choice(["server"]),
    help="Begin what rule and optimisers remember anew.",
)
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Directory of the fork.",
)
@click.option("--resume", is_flag=True, help="Continue the fork in that directory.")
@click.option("--force", is_flag=True, help="Replace an earlier run in that directory.")
@options.device
@options.plugins
@options.data_roots
@click.option(
    "--pictures/--no-pictures", default=True, help="Draw curves and partition into figures/."
)
@options.open_page
@click.option("--quiet", is_flag=True, help="No progress bar, no table.")
@options.debug
def fork_command(
    directory: Path,
    round_: int,
    seeds: str | None,
    without: str | None,
    edits: tuple[str, ...],
    plugins: tuple[str, ...],
    open_page: bool,
    quiet: bool,
    out: Path,
    **arguments: Any,
) -> None:
    """Go on from a round of a finished run under another rule, attack, cohort or codec.

    Until that round the fork has the rows and the state of the original: those of the newest commit
    at or before it, and replayed from there. With nothing set it is the original, byte for byte.
    Exit code 7 if the original does not come out again here, or remembers what the fork shapes
    otherwise.

    \b
    Examples:
      fedsim fork reports/iid --round 50 \\
          --set wire=[sign_flip] -o reports/attacked
      fedsim fork reports/iid --round 50 --method median \\
          --fresh server -o reports/median
      fedsim fork reports/iid --round 50 --without 3 \\
          -o reports/without
    """
    if arguments["resume"] and arguments["force"]:
        text = "--resume continues a fork and --force replaces it"
        raise click.UsageError(f"{text}; give one of them")
    options.enable(plugins)
    if seeds:
        edits = (*edits, f"seeds={seeds}")
    if without is not None:
        edits = (*edits, f"fleet.without=[{without}]")
    from fedsim.cli import console
    from fedsim.tools.fork.forking import fork

    interrupts: Interrupts = click.get_current_context().obj
    with interrupts.heeded():
        result = fork(
            directory,
            round=round_,
            out=out,
            edits=edits,
            progress=not quiet,
            ask=interrupts.asked,
            **arguments,
        )
    if not quiet:
        console.table(result, out)
    if open_page:
        options.show_page(out / "report.html")
    for seed, reason in result.reasons.items():
        click.echo(f"fedsim: seed {seed}: {reason}; see {out / 'rounds.csv'}", err=True)
    if result.reasons:
        raise SystemExit(5)
