"""`fedsim check --laws`."""

import json
from typing import Any

import click

from fedsim.cli import options


@click.command("conform")
@click.argument("targets", nargs=-1, required=True, metavar="FILE|KIND...")
@options.edits
@click.option("--seed", default=0, type=click.IntRange(0), help="Seed of all that is drawn. [0]")
@options.plugins
@options.as_json("all findings")
@options.debug
def conform_command(
    targets: tuple[str, ...],
    edits: tuple[str, ...],
    seed: int,
    plugins: tuple[str, ...],
    as_json: bool,
) -> None:
    """Try the laws of its family on every kind of a file, or on kinds by name.

    A kind must keep the laws with a *, because every kind of its family does or its file claims it:
    limits = {"mu=0": "sgd"}, laws = ["translation"]. Where one of them is broken, its name is in
    capitals and the exit code is 7. The detail of a broken law is the smallest counterexample.

    \b
    Examples:
      fedsim check mine.py
      fedsim check mine.py "mine(trim=2)" --seed 1
      fedsim check --laws "krum(f=2)" --json
    """
    options.enable(plugins)
    from fedsim.tools.conform.conformity import conform

    conformities = conform(*targets, edits=edits, seed=seed)
    if as_json:
        click.echo(json.dumps([_as_mapping(conformity) for conformity in conformities]))
    else:
        click.echo("\n\n".join(map(str, conformities)))
    if any(conformity.broken for conformity in conformities):
        raise SystemExit(7)


def _as_mapping(conformity: Any) -> dict[str, Any]:
    findings = [finding._asdict() for finding in conformity.findings]
    return {"family": conformity.family, "kind": conformity.kind, "findings": findings}
