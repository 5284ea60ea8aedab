"""Commands that read run directories: `verify` and `diff`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli import options
from fedsim.errors import printable

if TYPE_CHECKING:
    from fedsim.runs.diff import Difference
    from fedsim.runs.verify import Check
    from fedsim.study.row_differences import Field, RowDifferences

FOLDER = click.Path(file_okay=False, path_type=Path)
MAX_FIELDS = 20  # of a group or a row that are shown


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
        click.echo(printable(f"{directory} {verdict}"))
    if not result.equal:
        sys.exit(7 if result.wrong else 2)


def print_check(check: "Check") -> None:
    """Print a check on a line."""
    if not check.possible:
        line = f"--   {check.name}: not checked: {check.detail}"
    elif check.ok:
        line = f"ok   {check.name}: {check.detail}"
    else:
        line = f"NOT  {check.name}: {check.detail}"
    click.echo(printable(line))


@click.command("diff")
@click.argument("first", metavar="DIRECTORY", type=FOLDER)
@click.argument("second", metavar="DIRECTORY", type=FOLDER)
@options.as_json("the differences")
@options.debug
def diff_command(first: Path, second: Path, as_json: bool) -> None:
    """Show where two runs differ: scenario, data, numerics, environment, rows, models.

    The exit code is 0 whether they differ or not.

    \b
    Examples:
      fedsim diff reports/iid reports/again
      fedsim diff reports/iid reports/slow --json
    """
    from fedsim.runs.diff import diff

    difference = diff(first, second)
    if as_json:
        click.echo(json.dumps(difference.plain()))
        return
    for line in described(difference):
        click.echo(line)


def described(difference: "Difference") -> Iterator[str]:
    """Yield the differences of two runs as lines, then the names of what does not differ."""
    from fedsim.runs.diff import COMPARED_TABLES

    for name, fields in difference.groups.items():
        yield from _lines_of_fields(name, fields)
    for name, rows in difference.tables.items():
        yield from _lines_of_table(difference, name, rows)
    for model in difference.models:
        largest = "" if model.absolute is None else f", by at most {model.absolute:.3g}"
        yield f"{model.name}: {model.what}{largest}"
    yield from _lines_of_fields("surroundings (which change no bit)", difference.surroundings)

    compared: dict[str, Any] = dict(difference.groups)
    for name in COMPARED_TABLES:
        compared[f"{name}.csv"] = difference.tables.get(name)
    compared["models"] = difference.models
    same = [name for name, differences in compared.items() if not differences]
    yield f"the same: {', '.join(same)}" if same else "nothing is the same"


def _lines_of_fields(name: str, fields: "list[Field]") -> Iterator[str]:
    if not fields:
        return
    yield name
    for field in fields[:MAX_FIELDS]:
        yield f"  {field.name}: {field.a} | {field.b}"
    if len(fields) > MAX_FIELDS:
        yield f"  ... {len(fields) - MAX_FIELDS} more"


def _lines_of_table(difference: "Difference", name: str, rows: "RowDifferences") -> Iterator[str]:
    yield f"{name}.csv: {_counts(difference, rows)}"
    for field in rows.fields[:MAX_FIELDS]:
        yield f"  {field.name}: {field.a} | {field.b}"
    for column in rows.columns:
        if column.absolute is None:
            continue
        count = "1 row" if column.rows == 1 else f"{column.rows} rows"
        largest = f"{column.absolute:.3g}, relative {column.relative:.3g}"
        yield f"  {column.name}: differs in {count}, by at most {largest}"


def _counts(difference: "Difference", rows: "RowDifferences") -> str:
    """Return how many rows of a table differ, and which one is the first."""
    if rows.a is None:
        return f"not in {difference.a}"
    if rows.b is None:
        return f"not in {difference.b}"
    counts = [f"{rows.differing} of {rows.a - rows.only_a} rows differ"]
    if rows.only_a:
        counts.append(f"{rows.only_a} only in {difference.a}")
    if rows.only_b:
        counts.append(f"{rows.only_b} only in {difference.b}")
    text = ", ".join(counts)
    return f"{text}; first: {rows.first}" if rows.first else text
