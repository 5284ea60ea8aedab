"""`fedsim export --format zip`."""

import json
from pathlib import Path

import click

from fedsim.cli import options
from fedsim.errors import printable


@click.command("bundle")
@click.argument(
    "directories",
    nargs=-1,
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
)
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The zip.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Pack the file of your own kinds, as text; repeatable.",
)
@click.option("--license", metavar="TEXT|URL", help="Under which others may use it.")
@click.option(
    "--limit",
    "limit_mb",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    metavar="MB",
    help="Larger files and data sets are left out, and named with their SHA-256.",
)
@click.option(
    "--commits",
    is_flag=True,
    help="Also pack logs, commits and kept updates, for fork, verify and --resume.",
)
@options.data_roots
@options.as_json("what is in it and what is not")
@options.debug
def bundle_command(
    directories: tuple[Path, ...],
    out: Path,
    plugins: tuple[Path, ...],
    license: str | None,
    limit_mb: float,
    commits: bool,
    data_roots: tuple[str, ...],
    as_json: bool,
) -> None:
    """Pack runs that have ended into a zip, with everything that repeats them.

    Tables, pages, scenarios as written and resolved, small data, plug-ins as text, versions, a
    README with the command, and ro-crate-metadata.json. The same runs give the same bytes.

    \b
    Examples:
      fedsim export --format zip reports/iid -o paper.zip
      fedsim export --format zip reports/iid -o paper.zip \\
          --license CC-BY-4.0 --limit 50
      fedsim export --format zip reports/mine -o mine.zip \\
          --plugin mine.py
    """
    from fedsim.disk.files import readable_size
    from fedsim.tools.bundle.packing import bundle
    from fedsim.tools.bundle.readme import line_of

    made = bundle(
        directories,
        out,
        plugins=plugins,
        license=license,
        limit_mb=limit_mb,
        commits=commits,
        data_roots=data_roots,
    )
    if as_json:
        left_out = [item._asdict() for item in made.left_out]
        values = {"out": str(out), "bytes": len(made.content), "left_out": left_out}
        click.echo(json.dumps({**values, "files": [file.name for file in made.packed]}))
        return
    click.echo(f"{out}: {len(made.packed)} files, {readable_size(len(made.content))}")
    for item in made.left_out:
        click.echo(printable(f"left out: {line_of(item)}"))
