"""`fedsim check`."""

import json
from typing import Any

import click

from fedsim.cli import options


@click.command("check")
@options.scenario
@options.compared
@options.device
@options.as_json("the forecast")
@options.debug
def check_command(device: str | None, as_json: bool, **arguments: Any) -> None:
    """Build a scenario and the cells of its comparison, and forecast a run; trains nothing.

    \b
    Examples:
      fedsim check scenarios/iid.yaml
      fedsim check scenarios/iid.yaml --set model=cnn --json
      fedsim check scenarios/compare/rules.yaml
      fedsim check scenarios/iid.yaml --methods fedavg,'krum(f=3)' --vary cohort.size=5,20
    """
    arguments["device"] = device
    scenario = options.read_scenario(arguments, all_stages=True, compares=True)
    from fedsim.assemble import build
    from fedsim.assemble.experiment import numerics
    from fedsim.assemble.forecast import forecast, one_batch
    from fedsim.assemble.memory import allocations
    from fedsim.cli import console
    from fedsim.runs.refusals import CompareOverrides, refuse

    section = scenario.spec.compare
    overrides = CompareOverrides(
        methods=arguments["methods"],
        vary=arguments["vary"] or None,
        tune=arguments["tune"] or None,
        baselines=arguments["baselines"],
    )
    cells = None
    if section.methods or any(overrides):
        cells = refuse(scenario, device, overrides)

    with numerics(scenario, device=device) as devices:
        experiment = build(scenario, devices=devices[:1])
        with allocations(experiment.scenario, experiment.memory_bytes):
            expected = {"scenario": scenario.spec.name, **forecast(experiment)}
            # Last, since its program would count as memory.
            expected["batch"] = one_batch(experiment)

    if cells is not None:
        expected["comparison"] = cells.record()
    elif section.vary or section.tune:
        expected["notes"].append(
            "compare names no methods, and its cells were not tried; add --methods LIST"
        )
    if as_json:
        click.echo(json.dumps(expected))
    else:
        console.forecast(expected)
