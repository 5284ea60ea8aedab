"""`fedsim suite`."""

import sys
from pathlib import Path

import click

from fedsim.cli import options
from fedsim.cli.interrupts import Interrupts


@click.group("suite")
@options.debug
def suite_command() -> None:
    """Compare methods on many tasks under one protocol.

    \b
    Examples:
      fedsim suite run scenarios/suite --size small --out reports/suite
      fedsim suite report reports/suite --out reports/suite-report
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
@options.debug
def run_command(
    tasks: tuple[Path, ...],
    size: str | None,
    edits: tuple[str, ...],
    out: Path,
    resume: bool,
    jobs: int,
) -> None:
    """Run the comparison of every task, in the folder OUT/TASK.

    TASKS are scenarios with compare.suite, or folders of them. A task that fails does not stop the
    others; in the end, the exit code is that of the first one that failed.

    \b
    Examples:
      fedsim suite run scenarios/suite --size small --out reports/suite
      fedsim suite run scenarios/suite --size small --out reports/suite --resume
      fedsim suite run scenarios/suite/label_skew_01.yaml --out reports/suite
    """
    interrupts: Interrupts = click.get_current_context().obj
    from fedsim.suite.execute import run_suite
    from fedsim.suite.tasks import tasks_of

    code = 0
    found = tasks_of(tasks, size, edits)
    with interrupts.heeded():
        for ended in run_suite(found, out, resume, interrupts.asked, jobs=jobs):
            click.echo(f"{ended.folder}/  {ended.line}", err=ended.code != 0)
            code = code or ended.code
    sys.exit(code)


@suite_command.command("report")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder of the report.",
)
@options.open_page
@options.debug
def report_command(folders: tuple[Path, ...], out: Path, open_page: bool) -> None:
    """Write tables, LaTeX and a page about all tasks of a suite.

    FOLDERS are what fedsim suite run wrote; methods of several of them join one table per task.
    What the page says has been tested under the same seeds, after Holm over all pairs of methods;
    methods that cannot be told apart are said to be so. A run that failed or diverged counts as the
    worst possible.

    \b
    Examples:
      fedsim suite report reports/suite --out reports/suite-report
      fedsim suite report reports/suite reports/mine --out reports/both --open
    """
    from fedsim.suite.report import PAGE, write_report

    written = write_report(folders, out)
    for line in written.left_out:
        click.echo(f"fedsim: left out: {line}", err=True)
    click.echo(f"{out}/  {'  '.join(written.names)}")
    click.echo(written.headline)
    if open_page:
        options.show_page(out / PAGE)
