"""A module of torch in a file of the user's, as a kind of model."""

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from fedsim.compose import model
from fedsim.fields.torch.extra import MISSING, is_installed
from fedsim.models import Tokens, as_model
from fedsim.scenario.plugins import PREFIX
from fedsim.types import Model


@model
def torch(
    path: str, name: str, arguments: dict[str, int | float | bool | str] | None = None
) -> Callable[..., Model]:
    """A module of torch, which is exported once and then computed by JAX.

    The file runs only where that is asked for: on the command line by `--plugin FILE.py`, in Python
    where the file has been imported before. Every seed makes a module of its own, with torch's
    generator seeded by it.

    Images `[H, W, C]` are given to the module as `[B, C, H, W]`, and `[H, W]` as `[B, 1, H, W]` if
    it has a `Conv2d`; all else as it is, `[B, ...]`. It returns logits `[B, classes]`, numbers for
    regression targets, or for labelled tokens `[B, T, classes]`; of several outputs the first one,
    or `logits`, is taken. Leaves are named as in `state_dict`; parameters without `requires_grad`
    are frozen.

    Needs: torch, `pip install 'fedsim-jax[torch]'`.

    Args:
      path: the Python file.
      name: of a class in it, or of a function that makes a module.
      arguments: what it is called with, by name.
    Raises:
      ValueError: without torch, for a file that was not asked for, and for modules that cannot be
        exported.
    References:
      Paszke et al. 2019, PyTorch: An Imperative Style, High-Performance Deep Learning Library,
      arXiv:1912.01703.
    """

    def build(shape: tuple[int, ...], outputs: int, tokens: Tokens | None = None) -> Model:
        if not is_installed():
            raise ValueError(f"model: {MISSING}")
        factory = _named(path, name)

        def make(key):
            try:
                return factory(**(arguments or {}))
            except Exception as error:  # whatever a user's class does
                frame = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(frame.filename).name}, line {frame.lineno}"
                text = f"{name} is not made: {type(error).__name__}: {error} ({place})"
                raise ValueError(f"model: {text}") from None

        return as_model(make, shape=shape, tokens=tokens is not None)

    return build


def _named(path: str, name: str) -> Callable[..., Any]:
    """What a loaded file calls by a name.

    Raises:
      ValueError: for a file that is not loaded, and a name that it does not have.
    """
    loaded = list(sys.modules.values())
    by_file = {module.__file__: module for module in loaded if _is(module, path)}
    if not by_file:
        way = f"--plugin {path}, or in Python import it before"
        raise ValueError(f"model: {path} runs only where that is asked for: {way}")
    if len(by_file) > 1:
        files = " and ".join(map(str, by_file))
        raise ValueError(f"model: {path} may be {files}; write more of the path")
    (module,) = by_file.values()
    factory = getattr(module, name, None)
    if not callable(factory):
        raise ValueError(f"model: {path} has no class or function {name!r}")
    return factory


def _is(module: ModuleType, path: str) -> bool:
    """Whether a module was loaded from a path, which is seen from the folder of the run.

    Of plug-ins, which were named on the command line, the end of the path is enough.
    """
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return False
    if Path(file) == Path(path).resolve():
        return True
    parts = [part for part in Path(path).parts if part != ".."]
    is_plugin = module.__name__.startswith(PREFIX)
    return is_plugin and list(Path(file).parts[-len(parts) :]) == parts
