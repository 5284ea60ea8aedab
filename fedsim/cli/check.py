"""`fedsim check`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli import options
from fedsim.errors import printable

if TYPE_CHECKING:
    from fedsim.scenario import Scenario


@click.command("check")
@options.scenario
@options.compared
@options.device
@click.option(
    "--resolved",
    is_flag=True,
    help="Print the scenario with its base, every --set and every default, and no forecast.",
)
@click.option("--verbose", is_flag=True, help="Also print how training is laid out on the device.")
@options.as_json("the forecast or the resolved scenario")
@options.debug
def check_command(
    device: str | None,
    resolved: bool,
    verbose: bool,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Build a scenario and all that it compares, and forecast a run; trains nothing.

    \b
    Examples:
      fedsim check scenarios/iid.yaml
      fedsim check scenarios/iid.yaml --set model=cnn --json
      fedsim check scenarios/compare/rules.yaml
      fedsim check scenarios/iid.yaml --resolved
      fedsim check iid --methods fedavg,'krum(f=3)' \\
          --vary cohort.size=5,20
    """
    arguments["device"] = device
    scenario = options.read_scenario(arguments, all_stages=True, compares=True)
    from fedsim.assemble import build
    from fedsim.assemble.experiment import numerics
    from fedsim.assemble.forecast import forecast, one_batch
    from fedsim.assemble.memory import allocations
    from fedsim.cli import console
    from fedsim.runs.holdout import with_holdout
    from fedsim.runs.refusals import CompareOverrides, refuse

    section = scenario.spec.compare
    overrides = CompareOverrides(
        methods=arguments["methods"],
        vary=arguments["vary"] or None,
        tune=arguments["tune"] or None,
        baselines=arguments["baselines"],
    )
    scenario, overrides = with_holdout(scenario, overrides)
    cells = None
    if section.methods or any(overrides):
        cells = refuse(scenario, device, overrides)

    with numerics(scenario, device=device) as devices:
        experiment = build(scenario, devices=devices[:1])
        if resolved:
            _print_resolved(experiment.scenario, as_json)
            return
        with allocations(experiment.scenario, experiment.memory_bytes):
            expected = {"scenario": scenario.spec.name, **forecast(experiment)}
            # Last, since its program would count as memory.
            expected["batch"], expected["step_seconds"] = one_batch(experiment)

    rounds = scenario.spec.rounds * len(scenario.spec.seeds)
    expected["training_seconds"] = expected["step_seconds"] * expected["steps_a_round"] * rounds
    if cells is not None:
        expected["comparison"] = cells.record()
        expected["notes"] += cells.notes
    elif section.vary or section.tune:
        expected["notes"].append(
            "compare names no methods, so no comparison was tried; add --methods LIST"
        )
    if as_json:
        click.echo(json.dumps(expected))
    else:
        console.forecast(expected, verbose)


def _print_resolved(scenario: "Scenario", as_json: bool) -> None:
    """Print a resolved scenario, which is one itself, with paths as seen from here."""
    from fedsim.runs.directory import yaml_of
    from fedsim.scenario.recorded_paths import resolved_from

    values = resolved_from(scenario, Path())
    if as_json:
        click.echo(json.dumps(values))
        return
    document = scenario.document
    if document.bases:
        chain = ", which extends ".join(document.bases)
        click.echo(printable(f"# {document.file} extends {chain}"))
    click.echo(yaml_of(values), nl=False)
