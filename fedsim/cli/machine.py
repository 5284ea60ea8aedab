"""`fedsim doctor`."""

import json

import click

from fedsim.cli import options


@click.command("doctor")
@options.as_json("what was found")
@options.debug
def doctor_command(as_json: bool) -> None:
    """Show what a run would use here: versions, devices, threads, memory, and what is missing.

    \b
    Examples:
      fedsim doctor
      fedsim doctor --json
    """
    from fedsim.cli.doctor import examine, print_findings

    findings = examine()
    if as_json:
        click.echo(json.dumps(findings))
    else:
        print_findings(findings)
