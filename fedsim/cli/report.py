"""Commands that show finished runs elsewhere: `report` and `export`."""

from pathlib import Path

import click

from fedsim.cli import options

FOLDER = click.Path(file_okay=False, path_type=Path)
FORMATS = ("csv", "parquet", "latex", "markdown", "json")


@click.command("report")
@click.argument("directories", nargs=-1, required=True, type=FOLDER)
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write one page of them all, and nothing else."
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@options.as_json("the names of the files")
@options.debug
def report_command(directories: tuple[Path, ...], out: Path | None, open_page: bool, as_json: bool) -> None:
    """Make page, pictures and paper tables of finished runs again, from their files alone.

    \b
    Examples:
      fedsim report reports/iid
      fedsim report reports/*
      fedsim report reports/mean reports/median --out both.html
    """
    import json

    from fedsim.disk import files
    from fedsim.report.derived import PAGE
    from fedsim.runs.derive import page_of_runs, rebuild

    if out is not None:
        files.write_named(out, page_of_runs(directories))
        written = {str(out.parent): [out.name]}
    else:
        written = {str(path): rebuild(path) for path in directories}
    if open_page:
        options.show_page(out or directories[-1] / PAGE)
    if as_json:
        click.echo(json.dumps(written))
    else:
        for path, names in written.items():
            click.echo(f"{path}/  {'  '.join(names)}")


@click.command("export")
@click.argument("directory", type=FOLDER)
@click.option("--format", "form", type=click.Choice(FORMATS), default="csv", show_default=True, help="Of the table.")
@click.option("--table", metavar="NAME", help="rounds, summary, compare ... [what a paper shows: a row per method].")
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write a file instead of stdout.")
@click.option("--excel-safe", is_flag=True, help="Put ' before text that a spreadsheet would compute.")
@options.debug
def export_command(directory: Path, form: str, table: str | None, out: Path | None, excel_safe: bool) -> None:
    """Give a table of a run to other programs: CSV, Parquet, LaTeX with booktabs, Markdown, or JSON.

    \b
    Examples:
      fedsim export reports/iid --format markdown
      fedsim export reports/iid --table rounds --format parquet --out rounds.parquet
      fedsim export reports/robust_basic-compare --format latex --out table.tex
    """
    from fedsim.disk import files
    from fedsim.runs.export import exported

    content = exported(directory, table, form, excel_safe)
    if out is not None:
        files.write_named(out, content)
        click.echo(f"{out} written")
    elif form == "parquet":
        raise click.UsageError("parquet is no text; give --out FILE", click.get_current_context())
    else:
        click.echo(content.decode(), nl=False)
