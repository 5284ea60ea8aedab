"""fedsim: a federated-learning simulator.

Clients are stacked on one axis and vmapped; results are data frames. To begin with:

- `run(scenario)` trains, and returns a `Result`; `compare(scenario, methods)` a `Comparison`.
- `rule`, `stage`, `client`, `method`, `attack`, `model`, `partition` ... make a function a kind.
- `as_model`, `Arrays`: a model and data of your own; `aggregate`, `transmit`: one step alone.
- `verify`, `diff`, `fork`, `unlearn`, `load_model`: run directories.

`help(fedsim.run)` and so on say more; `dir(fedsim)` lists all names.
"""

import gc
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from fedsim._version import __version__ as __version__

if TYPE_CHECKING:
    from fedsim.assemble import aggregate as aggregate
    from fedsim.assemble import transmit as transmit
    from fedsim.compose import aggregate_stage as aggregate_stage
    from fedsim.compose import attack as attack
    from fedsim.compose import augmentation as augmentation
    from fedsim.compose import client as client
    from fedsim.compose import codec as codec
    from fedsim.compose import cohort as cohort
    from fedsim.compose import data_attack as data_attack
    from fedsim.compose import dataset as dataset
    from fedsim.compose import loss as loss
    from fedsim.compose import method as method
    from fedsim.compose import model as model
    from fedsim.compose import optimizer as optimizer
    from fedsim.compose import partition as partition
    from fedsim.compose import row_attack as row_attack
    from fedsim.compose import rule as rule
    from fedsim.compose import skew as skew
    from fedsim.compose import stage as stage
    from fedsim.data import Arrays as Arrays
    from fedsim.errors import DataError as DataError
    from fedsim.errors import ScenarioError as ScenarioError
    from fedsim.fields.graphs.section import mixing as mixing
    from fedsim.fields.graphs.topology import spectral_gap as spectral_gap
    from fedsim.fields.metrics.measuring import measure as measure
    from fedsim.fields.metrics.metric import metric as metric
    from fedsim.fields.privacy.accounting import epsilon as epsilon
    from fedsim.fields.privacy.accounting import noise_multiplier as noise_multiplier
    from fedsim.models import as_model as as_model
    from fedsim.runs.compare import compare as compare
    from fedsim.runs.comparison import Comparison as Comparison
    from fedsim.runs.diff import diff as diff
    from fedsim.runs.directory import load_model as load_model
    from fedsim.runs.result import Result as Result
    from fedsim.runs.run import run as run
    from fedsim.runs.updates import updates_of as updates_of
    from fedsim.runs.verify import verify as verify
    from fedsim.scenario import Scenario as Scenario
    from fedsim.scenario import enable as enable
    from fedsim.sources.tokenizer import tokenizer as tokenizer
    from fedsim.tools.bundle.packing import bundle as bundle
    from fedsim.tools.conform.conformity import conform as conform
    from fedsim.tools.contributions.analysis import contributions as contributions
    from fedsim.tools.fork.forking import fork as fork
    from fedsim.tools.unlearn.unlearning import unlearn as unlearn

# module -> the public names that it defines
_HOME = {
    "compose": (
        "aggregate_stage",
        "attack",
        "augmentation",
        "client",
        "codec",
        "cohort",
        "data_attack",
        "dataset",
        "loss",
        "method",
        "model",
        "optimizer",
        "partition",
        "row_attack",
        "rule",
        "skew",
        "stage",
    ),
    "assemble": ("aggregate", "transmit"),
    "data": ("Arrays",),
    "errors": ("DataError", "ScenarioError"),
    "models": ("as_model",),
    "runs.compare": ("compare",),
    "runs.comparison": ("Comparison",),
    "runs.diff": ("diff",),
    "runs.directory": ("load_model",),
    "runs.result": ("Result",),
    "runs.run": ("run",),
    "runs.updates": ("updates_of",),
    "runs.verify": ("verify",),
    "scenario": ("Scenario", "enable"),
    "sources.tokenizer": ("tokenizer",),
}

# names that are looked for here -> where what they mean is
_ELSEWHERE = {
    "check": "Scenario(FILE) checks a scenario; or fedsim check FILE, in a shell",
    "explain": "help(fedsim.rule) and so on; or fedsim explain NAME, in a shell",
    "export": "a result has frames, and .save(DIR); or fedsim export DIR, in a shell",
    "list": "fedsim list, in a shell",
    "load": "pandas.read_csv reads the tables of a run directory; load_model(DIR) its model",
    "plot": "results and comparisons have .plot()",
    "report": "results and comparisons have .plot(); or fedsim report DIR, in a shell",
    "resume": "fedsim run FILE --resume, in a shell",
    "simulate": "fedsim.run(FILE)",
    "train": "fedsim.run(FILE)",
}


# A type checker that saw this function would accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str):
        """Import public names when they are first used: `fedsim --help` does not wait for JAX."""
        for home, names in _homes().items():
            if name in names:
                return getattr(_imported(home), name)
        text = f"module 'fedsim' has no attribute '{name}'"
        if name in _ELSEWHERE:
            text = f"{text}; {_ELSEWHERE[name]}"
        raise AttributeError(text)


def _homes() -> dict[str, tuple[str, ...]]:
    """Module -> the public names that it defines, those of fields and tools among them."""
    from fedsim.installed import added

    homes = {f"fedsim.{home}": names for home, names in _HOME.items()}
    for package, names in added("NAMES"):
        homes |= {f"{package}.{module}": names[module] for module in names}
    return homes


def _imported(name: str) -> ModuleType:
    """Import a module without looking for garbage: half a million new objects all stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if was_enabled:
            gc.enable()


def __dir__() -> list[str]:
    names = ["__version__"]
    for public_names in _homes().values():
        names.extend(public_names)
    return sorted(names)
