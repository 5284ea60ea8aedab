"""`fedsim run`."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from fedsim.cli import options
from fedsim.cli.interrupts import Interrupts


@click.command("run")
@options.scenario
@options.method
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Run directory [reports/<name>]."
)
@click.option(
    "--resume", is_flag=True, help="Resume the run in that directory from its last commit."
)
@click.option("--force", is_flag=True, help="Replace an earlier run in that directory.")
@options.device
@click.option(
    "--coordinator",
    metavar="HOST:PORT|auto",
    help="Be one of several processes; auto: ask the scheduler.",
)
@click.option("--processes", type=click.IntRange(1), help="How many processes there are.")
@click.option(
    "--process",
    type=click.IntRange(0),
    help="The number of this process, from 0; the first one writes.",
)
@options.log_to
@click.option(
    "--pictures/--no-pictures", default=True, help="Draw curves and partition into figures/."
)
@options.open_page
@click.option("--quiet", is_flag=True, help="No progress bar, no table.")
@options.as_json("the summary")
@options.debug
def run_command(
    out: Path | None, open_page: bool, quiet: bool, as_json: bool, **arguments: Any
) -> None:
    """Run a scenario and write its run directory: tables, pictures, models.

    \b
    Examples:
      fedsim run scenarios/iid.yaml
      fedsim run iid --set rounds=20 --set client.lr=0.05 \\
          --out reports/slow --force
      fedsim run scenarios/iid.yaml --set rounds=200 --resume
      fedsim run iid --method scaffold \\
          --out reports/scaffold
    """
    interrupts: Interrupts = click.get_current_context().obj
    if arguments["resume"] and arguments["force"]:
        raise click.UsageError("--resume continues a run and --force replaces it; give one of them")
    _join_processes(arguments, interrupts)
    scenario = options.read_scenario(arguments, all_stages=True)
    from fedsim.cli import console
    from fedsim.engine.processes import is_first_process
    from fedsim.runs.run import run

    folder = out or Path("reports") / scenario.spec.name
    is_first = is_first_process()
    quiet = quiet or not is_first
    shown = not quiet and not as_json
    with interrupts.heeded():
        result = run(scenario, out=folder, progress=shown, ask=interrupts.asked, **arguments)

    summary = result.records["summary"]
    if as_json and is_first:
        values = {"status": result.status, "out": str(folder), "summary": summary}
        click.echo(json.dumps(values))
    elif not quiet:
        console.table(result, folder)
    if open_page and is_first:
        options.show_page(folder / "report.html")

    for seed, note in result.notes.items():
        click.echo(f"fedsim: seed {seed}: {note}", err=True)
    rows = {row["seed"]: row for row in summary}
    for seed, reason in result.reasons.items():
        end = _end(rows[seed])
        click.echo(f"fedsim: seed {seed} {end}: {reason}; see {folder / 'rounds.csv'}", err=True)
    if result.reasons:
        sys.exit(5)


def _join_processes(arguments: dict[str, Any], interrupts: Interrupts) -> None:
    """Join the other processes of a run, if there are any; remove their options."""
    coordinator = arguments.pop("coordinator")
    processes = arguments.pop("processes")
    process = arguments.pop("process")
    if coordinator is not None:
        from fedsim.engine.processes import join

        lost = f"another process of this run is gone; {interrupts.farewell}"
        join(coordinator, processes, process, lost)


def _end(row: dict[str, Any]) -> str:
    """Return how a run ended before it had a result, by its row of `summary.csv`."""
    if row.get("status") == "not_run":
        return "has not run"
    return "diverged" if row["diverged"] else "stopped"
