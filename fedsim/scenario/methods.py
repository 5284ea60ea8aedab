"""Methods: named scenario fragments. A method owns `client.kind`, the rule, and what stands after it.

Every rule's name is a method too; such a one replaces only the rule and keeps what stands after it.
"""

import re
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt
from pydantic import TypeAdapter, ValidationError

from fedsim.compose import ALIASES, FAMILIES, method
from fedsim.scenario.explain import explain, problem_at
from fedsim.scenario.problems import ScenarioError
from fedsim.scenario.reader import Document, parse
from fedsim.scenario.schema import ClientCommon, per_registry, union

Rate = Annotated[float, Ge(0)]
Decay = Annotated[float, Ge(0), Lt(1)]
SGD = {"kind": "sgd"}
UNIFORM = {"kind": "mean", "weights": "uniform"}


@method
def fedavg() -> dict[str, Any]:
    """Plain local training and the sample-weighted mean."""
    return {"client": SGD, "server": [{"kind": "mean", "weights": "samples"}]}


@method
def fedprox(mu: Annotated[float, Ge(0)] = 0.01) -> dict[str, Any]:
    """Local training with a proximal term, and the sample-weighted mean."""
    return {"client": {"kind": "fedprox", "mu": mu}, "server": [{"kind": "mean", "weights": "samples"}]}


@method
def scaffold(option: Literal[1, 2] = 2, lr: Rate = 1.0) -> dict[str, Any]:
    """Control variates, and the uniform mean times the server step η_g = `lr`."""
    return {"client": {"kind": "scaffold", "option": option}, "server": [UNIFORM, {"kind": "sgd", "lr": lr}]}


@method
def fedavgm(lr: Rate = 1.0, momentum: Decay = 0.9) -> dict[str, Any]:
    """Plain local training, the sample-weighted mean, and server momentum."""
    tail = {"kind": "fedavgm", "lr": lr, "momentum": momentum}
    return {"client": SGD, "server": [{"kind": "mean", "weights": "samples"}, tail]}


@method
def fedadagrad(lr: Rate = 0.1, b1: Decay = 0.0, tau: Annotated[float, Gt(0)] = 1e-3) -> dict[str, Any]:
    """Plain local training, the uniform mean, and the paper's Adagrad."""
    return {"client": SGD, "server": [UNIFORM, {"kind": "fedadagrad", "lr": lr, "b1": b1, "tau": tau}]}


@method
def fedadam(lr: Rate = 0.1, b1: Decay = 0.9, b2: Decay = 0.99, tau: Annotated[float, Gt(0)] = 1e-3) -> dict[str, Any]:
    """Plain local training, the uniform mean, and the paper's Adam."""
    return {"client": SGD, "server": [UNIFORM, {"kind": "fedadam", "lr": lr, "b1": b1, "b2": b2, "tau": tau}]}


@method
def fedyogi(lr: Rate = 0.1, b1: Decay = 0.9, b2: Decay = 0.99, tau: Annotated[float, Gt(0)] = 1e-3) -> dict[str, Any]:
    """Plain local training, the uniform mean, and the paper's Yogi."""
    return {"client": SGD, "server": [UNIFORM, {"kind": "fedyogi", "lr": lr, "b1": b1, "b2": b2, "tau": tau}]}


@per_registry
def _kinds() -> Any:
    """Every method, and every rule as one."""
    return union("method", also=("rule",))


def label_of(written: Any) -> str:
    """What stands in the `method` column: as typed, without spaces."""
    if isinstance(written, dict):
        numbers = ",".join(f"{name}={value}" for name, value in written.items() if name != "kind")
        return f"{written.get('kind')}({numbers})" if numbers else str(written.get("kind"))
    return re.sub(r"\s+", "", str(written))


def spelled_out(written: Any, document: Document) -> dict[str, Any]:
    """`name`, `name(a=1)` or `{kind: name, a: 1}` -> the last form."""
    if isinstance(written, dict):
        return written
    match = re.fullmatch(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?:\((.*)\))?\s*", str(written), re.S)
    if not match:
        raise ScenarioError(
            [problem_at(document, ("method",), f"write name or name(a=1), found {written!r}")], document.file
        )
    inside = ", ".join(part.replace("=", ": ", 1) for part in _top_level(match[2] or ""))
    values = parse(f"value: {{{inside}}}", "method").values["value"]
    return {"kind": match[1], **values}


def _top_level(text: str) -> list[str]:
    """Split at commas that stand in no bracket."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def with_method(document: Document, written: Any, replace: bool) -> Document:
    """The document with a method's fragment merged in.

    Args:
      document: as written, `--set` applied.
      written: the method, in any of its forms.
      replace: a method named on the command line replaces what it owns; one that stands in the file must not meet
        another explicit client kind or rule there.

    Raises:
      ScenarioError: for an unknown method, wrong hyper-parameters, or a conflict.
    """
    asked = spelled_out(written, document)
    kinds = _kinds()
    try:
        section: Any = TypeAdapter(kinds).validate_python(asked)
    except ValidationError as error:
        raise ScenarioError(explain(document, kinds, error.errors(), ("method",)), document.file) from None
    own = {name: value for name, value in section.model_dump().items() if name != "kind"}
    if section.family == "rule":
        fragment: dict[str, Any] = {"server": [{"kind": section.kind, **own}]}
    else:
        fragment = FAMILIES["method"][section.kind](**own)
    if not replace:
        _demand_agreement(document, fragment, section.kind)
    values = {**document.values, "method": label_of(written)}
    if "client" in fragment:
        mine = document.values.get("client", {})
        mine = mine if isinstance(mine, dict) else {}
        shared = {name: value for name, value in mine.items() if name in ClientCommon.model_fields}
        values["client"] = {**shared, **fragment["client"]}
    values["server"] = _server(
        document.values.get("server", []), fragment["server"], keep_tail=section.family == "rule"
    )
    return document._replace(values=values)


def _kind(link: Any) -> str:
    kind = str(link.get("kind", "") if isinstance(link, dict) else link)  # whatever it is, the schema judges it later
    return ALIASES.get(kind, kind)


def _server(listed: Any, fragment: list[dict], keep_tail: bool) -> list:
    """Stages before the rule stay; what stands after it stays for a rule's method."""
    listed = listed if isinstance(listed, list) else []
    before = [link for link in listed if _kind(link) in FAMILIES["stage"]]
    after = [link for link in listed if _kind(link) in FAMILIES["optimizer"]] if keep_tail else []
    return before + fragment + after


def _demand_agreement(document: Document, fragment: dict[str, Any], name: str) -> None:
    """What the file says beside `method:` must be what the method says. A default never conflicts."""
    values, places = document.values, document.places
    met: list[tuple[tuple, Any, dict]] = []
    client = values.get("client")
    if "client" in fragment and isinstance(client, dict | str) and (isinstance(client, str) or "kind" in client):
        met.append((("client", "kind"), client, fragment["client"]))
    listed = values.get("server")
    listed = listed if isinstance(listed, list) else []
    rules = [(i, link) for i, link in enumerate(listed) if _kind(link) in FAMILIES["rule"]]
    met += [(("server", i), link, fragment["server"][0]) for i, link in rules]
    tails = [(i, link) for i, link in enumerate(listed) if _kind(link) in FAMILIES["optimizer"]]
    own = fragment["server"][1:]
    if "client" in fragment and len(tails) == len(own):
        met += [(("server", i), link, wanted) for (i, link), wanted in zip(tails, own, strict=True)]
    for path, found, wanted in met:
        written = found if isinstance(found, dict) else {"kind": found}
        differing = [k for k in written if k in wanted and (_kind(written) if k == "kind" else written[k]) != wanted[k]]
        if differing:
            k = differing[0]
            what = f"{k} is {written[k]} here and {wanted[k]} in method {name}; take out one of them"
            raise ScenarioError([problem_at(document, path, what + _also(places))], document.file)
    if "client" in fragment and tails and len(tails) != len(own):
        what = f"method {name} owns what stands after the rule; take out one of them"
        raise ScenarioError([problem_at(document, ("server", tails[0][0]), what + _also(places))], document.file)


def _also(places: dict) -> str:
    return f" (method: line {places[('method',)][0]})" if ("method",) in places else ""
