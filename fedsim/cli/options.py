"""Options that several commands share, and the scenario that they describe."""

import difflib
import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.errors import ScenarioError

if TYPE_CHECKING:
    from fedsim.scenario import Scenario


class Seeds(click.ParamType):
    """`5` -> 5, `0,1` -> [0, 1], `3,` -> [3], as text for `--set`."""

    name = "N|LIST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = re.sub(r"\s+", "", str(value))
        if not re.fullmatch(r"\d{1,12}(,\d{1,12})*,?", text):
            self.fail(
                f"{value!r}: write 5 (the first five), 0,1,2 (these) or 3, (a single one)",
                param,
                ctx,
            )
        return f"[{text.strip(',')}]" if "," in text else text


def debug(command: Callable) -> Callable:
    """`--debug`, which `main` looks for on the command line itself."""
    return click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")(
        command
    )


def as_json(output: str) -> Callable:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {output} as JSON.")


plugins = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE|NAME",
    help="Enable your own links; repeatable.",
)
device = click.option(
    "--device",
    metavar="KIND[:I,J]",
    help="Compute on cpu, gpu, gpu:0,1 ... [all of the default kind].",
)
open_page = click.option(
    "--open", "open_page", is_flag=True, help="Open report.html in a browser at the end."
)
edits = click.option(
    "-s",
    "--set",
    "edits",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value, e.g. client.lr=0.05; repeatable.",
)
seeds = click.option(
    "--seeds", type=Seeds(), help="'5' = the first five, '0,1,2' = these, '3,' = this one."
)
log_to = click.option(
    "--log-to",
    default="",
    metavar="NAMES",
    help="Every row to tensorboard, wandb or mlflow as well; several: a,b.",
)
data_roots = click.option(
    "--data-root",
    "data_roots",
    multiple=True,
    envvar="FEDSIM_DATA_ROOT",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Where a scenario may read data besides its own folder and this one; repeatable.",
)


def scenario(command: Callable) -> Callable:
    """SCENARIO and what changes or completes it: `understood` reads all of them."""
    options = [click.argument("scenario", type=click.Path()), edits, seeds, plugins, data_roots]
    for option in reversed(options):
        command = option(command)
    return command


_COMPARED = [
    click.option(
        "--methods",
        metavar="LIST",
        help="Methods or rules, e.g. fedavg,fedprox(mu=0.1),median; fedprox(mu=0.1|1) is tuned [compare.methods].",
    ),
    click.option(
        "--vary", multiple=True, metavar="PATH=V1,V2", help="An axis of the grid; repeatable."
    ),
    click.option(
        "--tune",
        multiple=True,
        metavar="PATH=V1,V2",
        help="Settings that every method is tried with; repeatable.",
    ),
]


def compared(command: Callable) -> Callable:
    """`--methods`, `--vary` and `--tune`: what is compared."""
    for option in reversed(_COMPARED):
        command = option(command)
    return command


def understood(
    arguments: dict[str, Any], whole: bool = False, compares: bool = False
) -> "Scenario":
    """The scenario that the shared options describe, which are taken out of the arguments of a command.

    Args:
      arguments: of the command.
      whole: whether a scenario that is refused is to be told with what the stages behind reading refuse.
      compares: whether these include the cells of its comparison.

    Raises:
      ScenarioError: with every problem found.
      OSError: when there is no such file; the message names files that may be meant.
    """
    scenario, edits, seeds = (arguments.pop(name) for name in ("scenario", "edits", "seeds"))
    plugins, data_roots = arguments.pop("plugins"), arguments.pop("data_roots")
    path = Path(scenario)
    if not path.is_file():
        from fedsim.scenario.shipped import scenario_file

        path = scenario_file(path)
    if path.is_dir():
        inside = path / "scenario.yaml"
        kind = (
            f"is a run directory; its scenario is {inside}"
            if inside.is_file()
            else "is a directory, not a scenario"
        )
        raise IsADirectoryError(errno.EISDIR, kind, scenario)
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT) + _meant(path), scenario)
    enabled(plugins)
    from fedsim.scenario import read

    edits = (*edits, *([f"seeds={seeds}"] if seeds else []))
    try:
        return read(path, edits, data_roots=data_roots)
    except ScenarioError as error:
        if not whole or error.mended is None:
            raise
        from fedsim.runs.refusals import Compared, completed

        names = ("methods", "vary", "tune", "baseline", "score")
        comparison = (
            Compared(**{name: arguments.get(name) or None for name in names}) if compares else None
        )
        raise completed(error, arguments.get("device"), comparison) from None


def enabled(plugins: tuple[str, ...]) -> None:
    """Enable a user's own links."""
    if plugins:
        from fedsim.scenario import enable

        for plugin in plugins:
            enable(plugin)


def _meant(path: Path) -> str:
    """The scenario nearby whose name is like the one that was given."""
    from fedsim.scenario.shipped import shipped

    local = {
        file.stem: file
        for folder in (path.parent, Path("scenarios"))
        for file in sorted(folder.glob("*.yaml"))
    }
    known = {**{name: name for name in shipped()}, **local}
    near = difflib.get_close_matches(path.stem, known, n=1)
    return (
        f"; did you mean {known[near[0]]}?"
        if near
        else "; fedsim new NAME writes one to start from"
    )


def show_page(path: Path) -> None:
    """Show a page in the user's browser; where there is none, say where it is."""
    if not path.is_file() or click.launch(str(path)) != 0:
        click.echo(f"{path}: open it in a browser", err=True)
