"""A module of torch in a file of the user's, as a kind of model."""

import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from fedsim.compose import model
from fedsim.fields.torch.extra import MISSING, is_installed
from fedsim.models import Tokens, as_model
from fedsim.scenario.plugins import PREFIX
from fedsim.sources.files import sha256_of
from fedsim.types import Model


@model
def torch(
    path: str,
    name: str,
    arguments: dict[str, int | float | bool | str] | None = None,
    sha256: str | None = None,
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
      path: the Python file; another one that it imports is not part of its hash.
      name: of a class in it, or of a function that makes a module.
      arguments: what it is called with, by name.
      sha256: the file's hash; another file is refused (filled in by the resolved scenario).
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
        factory = named(path, name, sha256)

        def make(key):
            return made(factory, name, arguments or {})

        return as_model(make, shape=shape, tokens=tokens is not None)

    return build


def made(factory: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> Any:
    """Return what a user's class or function of this name makes.

    Raises:
      ValueError: where it fails, with the line of the user's file.
    """
    try:
        return factory(**arguments)
    except Exception as error:  # whatever a user's class does
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}, line {frame.lineno}"
        text = f"{name} is not made: {type(error).__name__}: {error} ({place})"
        raise ValueError(f"model: {text}") from None


def named(path: str, name: str, sha256: str | None = None) -> Callable[..., Any]:
    """Return what a loaded file calls by a name.

    Raises:
      ValueError: for a file that is not loaded or is another one, and a name that it does not have.
    """
    module = _loaded(path, sha256)
    if module is None:
        way = f"--plugin {path}, or in Python import it before"
        raise ValueError(f"model: {path} runs only where that is asked for: {way}")
    present = sha256_of(str(module.__file__))
    if sha256 not in (None, present):
        raise ValueError(f"model: {module.__file__}: SHA-256 is {present}, not {sha256}")
    factory = getattr(module, name, None)
    if not callable(factory):
        raise ValueError(f"model: {path} has no class or function {name!r}")
    return factory


def _loaded(path: str, sha256: str | None) -> ModuleType | None:
    """The module that was loaded from a file, or a plug-in with its hash; None: there is none."""
    wanted = Path(path).resolve()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        is_plugin = module.__name__.startswith(PREFIX)
        if Path(file) == wanted or (is_plugin and sha256_of(file) == sha256):
            return module
    return None
