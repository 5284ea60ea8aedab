"""`fedsim check`."""

import json
from typing import Any

import click

from fedsim.cli import options


@click.command("check")
@options.scenario
@options.device
@options.as_json("the forecast")
@options.debug
def check_command(device: str | None, as_json: bool, **arguments: Any) -> None:
    """Build a scenario, try one batch of one client, and tell what a run will take; trains nothing.

    \b
    Examples:
      fedsim check scenarios/iid.yaml
      fedsim check scenarios/iid.yaml --set model=cnn --json
    """
    checked = options.understood(arguments)
    from fedsim.build import build
    from fedsim.build.experiment import numerics
    from fedsim.build.forecast import forecast, one_batch
    from fedsim.build.memory import allocations
    from fedsim.cli import console

    with numerics(checked, device=device) as devices:
        experiment = build(checked, devices=devices[:1])
        with allocations(experiment.scenario, experiment.counted):
            expected = {"scenario": checked.spec.name, **forecast(experiment)}
            expected["batch"] = one_batch(experiment)  # afterwards: its program would count as memory
    if as_json:
        click.echo(json.dumps(expected))
    else:
        console.forecast(expected)
