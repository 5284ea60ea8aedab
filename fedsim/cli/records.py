"""`fedsim verify`, by itself and against another run."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli import options
from fedsim.cli.against import described, print_outcomes
from fedsim.cli.screen import wrapped
from fedsim.errors import printable

if TYPE_CHECKING:
    from fedsim.runs.verify import Check

FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("verify")
@click.argument("directory", type=FOLDER)
@click.option(
    "--whole", is_flag=True, help="Replay every round, not only the first one and the last ones."
)
@options.device
@options.plugins
@options.data_roots
@options.trust_data
@options.as_json("the checks")
@options.debug
def verify_command(
    directory: Path, plugins: tuple[str, ...], as_json: bool, **arguments: Any
) -> None:
    """Check a run that has ended: its files, and rounds replayed from its record, bit by bit.

    Exit code 7 if something is wrong; 2 if nothing is, and something could not be checked here: a
    plug-in or a data file that was not given, samples of a Python program, another machine or
    version.

    \b
    Examples:
      fedsim verify reports/iid
      fedsim verify reports/mine --plugin mine.py --whole
    """
    options.enable(plugins)
    from fedsim.runs.verify import verify

    result = verify(directory, say=None if as_json else print_check, **arguments)
    if as_json:
        click.echo(json.dumps(result.plain()))
    else:
        if result.equal:
            verdict = "is equal to what its record says"
        elif result.wrong:
            verdict = "is NOT what its record says"
        else:
            reasons = [check.detail for check in result.checks if not check.possible]
            verdict = f"cannot be checked here: {'; '.join(reasons)}"
        click.echo(wrapped(printable(f"{directory} {verdict}"), hanging="  "))
    if not result.equal:
        sys.exit(7 if result.wrong else 2)


def print_check(check: "Check") -> None:
    """Print a check, on a line if that is wide enough."""
    if not check.possible:
        line = f"--   {check.name}: not checked: {check.detail}"
    elif check.ok:
        line = f"ok   {check.name}: {check.detail}"
    else:
        line = f"NOT  {check.name}: {check.detail}"
    click.echo(wrapped(printable(line), hanging="     "))


@click.command("against")
@click.argument("directory", type=FOLDER)
@click.option(
    "--against", "other", required=True, type=FOLDER, metavar="RUN", help="What it should be."
)
@options.as_json("the outcome")
@options.debug
def against_command(directory: Path, other: Path, as_json: bool) -> None:
    """Compare a run with another one: scenario, data, numerics, environment, rows, models.

    In the same environment all bytes have to be equal, elsewhere the scores of paired seeds are
    tested. Exit code 7 where something differs, 2 where that cannot be told.

    \b
    Examples:
      fedsim verify reports/again --against reports/iid
      fedsim verify reports/slow --against reports/iid --json
    """
    from fedsim.runs.against import two_runs

    sys.exit(print_outcomes([two_runs(directory, other)], as_json))


@click.command("diff", hidden=True)
@click.argument("first", metavar="DIRECTORY", type=FOLDER)
@click.argument("second", metavar="DIRECTORY", type=FOLDER)
@options.as_json("the differences")
@options.debug
def diff_command(first: Path, second: Path, as_json: bool) -> None:
    """Show where two runs differ, with the exit code 0 whether they differ or not."""
    from fedsim.runs.diff import diff

    click.echo("fedsim: 'fedsim diff A B' is now 'fedsim verify A --against B'", err=True)
    difference = diff(first, second)
    if as_json:
        click.echo(json.dumps(difference.plain()))
        return
    for line in described(difference):
        click.echo(line)
