"""Commands that show finished runs elsewhere: `report` and `export`."""

import json
import sys
from pathlib import Path

import click

from fedsim.cli import options
from fedsim.cli.interrupts import Interrupts

FOLDER = click.Path(file_okay=False, path_type=Path)
FORMATS = ("csv", "parquet", "latex", "markdown", "json")


@click.command("report")
@click.argument("directories", nargs=-1, required=True, type=FOLDER)
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write one page of them all, and nothing else.",
)
@click.option(
    "--follow", is_flag=True, help="Write the page anew every few seconds, until the run ends."
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@options.as_json("the names of the files")
@options.debug
def report_command(
    directories: tuple[Path, ...], out: Path | None, follow: bool, open_page: bool, as_json: bool
) -> None:
    """Make page, pictures and paper tables of runs again, from their files alone.

    Of a run that was interrupted or killed they are made from all that it has committed, and marked as unfinished. Of one
    that is under way there is the page alone, live.html, which --follow keeps up to date.

    \b
    Examples:
      fedsim report reports/iid
      fedsim report reports/*
      fedsim report reports/overnight --follow --open
      fedsim report reports/mean reports/median --out both.html
    """
    from fedsim.report.derived import PAGE

    pages = {path: path / PAGE for path in directories}
    if follow and _followed(directories, out, open_page):
        written = (
            {str(path): [PAGE] for path in directories}
            if out is None
            else {str(out.parent): [out.name]}
        )
        open_page = False
    elif out is not None:
        from fedsim.disk import files
        from fedsim.runs.derive import page_of_runs

        files.write_named(out, page_of_runs(directories))
        written = {str(out.parent): [out.name]}
    else:
        written = {str(path): _rebuilt(path, pages) for path in directories}
    if open_page:
        options.show_page(out or pages[directories[-1]])
    if as_json:
        click.echo(json.dumps(written))
    else:
        for path, names in written.items():
            click.echo(f"{path}/  {'  '.join(names)}")


def _rebuilt(path: Path, pages: dict[Path, Path]) -> list[str]:
    """Names of the files that were made; of a run that is under way there is a page alone."""
    from fedsim.errors import LockedError
    from fedsim.runs.derive import rebuild

    try:
        return rebuild(path)
    except LockedError as error:
        from fedsim.runs.live import show

        pages[path] = show(path)
        held = str(error).partition(";")[0]
        click.echo(
            f"fedsim: {held}; {pages[path].name} is what it has committed, --follow keeps it fresh",
            err=True,
        )
        return [pages[path].name]


def _followed(directories: tuple[Path, ...], out: Path | None, open_page: bool) -> bool:
    """Keep a page up to date as long as its runs go on -> whether any did."""
    from fedsim.runs.live import follow

    if len(directories) > 1 and out is None:
        raise click.UsageError("--follow writes one page; give one directory, or --out FILE")
    interrupts: Interrupts = click.get_current_context().obj

    def say(page: Path) -> None:
        click.echo(
            f"{page}: written anew every few seconds until the run ends; Ctrl-C stops looking",
            err=True,
        )
        if open_page:
            options.show_page(page)

    with interrupts.heeded():
        looked = follow(directories, out, interrupts.asked, say)
    if interrupts.asked():
        sys.exit(interrupts.code)
    return looked


@click.command("export")
@click.argument("directory", type=FOLDER)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="csv",
    show_default=True,
    help="Of the table.",
)
@click.option(
    "--table",
    metavar="NAME",
    help="rounds, summary, compare ... [what a paper shows: a row per method].",
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
    help="Behind a paper's means.",
)
@click.option(
    "--excel-safe/--raw",
    "guard",
    default=None,
    help="Whether ' stands before text that a spreadsheet would compute.  [default: in csv only]",
)
@options.debug
def export_command(
    directory: Path, form: str, table: str | None, out: Path | None, spread: str, guard: bool | None
) -> None:
    """Give a table of a run to other programs: CSV, Parquet, LaTeX with booktabs, Markdown, or JSON.

    \b
    Examples:
      fedsim export reports/iid --format markdown
      fedsim export reports/iid --table rounds --format parquet --out rounds.parquet
      fedsim export reports/robust_basic-compare --format latex --out table.tex
    """
    from fedsim.disk import files
    from fedsim.runs.export import exported

    content = exported(directory, table, form, guard, spread)
    if out is not None:
        files.write_named(out, content)
        click.echo(f"{out} written")
    elif form == "parquet":
        raise click.UsageError("parquet is no text; give --out FILE", click.get_current_context())
    else:
        click.echo(content.decode(), nl=False)
