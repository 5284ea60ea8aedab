"""Trained weights as torch has them: a module, a `state_dict`, and files of one."""

# torch may be missing where types are checked
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import copy
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsim.errors import DataError, DirectoryError
from fedsim.fields.torch.extra import MISSING, is_installed
from fedsim.fields.torch.model import flat
from fedsim.runs.directory import load_model

if TYPE_CHECKING:
    from fedsim.runs.result import Result


def module(
    result: "Result", method: str | None = None, seed: int | None = None, client: int | None = None
) -> Any:
    """Return the user's module with the trained weights, in evaluation mode.

    It is a copy, with parameters of its own types. Counters such as `num_batches_tracked` are those
    that it had.

    Args:
      result: of a run.
      method: as of `Result.model`.
      seed: as of `Result.model`.
      client: as of `Result.model`.

    Raises:
      KeyError: when that run is not part of the result.
      ValueError: for a model that was not made of a module of torch.
    """
    origin = result.experiment.model.origin
    if origin is None:
        raise ValueError("the model is not a module of torch; result.model() returns its weights")
    import torch

    trained = copy.deepcopy(origin.module).eval()
    own = {**dict(trained.named_parameters()), **dict(trained.named_buffers())}
    variables = result.variables(method, seed, client)
    with torch.no_grad():
        for name, value in _leaves(variables["params"], variables["stats"]).items():
            own[name].copy_(torch.from_numpy(np.array(value)))
    return trained


ENDING = ".safetensors"
METHODS = {"torch": module}


def exported(path: Path, name: str | None) -> bytes:
    """Return the final model of a run directory as a file of a `state_dict`.

    Tied weights are in it by their first name; buffers that training does not change are not.

    Args:
      path: the directory.
      name: of its file `model....safetensors`; None: the only one.

    Raises:
      DirectoryError: without torch, and for a directory without a model, or with several.
    """
    if not is_installed():
        raise DirectoryError(f"{path}: {MISSING}")
    import torch

    if name is not None:
        path = path / f"{Path(name).name.removesuffix(ENDING)}{ENDING}"
    if not path.exists():
        raise DirectoryError(f"{path}: there is no such model")
    stored = load_model(path)
    leaves = _leaves(stored["params"], stored.get("state", {}))
    state = {name: torch.from_numpy(np.array(value)) for name, value in leaves.items()}
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def _leaves(*trees: Any) -> dict[str, Any]:
    """The leaves of several trees by name."""
    return {name: leaf for each in trees for name, leaf in flat(each).items()}


def tensors(content: bytes) -> Mapping[str, np.ndarray]:
    """Return the tensors of a file that `torch.save(module.state_dict(), FILE)` has written.

    Only tensors are read: nothing in a file is executed.

    Raises:
      DataError: without torch, and for any other content.
    """
    if not is_installed():
        raise DataError(MISSING)
    import torch

    from fedsim.fields.torch.export import numpy_of

    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # whatever bytes make of torch's reader
        line = ascii(str(error).splitlines()[0] if str(error) else type(error).__name__)[1:-1]
        raise DataError(f"is not a state_dict: {line[:200]}") from None
    values = state.values() if isinstance(state, dict) else [None]
    if not all(isinstance(value, torch.Tensor) for value in values):
        raise DataError("is not a state_dict: names and tensors")
    return {str(name): numpy_of(value) for name, value in state.items()}
