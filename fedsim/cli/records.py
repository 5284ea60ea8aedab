"""Commands that read run directories: `verify` and `diff`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedsim.cli import options
from fedsim.errors import printable

if TYPE_CHECKING:
    from fedsim.runs.diff import Difference
    from fedsim.study.row_differences import Field, RowDifferences

FOLDER = click.Path(file_okay=False, path_type=Path)
SHOWN = 20  # differing fields of a group, columns of a row


@click.command("verify")
@click.argument("directory", type=FOLDER)
@click.option(
    "--whole", is_flag=True, help="Replay every round, not only the first one and the last ones."
)
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
    options.enabled(plugins)
    from fedsim.runs.verify import Check, verify

    def say(check: Check) -> None:
        mark = "ok " if check.ok else "NOT" if check.possible else "-- "
        click.echo(
            printable(
                f"{mark}  {check.name}: {'' if check.possible else 'not checked: '}{check.detail}"
            )
        )

    result = verify(
        directory, device=device, whole=whole, say=None if as_json else say, data_roots=data_roots
    )
    if as_json:
        click.echo(json.dumps(result.plain()))
    else:
        unmade = "; ".join(check.detail for check in result.checks if not check.possible)
        verdict = (
            "is NOT what its record says" if result.wrong else f"cannot be checked here: {unmade}"
        )
        click.echo(
            printable(
                f"{directory} {'is equal to what its record says' if result.equal else verdict}"
            )
        )
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
    from fedsim.runs.diff import diff

    difference = diff(one, other)
    for line in [json.dumps(difference.plain())] if as_json else described(difference):
        click.echo(line)


def described(difference: "Difference") -> Iterator[str]:
    """The differences of two runs as lines to read: the parts that differ, then the names of those that do not."""
    from fedsim.runs.diff import TABLES

    for name, fields in difference.groups.items():
        yield from _listed(name, fields)
    for name, rows in difference.tables.items():
        yield f"{name}.csv: {_counted(difference, rows)}"
        yield from (f"  {field.name}: {field.a} | {field.b}" for field in rows.fields[:SHOWN])
        for column in rows.columns:
            if column.absolute is not None:
                gap = f"{column.absolute:.3g}, relative {column.relative:.3g}"
                yield f"  {column.name}: differs in {column.rows} row{'s'[: column.rows > 1]}, by at most {gap}"
    for model in difference.models:
        gap = "" if model.absolute is None else f", by at most {model.absolute:.3g}"
        yield f"{model.name}: {model.what}{gap}"
    yield from _listed("surroundings (which change no bit)", difference.surroundings)
    tables = {f"{name}.csv": difference.tables.get(name) for name in TABLES}
    parts = {**difference.groups, **tables, "models": difference.models}
    same = [name for name, part in parts.items() if not part]
    yield f"the same: {', '.join(same)}" if same else "nothing is the same"


def _listed(name: str, fields: "list[Field]") -> Iterator[str]:
    if fields:
        yield name
    yield from (f"  {field.name}: {field.a} | {field.b}" for field in fields[:SHOWN])
    if len(fields) > SHOWN:
        yield f"  ... {len(fields) - SHOWN} more"


def _counted(difference: "Difference", rows: "RowDifferences") -> str:
    if rows.a is None or rows.b is None:
        return f"not in {difference.a if rows.a is None else difference.b}"
    counts = ((rows.only_a, difference.a), (rows.only_b, difference.b))
    single = [f"{n} only in {path}" for n, path in counts if n]
    numbers = ", ".join([f"{rows.differing} of {rows.a - rows.only_a} rows differ", *single])
    return f"{numbers}; first: {rows.first}" if rows.first else numbers
