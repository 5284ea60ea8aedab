"""`fedsim data partition`."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any, TextIO

import click

from fedsim.cli import options
from fedsim.cli.screen import wrapped
from fedsim.installed import modules_with


@click.command("partition")
@options.scenario
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder [reports/<name>-partition, whose files are replaced].",
)
@options.force
@click.option(
    "--split",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write which client holds which sample: sample,client as CSV, "
    "or {client: [samples]} where FILE ends in .json.",
)
@click.option(
    "--by",
    metavar="COLUMN",
    help="Draw the values of a column in place of the labels [of domains: its column].",
)
@options.as_json("the table")
@options.debug
def partition_command(
    out: Path | None,
    force: bool,
    split: Path | None,
    by: str | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Show which client holds what, as a table, and a picture in files; trains nothing.

    \b
    Examples:
      fedsim data partition scenarios/dirichlet.yaml
      fedsim data partition scenarios/dirichlet.yaml \\
          --set data.partition.alpha=0.1 --out skewed
      fedsim data partition scenarios/pathological.yaml --json
      fedsim data partition scenarios/dirichlet.yaml \\
          --split split.csv

    A split is read by partition: {kind: file, path: split.csv}; if there are several seeds, it is
    that of the first one. --by label draws the labels where a column would be drawn.
    """
    scenario = options.read_scenario(arguments)
    from fedsim.report.partition_text import text
    from fedsim.runs.partition import write_partition

    folder = out or Path("reports") / f"{scenario.spec.name}-partition"
    partitions, notes = write_partition(scenario, folder, split, by, force or out is None)
    if as_json:
        tables = {str(seed): partition.plain() for seed, partition in partitions.items()}
        click.echo(json.dumps(tables))
        return

    seed, partition = next(iter(partitions.items()))
    if len(partitions) > 1:
        print(f"seed {seed} (partition.csv has all {len(partitions)})\n")
    width, only_ascii = width_and_ascii(sys.stdout)
    print(text(partition, width, only_ascii))
    for module in modules_with("PARTITION"):
        for line in module.lines(scenario, seed, len(partition.counts.clients)):
            print(wrapped(line))
    for note in notes:
        print(wrapped(f"note: {note}", hanging="  "))
    print(wrapped(f"{folder}/  partition.png  partition.svg  partition.csv", hanging="  "))
    if split is not None:
        print(f"{split}  seed {seed}: which client holds which sample")


def width_and_ascii(stream: TextIO) -> tuple[int, bool]:
    """Return the columns of a stream's terminal, and whether the stream may take only ASCII.

    Without a terminal there are 80 columns.
    """
    encoding = stream.encoding or "ascii"
    return shutil.get_terminal_size().columns, encoding.lower() not in ("utf-8", "utf8")
