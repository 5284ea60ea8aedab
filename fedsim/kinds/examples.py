"""The least arguments that a kind can be made with."""

import inspect
from typing import Any

from fedsim.kinds.names import FAMILIES

# Values of parameters without defaults.
EXAMPLES = {
    "alpha": 0.5,
    "bits": 2,
    "block": 2,
    "codec": "top_k(k=3)",
    "clusters": 2,
    "codewords": 4,
    "columns": 40,
    "concurrency": 4,
    "degree": 2,
    "delta": 1e-5,
    "epsilon": 1.0,
    "f": 1,
    "groups": 1,
    "k": 3,
    "levels": 4,
    "lr": 0.1,
    "norm": 1.0,
    "name": "Net",
    "p": 0.5,
    "path": "net.py",
    "probability": 0.5,
    "radius": 1.0,
    "rank": 1,
    "rows": 3,
    "size": 3,
    "std": 0.1,
    "threshold": 2,
    "value": 0.5,
}

# Of kinds that want one of two arguments.
ARGUMENTS = {
    "codec top_k": {"k": 3},
    "codec rand_k": {"k": 3},
    "cohort listed": {"rounds": [[0]]},
    "topology listed": {"edges": [[0, 1]]},
}


def arguments_of(family: str, kind: str) -> dict[str, Any]:
    """Return arguments with which the factory of a kind makes something."""
    parameters = inspect.signature(FAMILIES[family][kind]).parameters.values()
    required = [each.name for each in parameters if each.default is each.empty]
    return {name: EXAMPLES[name] for name in required} | ARGUMENTS.get(f"{family} {kind}", {})
