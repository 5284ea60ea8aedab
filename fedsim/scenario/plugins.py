"""A user's own links: a Python file, or an installed entry point; never named by a scenario, which cannot import code."""

import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path

from fedsim.compose import RegistrationError
from fedsim.scenario.problems import Problem, ScenarioError, did_you_mean

GROUP = "fedsim.plugins"


def enable(plugin: str) -> None:
    """Import a plug-in, whose decorated functions register themselves.

    Args:
      plugin: path of a Python file, or name of an entry point of the group `fedsim.plugins`.
    Raises:
      ScenarioError: when there is no such plug-in, or it defines what it may not.
    """
    try:
        if plugin.endswith(".py") or "/" in plugin:
            _import_file(Path(plugin))
            return
        known = {point.name: point for point in entry_points(group=GROUP)}
        if plugin not in known:
            what = f"no plug-in of that name is installed{did_you_mean(plugin, known)}; a file is given with its .py"
            raise ScenarioError([Problem("", what)], f"--plugin {plugin}")
        known[plugin].load()
    except RegistrationError as error:
        raise ScenarioError([Problem("", str(error))], f"--plugin {plugin}") from None


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise ScenarioError([Problem("", "there is no such file")], f"--plugin {path}")
    name = f"fedsim_plugin_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path.resolve()):
        return
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
