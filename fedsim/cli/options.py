"""Options that several commands share, and the scenario that they describe."""

import errno
import glob
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from fedsim.errors import ScenarioError, nearest

if TYPE_CHECKING:
    from fedsim.scenario import Scenario

# What the environment of a Linux desktop has, or names a browser.
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


class Seeds(click.ParamType):
    """`5` -> 5, `0,1` -> [0, 1], `3,` -> [3], as text for `--set`."""

    name = "N|LIST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = re.sub(r"\s+", "", str(value))
        if not re.fullmatch(r"\d{1,12}(,\d{1,12})*,?", text):
            forms = "write 5 (the first five), 0,1,2 (these) or 3, (a single one)"
            self.fail(f"{value!r}: {forms}", param, ctx)
        return f"[{text.strip(',')}]" if "," in text else text


def debug(command: Callable) -> Callable:
    """`--debug`, which `main` looks for on the command line itself."""
    option = click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
    return option(command)


force = click.option("--force", is_flag=True, help="Replace files of the same names there.")


def as_json(output: str) -> Callable:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {output} as JSON.")


def _scenarios(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a scenario: a file that is here, or else the name of one that is shipped.

    A name without its folder is completed where no other scenario has it.
    """
    from fedsim.scenario.shipped import shipped

    if not incomplete or glob.glob(f"{glob.escape(incomplete)}*"):
        return [CompletionItem(incomplete, type="file")]
    last = Counter(name.rpartition("/")[2] for name in shipped())
    short = [name for name, times in last.items() if times == 1]
    names = sorted({*shipped(), *short})
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


plugins = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE|NAME",
    help="Enable your own methods, rules, attacks, data ...; repeatable.",
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
    help="Change a value, e.g. client.lr=0.05, after `extends` has been merged in; repeatable.",
)
seeds = click.option(
    "--seeds", type=Seeds(), help="'5' = the first five, '0,1,2' = these, '3,' = only this one."
)
log_to = click.option(
    "--log-to",
    default="",
    metavar="NAMES",
    help="Also send every row to tensorboard, wandb or mlflow; several: a,b.",
)
data_roots = click.option(
    "--data-root",
    "data_roots",
    multiple=True,
    envvar="FEDSIM_DATA_ROOT",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Where a scenario may read data, besides its own folder and this one; repeatable.",
)
trust_data = click.option(
    "--trust-data",
    is_flag=True,
    help="Also read HDF5 files and workbooks that came with the run.",
)
methods = click.option(
    "--methods",
    metavar="LIST",
    help="Methods or rules, e.g. fedavg,fedprox(mu=0.1),median; fedprox(mu=0.1|1) is tuned "
    "[compare.methods].",
)
method = click.option(
    "--method",
    metavar="NAME",
    help="Method or rule in place of the scenario's, e.g. 'fedprox(mu=0.1)'.",
)
baselines = click.option(
    "--baselines",
    is_flag=True,
    help="Also compare centralised and local_only, which are not federated methods.",
)
vary = click.option(
    "--vary",
    multiple=True,
    metavar="PATH=V1,V2",
    help="An axis of the grid; repeatable.",
)
tune = click.option(
    "--tune",
    multiple=True,
    metavar="PATH=V1,V2",
    help="Settings that every method is tried with, or a range, log(1e-3,1), of which "
    "compare.budget settings are drawn; repeatable.",
)


def scenario(command: Callable) -> Callable:
    """SCENARIO and the options that change or complete it; `read_scenario` takes all of them."""
    argument = click.argument("scenario", type=click.Path(), shell_complete=_scenarios)
    return _with_options(command, [argument, edits, seeds, plugins, data_roots])


def compared(command: Callable) -> Callable:
    """`--methods`, `--baselines`, `--vary` and `--tune`: what is compared."""
    return _with_options(command, [methods, baselines, vary, tune])


def _with_options(command: Callable, options: list[Callable]) -> Callable:
    for option in reversed(options):
        command = option(command)
    return command


def read_scenario(
    arguments: dict[str, Any], all_stages: bool = False, compares: bool = False
) -> "Scenario":
    """Read the scenario that the shared options describe, and remove them from the arguments.

    Args:
      all_stages: whether a scenario that is refused is also built, for further problems.
      compares: whether these include the problems of the cells of its comparison.

    Raises:
      ScenarioError: with all of its problems.
      OSError: if there is no such file; the message names a file that may be meant.
    """
    name = arguments.pop("scenario")
    edits = arguments.pop("edits")
    seeds = arguments.pop("seeds")
    plugins = arguments.pop("plugins")
    data_roots = arguments.pop("data_roots")
    method = arguments.pop("method", None)
    if seeds:
        edits = (*edits, f"seeds={seeds}")

    path = _existing_file(name)
    enable(plugins)
    from fedsim.scenario import read

    try:
        return read(path, edits, method, data_roots=data_roots)
    except ScenarioError as error:
        if not all_stages or error.mended is None:
            raise
        from fedsim.runs.refusals import CompareOverrides, with_later_problems

        compare_overrides = None
        if compares:
            keys = ("methods", "vary", "tune", "baseline", "score")
            compare_overrides = CompareOverrides(
                **{key: arguments.get(key) or None for key in keys},
                baselines=arguments["baselines"],
            )
        raise with_later_problems(error, arguments.get("device"), compare_overrides) from None


def _existing_file(name: str) -> Path:
    """Return the file of a scenario, which may also be one that comes with fedsim."""
    path = Path(name)
    if not path.is_file():
        from fedsim.scenario.shipped import scenario_file

        path = scenario_file(path)
    if path.is_dir():
        inside = path / "scenario.yaml"
        text = "is a directory, not a scenario"
        if inside.is_file():
            text = f"is a run directory; its scenario is {inside}"
        raise IsADirectoryError(errno.EISDIR, text, name)
    if not path.exists():
        text = os.strerror(errno.ENOENT) + _remedy_of_missing(path)
        raise FileNotFoundError(errno.ENOENT, text, name)
    return path


def _remedy_of_missing(path: Path) -> str:
    """Return the scenario nearby that has a similar name, else how to write one."""
    from fedsim.scenario.shipped import shipped

    scenarios: dict[str, Path | str] = {name: name for name in shipped()}
    for folder in (path.parent, Path("scenarios")):
        for file in sorted(folder.glob("*.yaml")):
            scenarios[file.stem] = file
    if near := nearest(path.stem, scenarios):
        return f"; did you mean {scenarios[near]}?"
    return "; fedsim new NAME writes one to start from"


def enable(plugins: tuple[str, ...]) -> None:
    """Enable a user's own links."""
    if plugins:
        from fedsim.scenario import enable as enable_plugin

        for plugin in plugins:
            enable_plugin(plugin)


def show_page(path: Path) -> None:
    """Show a page in the user's browser; if there is none, print its path."""
    if not path.is_file() or not _has_screen() or click.launch(str(path)) != 0:
        click.echo(f"{path}: open it in a browser", err=True)


def _has_screen() -> bool:
    """Whether a browser can be shown; without a screen, Linux's launcher fails unnoticed."""
    return sys.platform != "linux" or any(map(os.environ.get, SCREENS))
