"""fedsim: a federated-learning simulator. Clients are stacked on one axis and vmapped; results are honest frames."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedsim.compose import attack as attack
    from fedsim.compose import client as client
    from fedsim.compose import cohort as cohort
    from fedsim.compose import dataset as dataset
    from fedsim.compose import method as method
    from fedsim.compose import model as model
    from fedsim.compose import optimizer as optimizer
    from fedsim.compose import partition as partition
    from fedsim.compose import row_attack as row_attack
    from fedsim.compose import rule as rule
    from fedsim.compose import stage as stage
    from fedsim.data import Arrays as Arrays
    from fedsim.data import DataError as DataError
    from fedsim.models import as_model as as_model
    from fedsim.report.comparing import compare as compare
    from fedsim.report.comparison import Comparison as Comparison
    from fedsim.report.difference import diff as diff
    from fedsim.report.directory import load_model as load_model
    from fedsim.report.result import Result as Result
    from fedsim.report.running import run as run
    from fedsim.report.verification import verify as verify
    from fedsim.scenario import Scenario as Scenario
    from fedsim.scenario import ScenarioError as ScenarioError
    from fedsim.scenario import aggregate as aggregate
    from fedsim.scenario import enable as enable
    from fedsim.scenario import transmit as transmit

__version__ = "0.2.0"

_HOME = {
    "compose": (
        *("attack", "client", "cohort", "dataset", "method", "model", "optimizer", "partition"),
        *("row_attack", "rule", "stage"),
    ),
    "data": ("Arrays", "DataError"),
    "models": ("as_model",),
    "report.comparing": ("compare",),
    "report.comparison": ("Comparison",),
    "report.difference": ("diff",),
    "report.directory": ("load_model",),
    "report.result": ("Result",),
    "report.running": ("run",),
    "report.verification": ("verify",),
    "scenario": ("Scenario", "ScenarioError", "aggregate", "enable", "transmit"),
}


if not TYPE_CHECKING:  # a type checker that sees it would take any name for one that is there

    def __getattr__(name: str):
        """Public names are imported when first used, so that `fedsim --help` does not wait for JAX."""
        for home, names in _HOME.items():
            if name in names:
                return getattr(import_module(f"fedsim.{home}"), name)
        raise AttributeError(f"module 'fedsim' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(["__version__", *(name for names in _HOME.values() for name in names)])
