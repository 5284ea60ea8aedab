"""`fedsim suite`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli import options
from fedsim.cli.interrupts import Interrupts
from fedsim.cli.records import print_check
from fedsim.errors import printable

if TYPE_CHECKING:
    from fedsim.runs.verify import Verification

FOLDER = click.Path(file_okay=False, path_type=Path)


@click.group("suite")
@options.debug
def suite_command() -> None:
    """Compare methods on many tasks under one protocol.

    \b
    Examples:
      fedsim suite run scenarios/suite --size small \\
          --out reports/suite
      fedsim suite verify reports/suite --share 0.1
      fedsim suite report reports/suite \\
          --out reports/suite-report
    """


@suite_command.command("run")
@click.argument("tasks", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--size", metavar="NAME", help="An entry of sizes.yml beside the tasks.")
@options.edits
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="Folder of the runs."
)
@click.option("--resume", is_flag=True, help="Go on there; what has finished stays.")
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=1, help="Processes that do runs side by side."
)
@options.plugins
@options.debug
def run_command(
    tasks: tuple[Path, ...],
    size: str | None,
    edits: tuple[str, ...],
    out: Path,
    plugins: tuple[str, ...],
    resume: bool,
    jobs: int,
) -> None:
    """Run the comparison of every task, in the folder OUT/TASK.

    TASKS are scenarios with compare.suite, or folders of them. A task that fails does not stop the
    others; in the end, the exit code is that of the first one that failed.

    \b
    Examples:
      fedsim suite run scenarios/suite --size small \\
          --out reports/suite
      fedsim suite run scenarios/suite --size small \\
          --out reports/suite --resume
      fedsim suite run scenarios/suite/label_skew_01.yaml \\
          --out reports/suite
    """
    options.enable(plugins)
    interrupts: Interrupts = click.get_current_context().obj
    from fedsim.tools.suite.execute import run_suite
    from fedsim.tools.suite.tasks import tasks_of

    code = 0
    found = tasks_of(tasks, size, edits)
    with interrupts.heeded():
        for ended in run_suite(found, out, resume, interrupts.asked, jobs=jobs):
            click.echo(f"{ended.folder}/  {ended.line}", err=ended.code != 0)
            code = code or ended.code
    sys.exit(code)


@suite_command.command("verify")
@click.argument("folder", type=FOLDER)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.1,
    help="The share of all runs that are replayed; at least one is.",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Which runs are drawn.")
@click.option(
    "--whole", is_flag=True, help="Replay every round, not only the first one and the last ones."
)
@options.device
@options.plugins
@options.data_roots
@options.debug
def verify_command(
    folder: Path, share: float, seed: int, plugins: tuple[str, ...], **arguments: Any
) -> None:
    """Check the results of a suite: files and tables of all, and drawn runs, replayed bit by bit.

    The exit code is 7 if something is wrong; 2 if nothing is, and something could not be checked
    here, such as runs of another machine.

    \b
    Examples:
      fedsim suite verify reports/suite --share 0.1
      fedsim suite verify reports/suite --share 1 --whole \\
          --plugin mine.py
    """
    options.enable(plugins)
    from fedsim.tools.suite.drawn import draw, verify_drawn

    results: list[Verification] = []
    for drawn in draw(folder, share, seed):
        click.echo(printable(f"{drawn.path}/"))
        results.append(verify_drawn(drawn, say=print_check, **arguments))
    if any(result.wrong for result in results):
        sys.exit(7)
    if not all(result.equal for result in results):
        sys.exit(2)


@suite_command.command("report")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder of the report.",
)
@options.force
@options.open_page
@options.debug
def report_command(folders: tuple[Path, ...], out: Path, force: bool, open_page: bool) -> None:
    """Write tables, LaTeX and a page about all tasks of a suite.

    FOLDERS are what fedsim suite run wrote; methods of several of them join one table per task,
    which has to be the same task: scenario, seeds, budget and baseline.
    What the page says has been tested under the same seeds, after Holm over all pairs of methods;
    methods that cannot be told apart are said to be so. A run that failed or diverged counts as the
    worst possible.

    \b
    Examples:
      fedsim suite report reports/suite \\
          --out reports/suite-report
      fedsim suite report reports/suite reports/mine \\
          --out reports/both --open
    """
    from fedsim.tools.suite.report import PAGE, write_report

    written = write_report(folders, out, force)
    for line in written.left_out:
        click.echo(f"fedsim: left out: {line}", err=True)
    click.echo(f"{out}/  {'  '.join(written.names)}")
    click.echo(written.headline)
    if open_page:
        options.show_page(out / PAGE)
