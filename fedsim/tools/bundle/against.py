"""`fedsim verify --against` of bundles and scenarios: run again what has to be compared."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli import options
from fedsim.cli.against import print_outcomes
from fedsim.cli.interrupts import Interrupts
from fedsim.errors import printable

if TYPE_CHECKING:
    from fedsim.runs.against import Again
    from fedsim.tools.bundle.again import Repeating
    from fedsim.tools.bundle.unpack import Opened


@click.command("against")
@click.argument("source", required=False, metavar="[DIRECTORY|SCENARIO]", type=click.Path())
@click.option(
    "--against",
    "bundle",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR|ZIP",
    help="The run, or the bundle of runs, that it should be.",
)
@options.edits
@options.seeds
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Keep there what is run for this."
)
@options.device
@options.plugins
@options.data_roots
@options.trust_data
@options.as_json("the outcome")
@options.debug
def against_command(
    source: str | None,
    bundle: Path,
    out: Path | None,
    device: str | None,
    trust_data: bool,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Compare a run with another one, or with the runs of a bundle; or repeat these.

    A DIRECTORY is compared, and nothing is run: what differs is listed, from the scenario to the
    models. A SCENARIO is run, and then compared. Without either, the runs of the bundle are run
    again. In the same environment all bytes have to be equal, elsewhere the scores of paired seeds
    are tested. Exit code 7 where something differs, 2 where that cannot be told.

    Opening a bundle executes nothing; code in it runs if you give it with --plugin.

    \b
    Examples:
      fedsim verify reports/again --against reports/iid
      fedsim verify reports/again --against reports/iid --json
      fedsim verify --against paper.zip
      fedsim verify mine.yaml --against paper.zip \\
          --plugin mine.py
    """
    from fedsim.errors import DirectoryError
    from fedsim.runs.lock import held
    from fedsim.tools.bundle.again import Repeating
    from fedsim.tools.bundle.unpack import opened

    if source is None and (arguments["edits"] or arguments["seeds"]):
        raise click.UsageError("--set and --seeds change a SCENARIO; give one")
    if out is not None and out.exists():
        raise DirectoryError(f"{out}: already exists; choose another --out")
    interrupts: Interrupts = click.get_current_context().obj
    with contextlib.ExitStack() as stack:
        folder = out
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedsim-")))
        content = stack.enter_context(opened(bundle))
        stack.enter_context(interrupts.heeded())
        if out is not None:
            stack.enter_context(held(out))
        repeating = Repeating(
            folder=folder,
            data_roots=arguments["data_roots"],
            device=device,
            ask=interrupts.asked,
            trust_data=trust_data,
            say=lambda line: click.echo(printable(line), err=as_json),
        )
        code = print_outcomes(_outcomes(source, content, repeating, arguments), as_json)
    sys.exit(code)


def _outcomes(
    source: str | None, content: "Opened", repeating: "Repeating", arguments: dict[str, Any]
) -> "Iterator[Again]":
    """Yield the outcome of every run that is compared."""
    from fedsim.runs.against import against, two_runs
    from fedsim.tools.bundle.again import repeated, run_like

    if source is None:
        options.enable(arguments["plugins"])
        yield from repeated(content, repeating)
    elif Path(source).is_dir():
        path = Path(source)
        yield two_runs(path, content.runs[run_like(content, path)])
    else:
        path = _run(source, repeating, arguments)
        name = run_like(content, path)
        yield against(name, content.runs[name], path)


def _run(source: str, repeating: "Repeating", arguments: dict[str, Any]) -> Path:
    """Run a scenario -> its run directory."""
    from fedsim.runs.compare import compare
    from fedsim.runs.run import run

    scenario = options.read_scenario({"scenario": source, **arguments})
    out = repeating.folder / scenario.spec.name
    play = compare if scenario.spec.compare.methods else run
    play(scenario, out=out, **repeating.options)
    return out
