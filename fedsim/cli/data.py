"""`fedsim data`: what concerns data files alone."""

import json
from typing import Any

import click

from fedsim.cli import options

LISTED = 12  # classes, columns


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
    "-s", "--set", "edits", multiple=True, metavar="KEY=VALUE", help="A key of data, e.g. target=wage; repeatable."
)
@options.as_json("the description")
@options.debug
def describe_command(path: str, edits: tuple[str, ...], as_json: bool) -> None:
    """Say what PATH holds, and print the data section for it.

    Of a file or a folder of any known form: its kind, samples, their shape and type, classes or the range of targets,
    clients, blanks, memory, SHA-256. Trains nothing.

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
        click.echo(f"{name:<9} {text}")
    click.echo(f"\n{description['yaml']}", nl=False)


def lines_of(description: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, text) of what is known."""
    d = description
    shape = " x ".join(map(str, d["shape"])) or "a number"
    scaled = "" if d["scale"] == 1 else f", over {1 / d['scale']:g}"
    tokens = f", tokens 0 to {d['vocabulary'] - 1}" if d["vocabulary"] else ""
    tests = f", {d['test_rows']:,} to test on" if d["test_rows"] else ", none to test on: data.test of them are kept"
    lines = [
        ("path", d["path"]),
        ("kind", d["kind"]),
        ("samples", f"{d['rows']:,} to train on{tests}"),
        ("sample", f"{shape}, {d['type']}{scaled}{tokens}{_listed(d['features'], ': ')}"),
        ("target", _target(d["target"])),
        ("clients", _clients(d["clients"])),
        ("columns", _listed(d["columns"])),
        ("blanks", _listed([f"{name} ({n:,})" for name, n in d["missing"].items()])),
        ("memory", f"{d['bytes'] / 1e6:,.1f} MB{', which stay in the file' if d['in_file'] else ''}"),
        ("SHA-256", d["sha256"]),
        *(("note", note) for note in d["notes"]),
    ]
    return [(name, text) for name, text in lines if text]


def _target(target: dict[str, Any]) -> str:
    if target["kind"] == "numbers":
        return f"numbers from {target['least']:g} to {target['most']:g}"
    counts = target["samples"]
    if target["kind"] == "tokens":
        return f"a label for every token, {sum(counts.values()):,} of {target['count']:,} kinds"
    if target["count"] > LISTED:
        return f"{target['count']:,} classes of {min(counts.values()):,} to {max(counts.values()):,} samples"
    return f"{target['count']} classes: {_listed([f'{name} ({n:,})' for name, n in counts.items()])}"


def _clients(clients: dict[str, Any] | None) -> str:
    if clients is None:
        return "no ids; a partition deals the samples out"
    ends = (f"{end} {clients[end]['id']} with {clients[end]['samples']:,}" for end in ("smallest", "largest"))
    return f"{clients['count']:,}: {', '.join(ends)} samples"


def _listed(names: list[str] | None, before: str = "") -> str:
    if not names:
        return ""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return before + ", ".join(names[:LISTED]) + more
