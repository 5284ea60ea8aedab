"""`fedsim new --from-torch`."""

# torch may be missing where types are checked
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import math
import os
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import click

from fedsim.cli import options
from fedsim.cli.start import scenario_path, write_scenario
from fedsim.errors import ScenarioError
from fedsim.fields.torch.extra import MISSING, is_installed

YOURS = {"kind": "npz", "path": "mine.npz", "test": 0.2}  # what is there before samples are known


@click.command("new")
@click.argument("name", type=click.Path(path_type=Path), required=False)
@click.option(
    "--from-torch",
    "source",
    metavar="FILE:NAME",
    required=True,
    help="A file, and the class in it, as net.py:Net or 'net.py:Net(width=32)'. The file runs.",
)
@options.debug
def from_torch_command(name: Path | None, source: str) -> None:
    """Write a scenario that trains a torch.nn.Module of a file of yours.

    The module is made and called, to see which samples it takes and how many outputs it has. The
    data are a set of that form that comes with fedsim, or random clouds in place of your own.

    \b
    Examples:
      fedsim new --from-torch net.py:Net
      fedsim new mine --from-torch "net.py:Net(width=32)"
    """
    if not is_installed():
        raise click.UsageError(MISSING)
    file, model = _parts(source)
    path = scenario_path(name or file.with_suffix(""))
    module = _module(file, model)

    from fedsim.fields.torch.inputs import ends_of, inputs_of

    inputs = inputs_of(module)
    data = inputs.data if inputs else None
    section = {"kind": "torch", "path": os.path.relpath(file, path.parent), "name": model["kind"]}
    arguments = {key: value for key, value in model.items() if key != "kind"}
    if arguments:
        section["arguments"] = arguments

    unknown = f"none of the shapes that were tried; it goes {ends_of(module)}"
    takes = f"{model['kind']} takes {inputs.words if inputs else unknown}"
    starter = files("fedsim.fields.torch").joinpath("starter.yaml").read_text(encoding="utf-8")
    text = Template(starter).substitute(
        name=path.stem,
        plugin=file,
        inputs=takes,
        data="\n".join(f"  {key}: {_flow(value)}" for key, value in (data or YOURS).items()),
        model=_flow(section),
    )
    schema = write_scenario(path, text)

    parameters = sum(parameter.numel() for parameter in module.parameters())
    click.echo(f"{takes}, {parameters:,} parameters")
    way = f"fedsim run {path} --plugin {file}"
    if data is None:
        way = f"write its data, then {way}"
    click.echo(f"{path} and {schema} written; next: {way}")


def _flow(value: Any) -> str:
    """A value on one line of YAML."""
    import yaml

    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=math.inf)
    return text.removesuffix("...\n").strip()


def _parts(source: str) -> tuple[Path, dict[str, Any]]:
    """The file, and the name of the class with its arguments, as a call.

    Raises:
      UsageError: for anything else.
    """
    from fedsim.scenario.shorthand import call_of

    file, colon, name = source.partition(":")
    try:
        model = call_of(name) if colon else None
    except ValueError as error:
        raise click.UsageError(f"--from-torch {source}: {error}") from None
    if model is None or not file.endswith(".py"):
        raise click.UsageError(f"--from-torch {source}: write FILE.py:NAME, as net.py:Net")
    return Path(file), model


def _module(file: Path, model: dict[str, Any]) -> Any:
    """The module that a call makes; its file runs.

    Raises:
      UsageError: for a file that fails, a name that it does not have, and for anything else than a
        module.
    """
    from torch import nn

    from fedsim.fields.torch.kind import made, named
    from fedsim.scenario import enable

    name = model["kind"]
    try:
        enable(str(file))
        arguments = {key: value for key, value in model.items() if key != "kind"}
        module = made(named(str(file), name), name, arguments)
    except ScenarioError as error:
        raise click.UsageError(f"--from-torch {file}: {error.problems[0].what}") from None
    except ValueError as error:
        text = str(error).removeprefix("model: ")
        raise click.UsageError(f"--from-torch {file}: {text}") from None
    if not isinstance(module, nn.Module):
        made_of = type(module).__name__
        raise click.UsageError(f"--from-torch {file}: {name} makes a {made_of}, no torch module")
    return module
