"""Commands that read run directories: `verify` and `diff`."""

import json
import sys
from pathlib import Path

import click

from fedsim.cli import options
from fedsim.errors import printable

FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("verify")
@click.argument("directory", type=FOLDER)
@click.option("--whole", is_flag=True, help="Replay every round, not only the first one and the last ones.")
@options.device
@options.plugins
@options.data_roots
@options.as_json("the checks")
@options.debug
def verify_command(
    directory: Path,
    whole: bool,
    device: str | None,
    plugins: tuple[str, ...],
    data_roots: tuple[str, ...],
    as_json: bool,
) -> None:
    """Confirm a run that has ended: its files, and rounds replayed from its own record, bit by bit.

    Exit code 7 when something is wrong; 2 when nothing is, and something could not be checked here: a plug-in or a data
    file that was not given, samples of a Python program, another machine or version.

    \b
    Examples:
      fedsim verify reports/iid
      fedsim verify reports/mine --plugin mine.py --whole
    """
    options.compilation_cache()
    options.enabled(plugins)
    from fedsim.runs.verify import Check, verify

    def say(check: Check) -> None:
        mark = "ok " if check.ok else "NOT" if check.possible else "-- "
        click.echo(printable(f"{mark}  {check.name}: {'' if check.possible else 'not checked: '}{check.detail}"))

    result = verify(directory, device=device, whole=whole, say=None if as_json else say, data_roots=data_roots)
    if as_json:
        click.echo(json.dumps(result.plain()))
    else:
        verdict = "is NOT what its record says" if result.wrong else "could not be checked whole; nothing seen is wrong"
        click.echo(printable(f"{directory} {'is equal to what its record says' if result.equal else verdict}"))
    if not result.equal:
        sys.exit(7 if result.wrong else 2)


@click.command("diff")
@click.argument("one", metavar="DIRECTORY", type=FOLDER)
@click.argument("other", metavar="DIRECTORY", type=FOLDER)
@options.as_json("the differences")
@options.debug
def diff_command(one: Path, other: Path, as_json: bool) -> None:
    """Say which part of two runs differs: scenario, data, numerics, environment, rows, models (exit code 0 either way).

    \b
    Examples:
      fedsim diff reports/iid reports/again
      fedsim diff reports/iid reports/slow --json
    """
    from fedsim.cli.differences import described
    from fedsim.runs.diff import diff

    difference = diff(one, other)
    for line in [json.dumps(difference.plain())] if as_json else described(difference):
        click.echo(line)
