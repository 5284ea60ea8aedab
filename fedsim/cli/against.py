"""What `fedsim verify --against` prints of runs that were compared."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli.screen import wrapped
from fedsim.errors import printable

if TYPE_CHECKING:
    from fedsim.disk.tables import Record
    from fedsim.runs.against import Again
    from fedsim.runs.diff import Difference
    from fedsim.study.row_differences import Field, RowDifferences

MAX_FIELDS = 20  # of a group or a row that are shown


def print_outcomes(outcomes: "Iterable[Again]", as_json: bool) -> int:
    """Print how runs compare, each as soon as it is known.

    Returns:
      The exit code: 0 where nothing differs, 7 where something does, 2 where that is not known.
    """
    from fedsim.runs.against import DIFFERS, OPEN

    found = []
    for outcome in outcomes:
        found.append(outcome)
        if not as_json:
            _print(outcome)
    if as_json:
        click.echo(json.dumps([outcome.plain() for outcome in found]))
    verdicts = {outcome.verdict for outcome in found}
    if DIFFERS in verdicts:
        return 7
    return 2 if OPEN in verdicts else 0


def _print(outcome: "Again") -> None:
    click.echo(wrapped(printable(f"{outcome.name}: {outcome.verdict}"), hanging="  "))
    for line in outcome.lines:
        click.echo(wrapped(printable(line), indent="  ", hanging="    "))
    if outcome.rows:
        _print_rows(outcome.rows)
    if outcome.difference is not None:
        click.echo("")
        for line in described(outcome.difference):
            start = line[: len(line) - len(line.lstrip())]
            click.echo(wrapped(line.lstrip(), indent=start, hanging=f"{start}  "))


def _print_rows(rows: "Sequence[Record]") -> None:
    from fedsim.cli.tables import empty_table, print_table
    from fedsim.report.results import score_text

    titles = ["method", "condition", "seeds", "recorded", "repeated", "difference", "95 %", "p"]
    view = empty_table(titles, left=("method", "condition"))
    for row in rows:
        has_interval = row["ci_low"] is not None and row["ci_high"] is not None
        view.add_row(
            row["method"],
            row["variant"],
            str(row["seeds"]),
            score_text(row["recorded"]),
            score_text(row["repeated"]),
            _text("{difference:+z.4g}", row, row["difference"] is not None),
            _text("{ci_low:+z.4g} to {ci_high:+z.4g}", row, has_interval),
            _text("{p_adjusted:.3g}", row, row["p_adjusted"] is not None),
        )
    print_table(view)


def _text(template: str, row: "Record", has_value: bool) -> str:
    """Values of a row in words; a dash where there are none."""
    return template.format(**row) if has_value else "–"


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
