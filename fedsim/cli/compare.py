"""`fedsim compare`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli import options
from fedsim.cli.interrupts import Interrupts

if TYPE_CHECKING:
    from fedsim.runs.comparison import Comparison


@click.command("compare")
@options.scenario
@options.compared
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=1, help="Processes that do runs side by side."
)
@click.option(
    "--on",
    metavar="dask://HOST:PORT",
    help="Let the workers of this scheduler do the runs; tls:// with dask's certificates.",
)
@click.option(
    "--baseline",
    metavar="METHOD",
    help="The method that the others are compared with [fedavg, or the first federated one].",
)
@click.option(
    "--metric", metavar="COLUMN", help="Column of rounds.csv that decides [evaluate.metric]."
)
@click.option(
    "--score",
    type=click.Choice(["final", "best", "mean_last_k", "own"]),
    help="Which value of a run [final]; own: on the clients' own test samples, each with the "
    "model that it would use [with local_only as baseline].",
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Run directory [reports/<name>-compare]."
)
@click.option(
    "--resume",
    is_flag=True,
    help="Resume there; finished runs stay, methods and seeds may be added.",
)
@click.option("--force", is_flag=True, help="Replace what is there.")
@options.device
@options.log_to
@click.option(
    "--pictures/--no-pictures", default=True, help="Draw curves and differences into figures/."
)
@options.open_page
@click.option("--quiet", is_flag=True, help="No progress bar, no verdict.")
@options.as_json("verdict and table")
@options.debug
def compare_command(
    out: Path | None, open_page: bool, quiet: bool, as_json: bool, **arguments: Any
) -> None:
    """Run methods under identical conditions over several seeds, and report which differ.

    The report says by how much they differ, and how sure that is.

    \b
    Examples:
      fedsim compare dirichlet \\
          --methods fedavg,scaffold,fedadam --seeds 6
      fedsim compare iid --methods fedavg,scaffold \\
          --baselines
      fedsim compare robust_basic \\
          --methods mean,median,'krum(f=6)'
      fedsim compare robust_basic --methods mean,median \\
          --vary fleet.malicious=0,0.2
      fedsim compare iid --methods 'fedprox(mu=0.1|1)' \\
          --set data.validation=0.1
      fedsim compare scenarios/compare/heterogeneity.yaml
    """
    interrupts: Interrupts = click.get_current_context().obj
    if arguments["resume"] and arguments["force"]:
        raise click.UsageError(
            "--resume continues a comparison and --force replaces it; give one of them"
        )
    if arguments["on"] and arguments["jobs"] > 1:
        raise click.UsageError("--jobs is for this machine and --on for others; give one of them")
    scenario = options.read_scenario(arguments, all_stages=True, compares=True)
    from fedsim.cli import console
    from fedsim.runs.compare import compare

    folder = out or Path("reports") / f"{scenario.spec.name}-compare"
    shown = not quiet and not as_json
    with interrupts.heeded():
        comparison = compare(
            scenario, out=folder, progress=shown, ask=interrupts.asked, **arguments
        )

    if as_json:
        click.echo(json.dumps(_plain(comparison, folder)))
    elif not quiet:
        console.verdict(comparison, folder)
    if open_page:
        options.show_page(folder / "report.html")

    for edge in comparison.edges:
        if not shown or edge not in comparison.verdict:
            click.echo(f"fedsim: {edge}", err=True)
    for run, reason in comparison.reasons.items():
        click.echo(f"fedsim: {run}: {reason}", err=True)
    if comparison.status != "done":
        sys.exit(8 if any(outcome.large for outcome in comparison.outcomes) else 5)


def _plain(comparison: "Comparison", folder: Path) -> dict[str, Any]:
    return {
        "status": comparison.status,
        "out": str(folder),
        "baseline": comparison.baseline,
        "verdict": comparison.verdict,
        "compare": comparison.records["compare"],
        "reasons": comparison.reasons,
    }
