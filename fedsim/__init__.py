"""fedsim: a federated-learning simulator. Clients are stacked on one axis and vmapped; results are honest frames."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedsim.data import Arrays as Arrays
    from fedsim.data import DataError as DataError
    from fedsim.models import as_model as as_model
    from fedsim.report import Result as Result
    from fedsim.report import load_model as load_model
    from fedsim.report import run as run
    from fedsim.scenario import Scenario as Scenario
    from fedsim.scenario import ScenarioError as ScenarioError

__version__ = "0.1.0"

_HOME = {
    "Arrays": "data",
    "DataError": "data",
    "Result": "report",
    "Scenario": "scenario",
    "ScenarioError": "scenario",
    "as_model": "models",
    "load_model": "report",
    "run": "report",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str):
    """Public names are imported when first used, so that `fedsim --help` does not wait for JAX."""
    if name in _HOME:
        return getattr(import_module(f"fedsim.{_HOME[name]}"), name)
    raise AttributeError(f"module 'fedsim' has no attribute '{name}'")
