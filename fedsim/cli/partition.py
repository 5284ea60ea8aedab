"""`fedsim partition`."""

import json
from pathlib import Path
from typing import Any

import click

from fedsim.cli import options


@click.command("partition")
@options.scenario
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder [reports/<name>-partition].")
@options.as_json("the table")
@options.debug
def partition_command(out: Path | None, as_json: bool, **described: Any) -> None:
    """Show who holds what: a table and a picture, in the terminal and as files; trains nothing.

    \b
    Examples:
      fedsim partition scenarios/dirichlet.yaml
      fedsim partition scenarios/dirichlet.yaml --set data.partition.alpha=0.1 --out reports/skewed
      fedsim partition scenarios/pathological.yaml --json
    """
    checked = options.understood(**described)
    from fedsim.runs.partition import dealt, show

    folder = out or Path("reports") / f"{checked.spec.name}-partition"
    found = dealt(checked, folder)
    if as_json:
        click.echo(json.dumps({str(seed): held.plain() for seed, held in found.items()}))
    else:
        show(found, folder)
