"""A user's own links: a Python file, or an installed entry point; never named by a scenario, which cannot import code."""

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
ENABLED: list[str] = []  # as they were given, for processes that are started later


def enable(plugin: str) -> None:
    """Import a plug-in, whose decorated functions register themselves.

    Args:
      plugin: path of a Python file, or name of an entry point of the group `fedsim.plugins`.

    Raises:
      ScenarioError: when there is no such plug-in, it fails, or it defines what it may not.
    """
    try:
        if is_file(plugin):
            _import_file(Path(plugin))
            ENABLED.append(plugin)
            return
        known = {point.name: point for point in entry_points(group=GROUP)}
        if plugin not in known:
            text = f"no plug-in of that name is installed{did_you_mean(plugin, known)}; a file is given with its .py"
            raise ScenarioError([Problem("", text)], f"--plugin {plugin}")
        known[plugin].load()
        ENABLED.append(plugin)
    except ScenarioError:
        raise
    except RegistrationError as error:
        raise ScenarioError([Problem("", str(error))], f"--plugin {plugin}") from None
    except Exception as error:  # whatever a user's file does when it is imported
        raise ScenarioError([Problem("", _failure(error))], f"--plugin {plugin}") from error


def is_file(plugin: str) -> bool:
    """Whether a plug-in is given by its path, and not by the name of an entry point."""
    return plugin.endswith(".py") or "/" in plugin


def installed() -> dict[str, str]:
    """Plug-ins of installed packages: name -> module."""
    return {point.name: point.value for point in sorted(entry_points(group=GROUP))}


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
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _failure(error: Exception) -> str:
    """What went wrong while a file was imported, and on which of its lines."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}, line {last.lineno}: {type(error).__name__}: {error}"


def own_links(spec: BaseModel) -> dict[str, str]:
    """Links of a scenario that fedsim did not bring: their names, and the SHA-256 of the file that defines each."""
    kinds = (
        (section.family, section.kind)
        for _, section in sections_within(spec)
        if hasattr(section, "family")
    )
    hashes = {f"{family} {kind}": link_hash(family, kind) for family, kind in kinds}
    return {name: sha256 for name, sha256 in sorted(hashes.items()) if sha256}


def link_hash(family: str, kind: str) -> str:
    """SHA-256 of the file that defines a link; empty where it is fedsim's own, or not known."""
    link = FAMILIES[family].get(kind)
    module = sys.modules.get(link.__module__) if link else None
    if module is None or module.__name__.startswith("fedsim."):
        return ""
    path = Path(getattr(module, "__file__", None) or "")
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "typed in"
