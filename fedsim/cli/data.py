"""`fedsim data`: what concerns data files alone."""

import json
from typing import Any

import click

from fedsim.cli import options
from fedsim.errors import printable

LISTED = 12  # classes, columns
MOST_COLUMNS = 50  # of a table that are shown
LONGEST = 40  # characters of a column's name


@click.group("data")
@options.debug
def data_command() -> None:
    """Say what data files hold, and how a scenario reads them.

    \b
    Examples:
      fedsim data describe wages.csv
      fedsim data describe images --json
    """


@data_command.command("describe")
@click.argument("path", type=click.Path())
@click.option(
    "-s",
    "--set",
    "edits",
    multiple=True,
    metavar="KEY=VALUE",
    help="A key of data, e.g. target=wage; repeatable.",
)
@options.as_json("the description")
@options.debug
def describe_command(path: str, edits: tuple[str, ...], as_json: bool) -> None:
    """Say what PATH holds, and print the data section for it.

    Of a file or a folder of any known form: its kind, samples, their shape and type, classes or the range of targets,
    clients, blanks, memory, SHA-256. Of a table: type, blanks, distinct values and range of each column, and, where no
    samples can be made of it, what is wrong, in a line for each column. Trains nothing.

    \b
    Examples:
      fedsim data describe wages.csv --set target=wage --set drop=[name]
      fedsim data describe cifar-10-batches-bin
      fedsim data describe images --set size=[64,64] --json
    """
    from fedsim.runs.description import describe

    description = describe(path, edits)
    if as_json:
        click.echo(json.dumps(description))
        return
    for name, text in lines_of(description):
        click.echo(printable(f"{name:<9} {text}"))
    if description["summary"]:
        click.echo("")
        for line in table_of(description["summary"]):
            click.echo(line)
    click.echo(f"\n{description['yaml']}", nl=False)


def lines_of(description: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, text) of what is known."""
    head = [("path", description["path"]), ("kind", description["kind"])]
    ends = [
        ("SHA-256", description["sha256"]),
        *(("note", note) for note in description["notes"]),
        *(("problem", line) for line in description["problems"]),
    ]
    samples = (
        [("rows", f"{description['rows']:,}")]
        if description["problems"]
        else _lines_of_samples(description)
    )
    return [(name, text) for name, text in (*head, *samples, *ends) if text]


def _lines_of_samples(d: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, text) of what is known of samples."""
    shape = " x ".join(map(str, d["shape"])) or "a number"
    scaled = "" if d["scale"] == 1 else f", over {1 / d['scale']:g}"
    tokens = f", tokens 0 to {d['vocabulary'] - 1}" if d["vocabulary"] else ""
    tests = (
        f", {d['test_rows']:,} to test on"
        if d["test_rows"]
        else ", none to test on: data.test of them are kept"
    )
    return [
        ("samples", f"{d['rows']:,} to train on{tests}"),
        ("sample", f"{shape}, {d['type']}{scaled}{tokens}{_listed(d['features'], ': ')}"),
        ("target", _target(d["target"])),
        ("clients", _clients(d["clients"])),
        ("columns", _listed(d["columns"])),
        ("blanks", _listed([f"{name} ({n:,})" for name, n in d["missing"].items()])),
        (
            "memory",
            f"{d['bytes'] / 1e6:,.1f} MB{', which stay in the file' if d['in_file'] else ''}",
        ),
    ]


def table_of(summary: list[dict[str, Any]]) -> list[str]:
    """The columns of a table, a line each below a header, all of them under one another."""
    rows: list[tuple[str, ...]] = [("column", "type", "blanks", "distinct", "range")]
    for column in summary[:MOST_COLUMNS]:
        distinct = f"{'over ' if column['distinct_at_least'] else ''}{column['distinct']:,}"
        row = (
            column["name"][:LONGEST],
            column["type"],
            f"{column['blanks']:,}",
            distinct,
            _range(column),
        )
        rows.append(tuple(map(printable, row)))
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    lines = ["  ".join((*map(str.ljust, row[:4], widths), row[4])).rstrip() for row in rows]
    if len(summary) > MOST_COLUMNS:
        lines.append(f"and {len(summary) - MOST_COLUMNS:,} more columns; --json lists all")
    return lines


def _range(column: dict[str, Any]) -> str:
    """From the smallest to the largest value."""
    least, most = column["least"], column["most"]
    if least is None:
        return ""
    if column["type"] == "numbers":
        return (
            f"{least:g} to {most:g}"
            if isinstance(least, float) and isinstance(most, float)
            else f"{least} to {most}"
        )
    return f"{least} to {most}"


def _target(target: dict[str, Any]) -> str:
    if target["kind"] == "numbers":
        return f"numbers from {target['least']:g} to {target['most']:g}"
    counts = target["samples"]
    if target["kind"] == "tokens":
        return f"a label for every token, {sum(counts.values()):,} of {target['count']:,} kinds"
    if target["count"] > LISTED:
        return f"{target['count']:,} classes of {min(counts.values()):,} to {max(counts.values()):,} samples"
    return (
        f"{target['count']} classes: {_listed([f'{name} ({n:,})' for name, n in counts.items()])}"
    )


def _clients(clients: dict[str, Any] | None) -> str:
    if clients is None:
        return "no ids; a partition deals the samples out"
    ends = (
        f"{end} {clients[end]['id']} with {clients[end]['samples']:,}"
        for end in ("smallest", "largest")
    )
    return f"{clients['count']:,}: {', '.join(ends)} samples"


def _listed(names: list[str] | None, before: str = "") -> str:
    if not names:
        return ""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return before + ", ".join(names[:LISTED]) + more
