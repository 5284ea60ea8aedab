"""Paths of a scenario and values along them in words: `fleet.malicious=0.2` is "20 % malicious"."""

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError
from fedsim.scenario.reader import parse
from fedsim.scenario.shorthand import top_level

TITLES = {  # path -> its name, and a value of it; `s` is the plural
    "rounds": ("rounds", "{} round{s}"),
    "model": ("model", "model {}"),
    "data": ("data", "{}"),
    "data.clients": ("clients", "{} client{s}"),
    "data.partition": ("partition", "partition {}"),
    "data.partition.classes": ("labels a client", "{} label{s} a client"),
    "data.partition.per_client": ("shards a client", "{} shard{s} a client"),
    "data.skew": ("skew", "skew {}"),
    "data.attack": ("attack on data", "{} in the data"),
    "data.augment": ("augmentation", "augmentation {}"),
    "cohort.size": ("clients a round", "{} client{s} a round"),
    "client.lr": ("client learning rate", "client learning rate {}"),
    "client.batch": ("samples a batch", "batches of {}"),
    "client.epochs": ("local epochs", "{} local epoch{s}"),
    "client.steps": ("local steps", "{} local step{s}"),
    "fleet.deadline": ("deadline", "deadline {} s"),
    "fleet.over_select": ("over-selection", "over-selection {}"),
    "fleet.partial_work": ("partial work", "partial work {}"),
    "fleet.availability": ("availability", "availability {}"),
    "fleet.speed": ("speed", "speed {}"),
    "fleet.links": ("links", "links {}"),
    "schedule": ("schedule", "schedule {}"),
    "fleet.malicious": ("share of malicious clients", "{} malicious"),
    "wire": ("wire", "{} on the wire"),
    "broadcast": ("broadcast", "{} in the broadcast"),
    "numerics.dtype": ("float type", "{}"),
    "numerics.threads": ("threads", "{} thread{s}"),
}
SIGNS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "eps": "ε", "epsilon": "ε", "eta": "η", "lam": "λ", "mu": "μ",
    "rho": "ρ", "sigma": "σ", "tau": "τ", "lr": "learning rate", "b1": "β₁", "b2": "β₂",
}  # fmt: skip
KINDS = {"iid": "IID", "dirichlet": "Dirichlet"}
ATTACKS = re.compile(
    r"fleet\.malicious\b|wire\b|data\.attack\b"
)  # paths along which an attack gets stronger
CODECS = re.compile(r"(wire|broadcast)\b")  # paths along which codecs vary
ATTACK = re.compile(r"(wire|data\.attack)(\[\d+\])?")  # or is another one


def variation(label: str, scenario: Mapping[str, Any] | None = None) -> str:
    """A label of the column `variant` or `tuned` in words; what is no path stays as it is.

    Args:
      label: `PATH=VALUE`, several with commas between.
      scenario: as in `run.json`: names the kind that a parameter belongs to.

    >>> variation("fleet.malicious=0.2, client.epochs=1"), variation("data.partition.alpha=0.1")
    ('20 % malicious, 1 local epoch', 'partition α 0.1')
    >>> variation("data.partition.alpha=0.1", {"data": {"partition": {"kind": "dirichlet"}}})
    'Dirichlet α 0.1'
    """
    return (
        ", ".join(_setting(part, scenario) for part in top_level(label)) if "=" in label else label
    )


def words_of(scenario: Mapping[str, Any] | None) -> Callable[[str], str]:
    """`variation` of one scenario, which all of its sentences and pictures share: a label is read
    once.

    >>> words_of({"data": {"partition": {"kind": "dirichlet"}}})("data.partition.alpha=0.1")
    'Dirichlet α 0.1'
    """
    return functools.cache(functools.partial(variation, scenario=scenario))


def axis(path: str, scenario: Mapping[str, Any] | None = None) -> str:
    """The name of an axis: what varies along a path.

    >>> axis("fleet.malicious"), axis("wire[0].scale", {"wire": [{"kind": "sign_flip"}]})
    ('share of malicious clients', 'sign flip scale')
    """
    if path in TITLES:
        return TITLES[path][0]
    owner, name = _owner(path, scenario)
    return f"{owner} {SIGNS.get(name, name.replace('_', ' '))}".strip()


def shown(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a scenario as pages and pictures show it: a file by its name, and no hash.

    >>> shown({"kind": "file", "path": "../splits/ten.csv", "sha256": "0f"})
    {'kind': 'file', 'path': 'ten.csv'}
    """
    named = {name: value for name, value in part.items() if name != "sha256"}
    return (
        {**named, "path": os.path.basename(named["path"])}
        if isinstance(named.get("path"), str)
        else named
    )


def attacks(label: str) -> bool:
    """Whether a variation is one of an attack.

    >>> attacks("fleet.malicious=0.2"), attacks("client.lr=0.1"), attacks("wire=[{kind: top_k, k: 5}]")
    (True, False, False)
    """
    parts = [part.strip() for part in top_level(label) if ATTACKS.match(part)]
    return any(
        of_attack(part) or not ATTACK.fullmatch(part.partition("=")[0].strip()) for part in parts
    )


def of_attack(part: str) -> bool:
    """Whether `PATH=VALUE` says which attack there is: a wire of codecs alone does not.

    >>> of_attack("wire=[sign_flip]"), of_attack("wire=[{kind: top_k, k: 5}]"), of_attack("fleet.malicious=0.2")
    (True, False, False)
    """
    path, _, text = (piece.strip() for piece in part.partition("="))
    if not ATTACK.fullmatch(path):
        return False
    value = _value(text)
    links = value if isinstance(value, list) else [value]
    kinds = [
        link.get("kind") if isinstance(link, dict) else str(link).partition("(")[0]
        for link in links
    ]
    return not kinds or any(kind not in FAMILIES["codec"] for kind in kinds)


def codec_axes(variants: Iterable[str]) -> set[str]:
    """Paths along which codecs vary: `wire` or `broadcast` (or a key below) with codecs or nothing
    as values.

    >>> sorted(codec_axes(["wire=[{kind: top_k, k: 5}], client.lr=1", "wire=[], client.lr=1"])), codec_axes(["wire=[zero]"])
    (['wire'], set())
    """
    values: dict[str, set[str]] = {}
    for variant in variants:
        for part in top_level(variant) if variant else []:
            path, _, text = (piece.strip() for piece in part.partition("="))
            if CODECS.match(path):
                values.setdefault(path, set()).add(text)
    filled = {path: {text for text in texts if text != "[]"} for path, texts in values.items()}
    return {
        path
        for path, texts in filled.items()
        if texts and not any(of_attack(f"{path}={text}") for text in texts)
    }


def call_of(link: Any) -> str:
    """A link as it is written in short.

    >>> call_of({"kind": "error_feedback", "codec": {"kind": "top_k", "k": 9}}), call_of("cast")
    ('error_feedback(top_k(k=9))', 'cast')
    >>> call_of({"kind": "top_k", "k": 9, "density": None, "values": {"kind": "qsgd", "levels": 4}})
    'top_k(k=9, values=qsgd(levels=4))'
    """
    if isinstance(link, list):
        return " → ".join(map(call_of, link)) or "as sent"
    if not isinstance(link, Mapping) or "kind" not in link:
        return {True: "true", False: "false"}[link] if isinstance(link, bool) else str(link)
    values = {
        name: value
        for name, value in shown(link).items()
        if name != "kind" and value not in (None, [], {})
    }
    inner = [
        call_of(v) if name == "codec" else f"{name}={call_of(v)}" for name, v in values.items()
    ]
    return f"{link['kind']}({', '.join(inner)})" if inner else str(link["kind"])


def value_in_short(value: Any) -> str:
    """A value of an axis: links as they are written in short, anything else as it was written.

    >>> value_in_short("[{kind: error_feedback, codec: {kind: top_k, k: 9}}]"), value_in_short("[]"), value_in_short(0.2)
    ('error_feedback(top_k(k=9))', 'nothing', '0.2')
    """
    links = _value(value) if isinstance(value, str) else value
    links = links if isinstance(links, list) else [links]
    if all(isinstance(link, Mapping) and "kind" in link for link in links):
        return call_of(links) if links else "nothing"
    return str(value)


def _setting(part: str, scenario: Mapping[str, Any] | None) -> str:
    path, equals, text = (piece.strip() for piece in part.partition("="))
    if not equals:
        return part
    value = _value(text)
    if path == "fleet.malicious":
        return _malicious(value, text)
    if path in TITLES:
        return TITLES[path][1].format(_shown(value, text), s="" if value == 1 else "s")
    return f"{axis(path, scenario)} {_shown(value, text)}"


def _malicious(value: Any, text: str) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{100 * value:.6g} % malicious"
    if isinstance(value, list):
        return f"client{'s' * (len(value) > 1)} {', '.join(map(str, value))} malicious"
    if isinstance(value, dict):
        form = next(
            (form for name in ("share", "count", "ids") if (form := value.get(name)) is not None),
            text,
        )
        who = f"{form} malicious" if isinstance(form, int) else _malicious(form, text)
        return f"{who}, drawn every round" if value.get("per") == "round" else who
    return f"{text} malicious"


def _shown(value: Any, text: str) -> str:
    """A value: kinds by their names and parameters, codecs as they are written, anything else
    likewise.
    """
    if _is_codec(value):
        return call_of(value)
    if isinstance(value, list) and all(
        isinstance(one, str) or (isinstance(one, dict) and "kind" in one) for one in value
    ):
        return (
            ", then ".join(_shown(one, one if _is_codec(one) else _kind(one)) for one in value)
            or "nothing"
        )
    if isinstance(value, dict) and "kind" in value:
        rest = [
            f"{SIGNS.get(name, name.replace('_', ' '))} {inner}"
            for name, inner in value.items()
            if name != "kind"
        ]
        return " ".join([_kind(value["kind"]), ", ".join(map(str, rest))]).strip()
    return KINDS.get(text, text)


def _is_codec(value: Any) -> bool:
    kind = value.get("kind") if isinstance(value, dict) else str(value).partition("(")[0]
    return kind in FAMILIES["codec"]


def _owner(path: str, scenario: Mapping[str, Any] | None) -> tuple[str, str]:
    """The kind or the section that the last key of a path belongs to, and that key."""
    *parents, name = re.findall(r"[^.\[\]]+", path) or [path]
    kind = _kind_at(parents, scenario)
    if kind and parents[0] != "client":
        return _kind(kind), name
    named = [part for part in parents if not part.isdigit()]
    return (named[-1].replace("_", " ") if named else ""), name


def _kind_at(keys: list[str], scenario: Any) -> Any:
    """The kind of the link that stands there; None where there is none."""
    for key in keys:
        if isinstance(scenario, list) and key.isdigit() and int(key) < len(scenario):
            scenario = scenario[int(key)]
        else:
            scenario = scenario.get(key) if isinstance(scenario, Mapping) else None
    return scenario.get("kind") if isinstance(scenario, Mapping) else None


def _kind(name: Any) -> str:
    return KINDS.get(str(name), str(name).replace("_", " "))


def _value(text: str) -> Any:
    """A value as a scenario reads it; text where it cannot."""
    with contextlib.suppress(ScenarioError, ValueError, RecursionError):
        return parse(f"value: {text}\n", "variation").values["value"]
    return text
