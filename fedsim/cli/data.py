"""`fedsim data`: commands about data."""

import json
from typing import Any

import click

from fedsim.cli import options
from fedsim.cli.partition import partition_command
from fedsim.cli.screen import rows_of_terms
from fedsim.errors import printable

MAX_LISTED = 12  # classes, columns, features
MAX_COLUMNS = 50  # of a table that are shown
MAX_NAME = 40  # characters of a column's name

Line = tuple[str, str]  # name, text


@click.group("data")
@options.debug
def data_command() -> None:
    """Describe data files, how a scenario reads them, and which client holds what.

    \b
    Examples:
      fedsim data describe wages.csv
      fedsim data describe images --json
      fedsim data partition scenarios/dirichlet.yaml
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
    """Describe what PATH holds, and print the data section for it.

    PATH is a file or a folder of any known form. The description has its kind, samples, their shape
    and type, classes or the range of targets, clients, blanks, memory and SHA-256; of a table also
    the type, blanks, distinct values and range of each column. If no samples can be made of a
    table, it says what is wrong, in a line for each column. Nothing is trained.

    \b
    Examples:
      fedsim data describe wages.csv --set target=wage \\
          --set drop=[name]
      fedsim data describe cifar-10-batches-bin
      fedsim data describe images --set size=[64,64] --json
    """
    from fedsim.runs.describe_data import describe

    description = describe(path, edits)
    if as_json:
        click.echo(json.dumps(description))
        return
    lines = [(name, printable(text)) for name, text in lines_of(description)]
    click.echo(rows_of_terms(lines, column=9, indent=""))
    if description["summary"]:
        click.echo("")
        print_columns(description["summary"])
    click.echo(f"\n{description['yaml']}", nl=False)


data_command.add_command(partition_command)


def lines_of(description: dict[str, Any]) -> list[Line]:
    """Return (name, text) of what is known of a file."""
    lines: list[Line] = [("path", description["path"]), ("kind", description["kind"])]
    if description["problems"]:
        lines.append(("rows", f"{description['rows']:,}"))
    else:
        lines += _lines_of_samples(description)
    lines.append(("SHA-256", description["sha256"]))
    lines += [("note", note) for note in description["notes"]]
    lines += [("problem", problem) for problem in description["problems"]]
    return [(name, text) for name, text in lines if text]


def _lines_of_samples(description: dict[str, Any]) -> list[Line]:
    """Return (name, text) of what is known of samples; an empty text if it is not."""
    blanks = [f"{name} ({count:,})" for name, count in description["missing"].items()]
    return [
        ("samples", _counts(description)),
        ("sample", _sample(description)),
        ("target", _target(description["target"])),
        ("clients", _clients(description["clients"])),
        ("columns", _listed(description["columns"])),
        ("blanks", _blanks(blanks, bool(description["data"].get("indicators")))),
        ("memory", f"{description['bytes'] / 1e6:,.1f} MB"),
    ]


def _blanks(columns: list[str], indicated: bool) -> str:
    """Return the columns with blanks, and whether features say where these are."""
    listed = _listed(columns)
    if indicated and columns:
        listed += "; a further feature each, 1 where it is blank"
    return listed


def _counts(description: dict[str, Any]) -> str:
    tests = "none to test on: data.test of them are held out"
    if description["test_rows"]:
        tests = f"{description['test_rows']:,} to test on"
    return f"{description['rows']:,} to train on, {tests}"


def _sample(description: dict[str, Any]) -> str:
    """Return what one sample is: its shape, type, scale, tokens and features."""
    shape = " x ".join(map(str, description["shape"])) or "a number"
    text = f"{shape}, {description['type']}"
    if description["scale"] != 1:
        text += f", over {1 / description['scale']:g}"
    if description["vocabulary"]:
        text += f", tokens 0 to {description['vocabulary'] - 1}"
    if description["features"]:
        text += f": {_listed(description['features'])}"
    return text


def _target(target: dict[str, Any]) -> str:
    if target["kind"] == "numbers":
        return f"numbers from {target['least']:g} to {target['most']:g}"
    counts = target["samples"]
    if target["kind"] == "tokens":
        return f"a label for every token, {sum(counts.values()):,} of {target['count']:,} kinds"
    if target["count"] > MAX_LISTED:
        smallest = min(counts.values())
        largest = max(counts.values())
        return f"{target['count']:,} classes of {smallest:,} to {largest:,} samples"
    classes = [f"{name} ({count:,})" for name, count in counts.items()]
    return f"{target['count']} classes: {_listed(classes)}"


def _clients(clients: dict[str, Any] | None) -> str:
    if clients is None:
        return "no ids; a partition divides the samples among clients"
    smallest = clients["smallest"]
    largest = clients["largest"]
    return (
        f"{clients['count']:,}: smallest {smallest['id']} with {smallest['samples']:,}, "
        f"largest {largest['id']} with {largest['samples']:,} samples"
    )


def _listed(names: list[str] | None) -> str:
    """Return the first names, and how many more there are; empty if there are none."""
    if not names:
        return ""
    listed = ", ".join(names[:MAX_LISTED])
    if len(names) > MAX_LISTED:
        listed += f" and {len(names) - MAX_LISTED} more"
    return listed


def print_columns(summary: list[dict[str, Any]]) -> None:
    """Print the columns of a table, a line each."""
    from fedsim.cli.tables import empty_table, print_table

    titles = ["column", "type", "blanks", "distinct", "range"]
    view = empty_table(titles, left=titles, folded=["range"])
    for column in summary[:MAX_COLUMNS]:
        view.add_row(*_row_of_column(column))
    print_table(view, ["distinct", "blanks"])
    if len(summary) > MAX_COLUMNS:
        click.echo(f"and {len(summary) - MAX_COLUMNS:,} more columns; --json lists all")


def _row_of_column(column: dict[str, Any]) -> tuple[str, str, str, str, str]:
    distinct = f"{column['distinct']:,}"
    if column["distinct_at_least"]:
        distinct = f"over {distinct}"
    return (
        printable(column["name"][:MAX_NAME]),
        printable(column["type"]),
        f"{column['blanks']:,}",
        distinct,
        printable(_range(column)),
    )


def _range(column: dict[str, Any]) -> str:
    """Return the smallest and the largest value of a column; empty if it has none."""
    least = column["least"]
    most = column["most"]
    if least is None:
        return ""
    if column["type"] == "numbers" and isinstance(least, float) and isinstance(most, float):
        return f"{least:g} to {most:g}"
    return f"{least} to {most}"
