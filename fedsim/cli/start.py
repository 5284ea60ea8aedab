"""`fedsim new`, with `--schema` or without."""

import errno
import json
import re
from importlib.resources import files
from pathlib import Path

import click

from fedsim.cli import options
from fedsim.cli.screen import wrapped
from fedsim.disk.files import write, write_output

# Its name next to a new scenario, whose first line tells editors to look for it.
SCHEMA = "fedsim.schema.json"


@click.command("new")
@click.argument("name", type=click.Path(path_type=Path))
@click.option(
    "--extends",
    metavar="SCENARIO",
    help="Build on another scenario, of the same folder or one that comes with fedsim.",
)
@options.debug
def new_command(name: Path, extends: str | None) -> None:
    """Write a commented scenario to start from, NAME.yaml, and a schema for editors next to it.

    \b
    Examples:
      fedsim new mine
      fedsim new scenarios/mine
      fedsim new longer --extends iid
    """
    path = scenario_path(name)
    template = "starter.yaml"
    if extends is not None:
        from fedsim.scenario.bases import demand_base

        template = "extending.yaml"
        demand_base(extends, path)
    starter = files("fedsim.scenario").joinpath(template).read_text(encoding="utf-8")
    starter = starter.replace("extends: iid", f"extends: {extends}")
    schema = write_scenario(path, starter.replace("STARTER", path.stem))
    text = f"{path} and {schema} written; next: fedsim check {path}, fedsim run {path}"
    click.echo(wrapped(text, hanging="  "))


def scenario_path(name: Path) -> Path:
    """Return the file of a new scenario, which may be named without its ending."""
    path = name if name.suffix in (".yaml", ".yml") else name.with_name(f"{name.name}.yaml")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", path.stem):
        allowed = "at most 64 letters, digits, '.', '_' or '-'"
        raise click.UsageError(f"{path.stem!r} is not a name; use {allowed}")
    if path.exists():
        raise FileExistsError(errno.EEXIST, "already exists; choose another name", str(path))
    return path


def write_scenario(path: Path, text: str) -> Path:
    """Write a new scenario, whose text calls its file `starter.yaml`, and a schema -> that file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(text.replace("starter.yaml", str(path)))
    # There may be one of an earlier fedsim. A link there is replaced, not followed.
    schema = path.parent / SCHEMA
    write(schema, _schema())
    return schema


@click.command("schema")
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a file instead of stdout.",
)
@options.plugins
@options.debug
def schema_command(out: Path | None, plugins: tuple[str, ...]) -> None:
    """Print the JSON Schema of scenarios, with which editors complete, explain and check them.

    A scenario names it in its first line: # yaml-language-server: $schema=fedsim.schema.json

    \b
    Examples:
      fedsim new --schema --out fedsim.schema.json
      fedsim new --schema --plugin mine.py
    """
    options.enable(plugins)
    if out is None:
        click.echo(_schema(), nl=False)
        return
    write_output(out, _schema())
    line = f"# yaml-language-server: $schema={out}"
    click.echo(f"{out} written; name it in a scenario's first line: {line}")


def _schema() -> str:
    from fedsim.scenario.json_schema import editor_schema

    return json.dumps(editor_schema(), indent=1, ensure_ascii=False) + "\n"
