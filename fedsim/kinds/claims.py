"""What a file says of its kinds beside their factories: `limits`, `laws`, `ranges`."""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from fedsim.errors import Problem, ScenarioError

# How mappings are written, for who wrote something else.
EXAMPLES = {"limits": '{"mu=0": "sgd"}', "ranges": '{"mu": "log(1e-3, 1)"}'}


def claims(module: Any, name: str, kind: str, form: type) -> Any:
    """What a file claims about a kind: `NAME = {...}`, or by kind where the file has several.

    Args:
      name: `limits` or `ranges`, which are mappings, or `laws`, a list of names.
    """
    found = getattr(module, name, None)
    if found is None or inspect.ismodule(found):
        return form()
    if isinstance(found, Mapping) and kind in found and not isinstance(found[kind], str):
        found = found[kind]
    elif isinstance(found, Mapping) and any(not isinstance(v, str) for v in found.values()):
        found = form()  # of other kinds in the file
    if form is list and isinstance(found, str | Mapping):
        raise _refusal(name, kind, f"is {found!r}; write a list of laws, or {{KIND: [LAW, ...]}}")
    if form is list:
        return list(found)
    if not isinstance(found, Mapping) or not all(isinstance(v, str) for v in found.values()):
        example = EXAMPLES[name]
        raise _refusal(name, kind, f"is {found!r}; write {example}, or {{KIND: {{...}}}}")
    return dict(found)


def _refusal(name: str, kind: str, text: str) -> ScenarioError:
    return ScenarioError([Problem(name, text)], kind)


def ranges_of(factory: Callable[..., Any]) -> dict[str, str]:
    """Return over which ranges the file of a kind says that it is tuned.

    Returns:
      A parameter of the kind, or the path of a key, -> the range as text.
    """
    shipped = getattr(factory, "ranges", None)  # its module may not have been imported
    if isinstance(shipped, dict):
        return shipped
    module = sys.modules.get(factory.__module__)
    return claims(module, "ranges", factory.__name__, dict)
