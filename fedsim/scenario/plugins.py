"""A user's own links, from a Python file or an installed entry point.

A scenario never names one: it cannot import code.
"""

import hashlib
import importlib.util
import sys
import traceback
from importlib.metadata import entry_points
from pathlib import Path

from pydantic import BaseModel

from fedsim.errors import Problem, RegistrationError, ScenarioError, did_you_mean
from fedsim.kinds import FAMILIES
from fedsim.scenario.sections import sections_within

GROUP = "fedsim.plugins"
PREFIX = "fedsim_plugin_"  # of the names of modules that are files
PACKAGE = Path(__file__).parents[1]
ENABLED: list[str] = []  # files by their absolute path, for processes that are started later


def enable(plugin: str) -> None:
    """Import a plug-in, whose decorated functions register themselves.

    Args:
      plugin: the path of a Python file, or the name of an entry point of `fedsim.plugins`.

    Raises:
      ScenarioError: if there is no such plug-in, it fails, or it defines what it may not.
    """
    try:
        if is_file(plugin):
            _import_file(Path(plugin))
        else:
            _load_entry_point(plugin)
    except ScenarioError:
        raise
    except RegistrationError as error:
        raise _refusal(plugin, str(error)) from None
    except Exception as error:  # whatever a user's file does when it is imported
        raise _refusal(plugin, _failure(error)) from error
    ENABLED.append(str(Path(plugin).resolve()) if is_file(plugin) else plugin)


def is_file(plugin: str) -> bool:
    """Whether a plug-in is given by its path, not by the name of an entry point."""
    return plugin.endswith(".py") or "/" in plugin


def installed() -> dict[str, str]:
    """Return name -> module of the plug-ins of installed packages."""
    return {point.name: point.value for point in sorted(entry_points(group=GROUP))}


def _load_entry_point(name: str) -> None:
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        near = did_you_mean(name, points) if points else ""
        text = f"no plug-in of that name is installed{near}; the name of a file ends in .py"
        raise _refusal(name, text)
    points[name].load()


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise _refusal(str(path), "there is no such file")
    name = PREFIX + path.stem
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__file__ == str(path.resolve()):
        return

    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _refusal(plugin: str, text: str) -> ScenarioError:
    return ScenarioError([Problem("", text)], f"--plugin {plugin}")


def _failure(error: Exception) -> str:
    """Return what went wrong while a file was imported, and on which of its lines."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not Path(frame.filename).is_relative_to(PACKAGE)]
    last = (outside or frames)[-1]
    return f"{Path(last.filename).name}, line {last.lineno}: {type(error).__name__}: {error}"


def plugin_links(spec: BaseModel) -> dict[str, str]:
    """Return name -> SHA-256 of the defining file, of a scenario's links that are not fedsim's."""
    hashes: dict[str, str] = {}
    for _, section in sections_within(spec):
        if not hasattr(section, "family"):
            continue
        sha256 = link_hash(section.family, section.kind)
        if sha256:
            hashes[f"{section.family} {section.kind}"] = sha256
    return dict(sorted(hashes.items()))


def link_hash(family: str, kind: str) -> str:
    """Return the SHA-256 of the file that defines a link; empty if it is fedsim's or unknown."""
    factory = FAMILIES[family].get(kind)
    module = sys.modules.get(factory.__module__) if factory else None
    if module is None or module.__name__.startswith("fedsim."):
        return ""
    path = Path(getattr(module, "__file__", None) or "")
    if not path.is_file():
        return "typed in"
    return hashlib.sha256(path.read_bytes()).hexdigest()
