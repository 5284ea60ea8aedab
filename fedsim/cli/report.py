"""Commands that show runs elsewhere: `report` and `export`."""

import json
import sys
from pathlib import Path

import click

from fedsim.cli import options
from fedsim.cli.interrupts import Interrupts
from fedsim.cli.screen import wrapped
from fedsim.installed import added

FOLDER = click.Path(file_okay=False, path_type=Path)
OF_FIELDS = tuple(form for _, forms in added("EXPORTS") for form in forms)
FORMATS = ("csv", "parquet", "xlsx", "latex", "markdown", "json", *OF_FIELDS)
BINARY = ("parquet", "xlsx", *OF_FIELDS)


@click.command("report")
@click.argument("directories", nargs=-1, required=True, type=FOLDER)
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write one page of all of them, and nothing else.",
)
@click.option(
    "--follow", is_flag=True, help="Rewrite the page every few seconds until the run ends."
)
@click.option(
    "--index",
    is_flag=True,
    help="Write one page that lists all runs in a folder: DIRECTORIES is that folder.",
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@options.as_json("the names of the files")
@options.debug
def report_command(
    directories: tuple[Path, ...],
    out: Path | None,
    follow: bool,
    index: bool,
    open_page: bool,
    as_json: bool,
) -> None:
    """Make page, pictures and paper tables of runs again, from their files alone.

    A run that was interrupted or killed is shown as far as it was committed, and marked as
    unfinished. A run in progress gets only the page, live.html, which --follow keeps up to date.
    --index makes a page of many runs: headline, score, date and state, to filter and to sort.

    \b
    Examples:
      fedsim report reports/iid
      fedsim report reports/*
      fedsim report reports/overnight --follow --open
      fedsim report reports/mean reports/median \\
          --out both.html
      fedsim report --index reports --open
    """
    from fedsim.report.derived import PAGE

    is_shown = False
    page = out or directories[-1] / PAGE
    if index:
        page = _write_index(directories, out, follow)
        files_by_folder = {str(page.parent): [page.name]}
    elif follow and _follow(directories, out, open_page):
        is_shown = True
        files_by_folder = {str(path): [PAGE] for path in directories}
        if out is not None:
            files_by_folder = {str(out.parent): [out.name]}
    elif out is not None:
        from fedsim.disk import files
        from fedsim.runs.derive import page_of_runs

        files.write_output(out, page_of_runs(directories))
        files_by_folder = {str(out.parent): [out.name]}
    else:
        files_by_folder = {}
        for path in directories:
            names, page = _rebuild(path)
            files_by_folder[str(path)] = names

    if open_page and not is_shown:
        options.show_page(page)
    if as_json:
        click.echo(json.dumps(files_by_folder))
    else:
        for folder, names in files_by_folder.items():
            click.echo(wrapped("  ".join([f"{folder}/", *names]), hanging="  "))


def _write_index(directories: tuple[Path, ...], out: Path | None, follow: bool) -> Path:
    """Write the page that lists the runs in a folder -> its path; name what is left out."""
    import os

    from fedsim.disk import files
    from fedsim.runs.gallery import INDEX, gallery_of

    if len(directories) != 1 or follow:
        raise click.UsageError("--index takes one folder of runs, and goes without --follow")
    (folder,) = directories
    page = out or folder / INDEX
    base = os.path.relpath(folder.resolve(), page.resolve().parent)
    content, skipped = gallery_of(folder, base)
    files.write_output(page, content)
    for line in skipped:
        click.echo(f"fedsim: left out: {line}", err=True)
    return page


def _rebuild(path: Path) -> tuple[list[str], Path]:
    """Make the files of a run again, or only its page while it goes on -> their names, the page."""
    from fedsim.errors import LockedError
    from fedsim.report.derived import PAGE
    from fedsim.runs.derive import rebuild

    try:
        return rebuild(path), path / PAGE
    except LockedError as error:
        from fedsim.runs.live import show

        page = show(path)
        reason = str(error).partition(";")[0]
        text = f"{page.name} shows what it has committed, --follow keeps it up to date"
        click.echo(f"fedsim: {reason}; {text}", err=True)
        return [page.name], page


def _follow(directories: tuple[Path, ...], out: Path | None, open_page: bool) -> bool:
    """Keep a page up to date while its runs are in progress; return whether any was."""
    from fedsim.runs.live import follow

    if len(directories) > 1 and out is None:
        raise click.UsageError("--follow writes one page; give one directory, or --out FILE")
    interrupts: Interrupts = click.get_current_context().obj

    def announce(page: Path) -> None:
        text = "rewritten every few seconds until the run ends; Ctrl-C stops this"
        click.echo(f"{page}: {text}", err=True)
        if open_page:
            options.show_page(page)

    with interrupts.heeded():
        was_in_progress = follow(directories, out, interrupts.asked, announce)
    if interrupts.asked():
        sys.exit(interrupts.code)
    return was_in_progress


@click.command("export")
@click.argument("directory", type=FOLDER)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="csv",
    show_default=True,
    help="Format of the table.",
)
@click.option(
    "--table",
    metavar="NAME",
    help="rounds, summary, compare ... [what a paper shows: a row per method; in xlsx, all; "
    "in json, compare or summary].",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a file instead of stdout.",
)
@click.option(
    "--spread",
    type=click.Choice(["sd", "interval"]),
    default="sd",
    show_default=True,
    help="What follows a paper's means.",
)
@click.option(
    "--excel-safe/--raw",
    "guard",
    default=None,
    help="Whether to put ' before text that a spreadsheet would compute.  "
    "[default: in csv and xlsx]",
)
@options.debug
def export_command(
    directory: Path, form: str, table: str | None, out: Path | None, spread: str, guard: bool | None
) -> None:
    """Export a table of a run: CSV, Parquet, LaTeX with booktabs, Markdown, JSON; or all to Excel.

    \b
    Examples:
      fedsim export reports/iid --format markdown
      fedsim export reports/iid --table rounds \\
          --format parquet --out rounds.parquet
      fedsim export reports/iid --format xlsx --out iid.xlsx
      fedsim export reports/robust_basic-compare \\
          --format latex --out table.tex
    """
    from fedsim.disk import files
    from fedsim.runs.export import exported

    if form in BINARY and out is None:
        raise click.UsageError(f"{form} is not text; give --out FILE", click.get_current_context())
    content = exported(directory, table, form, guard, spread)
    if out is not None:
        files.write_output(out, content)
        click.echo(f"{out} written")
    else:
        click.echo(content.decode(), nl=False)
