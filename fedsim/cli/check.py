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
def check_command(
    device: str | None,
    as_json: bool,
    methods: str | None,
    vary: tuple[str, ...],
    tune: tuple[str, ...],
    **arguments: Any,
) -> None:
    """Build a scenario and every cell of its comparison, and tell what a run will take; trains nothing.

    \b
    Examples:
      fedsim check scenarios/iid.yaml
      fedsim check scenarios/iid.yaml --set model=cnn --json
      fedsim check scenarios/compare/rules.yaml
      fedsim check scenarios/iid.yaml --methods fedavg,'krum(f=3)' --vary cohort.size=5,20
    """
    arguments |= {"device": device, "methods": methods, "vary": vary, "tune": tune}
    checked = options.understood(arguments, whole=True, compares=True)
    from fedsim.assemble import build
    from fedsim.assemble.experiment import numerics
    from fedsim.assemble.forecast import forecast, one_batch
    from fedsim.assemble.memory import allocations
    from fedsim.cli import console
    from fedsim.runs.refusals import Compared, refuse

    tried = None
    section = checked.spec.compare
    compared = Compared(methods, vary or None, tune or None)
    if section.methods or any(compared):
        tried = refuse(checked, device, compared)
    with numerics(checked, device=device) as devices:
        experiment = build(checked, devices=devices[:1])
        with allocations(experiment.scenario, experiment.counted):
            expected = {"scenario": checked.spec.name, **forecast(experiment)}
            expected["batch"] = one_batch(
                experiment
            )  # afterwards: its program would count as memory
    if tried is None and (section.vary or section.tune):
        expected["notes"].append(
            "compare names no methods, and its cells were not tried; write --methods LIST"
        )
    if tried is not None:
        expected["comparison"] = tried.record()
    if as_json:
        click.echo(json.dumps(expected))
    else:
        console.forecast(expected)
