"""Paths of a scenario and their values in words: `fleet.malicious=0.2` is "20 % malicious".

A variation is written as a label, the text of the column `variant`: settings `PATH=VALUE` with
commas between them.
"""

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError
from fedsim.installed import added
from fedsim.scenario.reader import parse
from fedsim.scenario.shorthand import split_at_commas

# path -> (name of the axis, a value of it); {s} is the plural
TITLES = {
    "rounds": ("rounds", "{} round{s}"),
    "model": ("model", "model {}"),
    "model.loss": ("loss", "loss {}"),
    "data": ("data", "{}"),
    "data.clients": ("clients", "{} client{s}"),
    "data.partition": ("partition", "{}"),
    "data.partition.classes": ("labels per client", "{} label{s} per client"),
    "data.partition.per_client": ("shards per client", "{} shard{s} per client"),
    "data.skew": ("skew", "skew {}"),
    "data.attack": ("attack on data", "{} in the data"),
    "data.augment": ("augmentation", "augmentation {}"),
    "cohort.size": ("clients per round", "{} client{s} per round"),
    "client.lr": ("client learning rate", "client learning rate {}"),
    "client.batch": ("samples per batch", "batches of {}"),
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
    "wire": ("attack or codec", "{}"),
    "topology": ("graph", "{}"),
    "topology.kind": ("graph", "{}"),
    "topology.edge_rounds": ("edge rounds", "{} edge round{s}"),
    "topology.fail": ("share of connections down", "{} of connections down"),
    "broadcast": ("codec of the broadcast", "{} in the broadcast"),
    "numerics.dtype": ("float type", "{}"),
}
for _, titles in added("TITLES"):
    TITLES |= titles

# hyper-parameter -> its sign or name
SIGNS = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "eps": "ε",
    "epsilon": "ε",
    "eta": "η",
    "lam": "λ",
    "mu": "μ",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "lr": "learning rate",
    "b1": "β₁",
    "b2": "β₂",
}

# kind, and the parameter that says all of it -> both in words
PHRASES = {
    ("pathological", "classes"): "{} label{s} per client",
    ("shards", "per_client"): "{} shard{s} per client",
}

# kind -> its name, where that is not the kind with spaces
CALL = re.compile(r"(\w+)\((.*)\)")  # `dirichlet(alpha=0.1)`
KINDS = {"iid": "IID", "dirichlet": "Dirichlet", "lora": "LoRA"}

ATTACK_KIND_PATHS = re.compile(r"(wire|data\.attack)(\[\d+\])?")  # which attack there is
CODEC_PATHS = re.compile(r"(wire|broadcast)\b")


def variation_in_words(label: str, scenario: Mapping[str, Any] | None = None) -> str:
    """Return a label of the column `variant` or `tuned` in words; any other text as it is.

    Args:
      scenario: the scenario, as in `run.json`; it names the kind that a parameter belongs to.

    >>> variation_in_words("data.test={clients: [Oslo, Rome]}")
    'Oslo, Rome held out'
    >>> variation_in_words("data.partition=pathological(classes=2)")
    '2 labels per client'
    """
    if "=" not in label:
        return label
    settings = split_at_commas(label)
    return ", ".join(_setting_in_words(setting, scenario) for setting in settings)


def words_of(scenario: Mapping[str, Any] | None) -> Callable[[str], str]:
    """Return `variation_in_words` for one scenario, which remembers the labels it has read."""
    return functools.cache(functools.partial(variation_in_words, scenario=scenario))


def axis_name(path: str, scenario: Mapping[str, Any] | None = None) -> str:
    """Return the name of an axis: of what varies along a path.

    >>> axis_name("fleet.malicious"), axis_name("wire[0].scale", {"wire": [{"kind": "sign_flip"}]})
    ('share of malicious clients', 'sign flip scale')
    """
    if path in TITLES:
        name, _ = TITLES[path]
        return name
    owner, parameter = _owner_and_key(path, scenario)
    return f"{owner} {_parameter(parameter)}".strip()


def name_and_path(path: str) -> str:
    """Return what varies along a path, and the path where the scenario has another word for it."""
    name = axis_name(path)
    return name if name == path else f"{name} ({path})"


def count(number: int, noun: str) -> str:
    """Return a number of things, such as `1 seed`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def seconds_in_words(seconds: float) -> str:
    """Return a time in words.

    >>> seconds_in_words(42), seconds_in_words(600), seconds_in_words(10_000)
    ('42 s', '10 min', '2 h 47 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def is_number(value: Any) -> bool:
    """Return whether a value of an axis is a number, and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def others_of(number: int, total: int) -> str:
    """Return how many of the other methods: `1 of the 3 others`.

    >>> others_of(1, 1), others_of(2, 2), others_of(3, 3)
    ('the other', 'both others', 'all 3 others')
    >>> others_of(1, 3), others_of(0, 3)
    ('1 of the 3 others', 'none of the 3 others')
    """
    if number == total == 1:
        return "the other"
    if number == total == 2:
        return "both others"
    if number == total:
        return f"all {total} others"
    return f"{number or 'none'} of the {total} others"


def difference_in_words(difference: float, low: float | None, high: float | None) -> str:
    """Return a difference with its 95 % interval.

    An interval without width is left out: it would claim more than equal differences support.
    """
    text = f"{difference:+z.3g}"
    if low is None or low == high:
        return text
    return f"{text}, 95 % CI {low:+z.3g} to {high:+z.3g}"


def for_display(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section as pages and pictures show it: a file by its name, and without its hash.

    >>> for_display({"kind": "file", "path": "../splits/ten.csv", "sha256": "0f"})
    {'kind': 'file', 'path': 'ten.csv'}
    """
    visible = {name: value for name, value in section.items() if name != "sha256"}
    if isinstance(visible.get("path"), str):
        visible["path"] = os.path.basename(visible["path"])
    return visible


def path_and_value(setting: str) -> tuple[str, str]:
    """Split a setting `PATH=VALUE`."""
    path, _, value = setting.partition("=")
    return path.strip(), value.strip()


def settings_in(variations: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield path and value of every setting of variations."""
    for label in variations:
        yield from map(path_and_value, split_at_commas(label))


def part_of(variation: str, wanted: Callable[[str], bool]) -> str:
    """Return a variation without the settings whose path is not wanted."""
    settings = split_at_commas(variation)
    return ", ".join(setting for setting in settings if wanted(path_and_value(setting)[0]))


@functools.cache  # reading YAML takes a millisecond, and thousands of runs have few settings
def chooses_attack(setting: str) -> bool:
    """Return whether `PATH=VALUE` says which attack there is; a wire of codecs alone does not."""
    path, text = path_and_value(setting)
    if not ATTACK_KIND_PATHS.fullmatch(path):
        return False
    links = _as_list(_value(text))
    if not links:
        return True  # no attack is one of the attacks that are compared
    return not all(_is_codec(link) for link in links)


def codec_axes(variations: Iterable[str]) -> set[str]:
    """Return the paths along which codecs vary: `wire` or `broadcast`, or a key below them.

    Their values are codecs or nothing, and not all of them nothing.
    """
    values: dict[str, set[str]] = {}
    for path, text in settings_in(variations):
        if CODEC_PATHS.match(path):
            values.setdefault(path, set()).add(text)

    axes = set()
    for path, texts in values.items():
        chosen = [f"{path}={text}" for text in texts if text != "[]"]
        if chosen and not any(map(chooses_attack, chosen)):
            axes.add(path)
    return axes


def call_of(link: Any) -> str:
    """Return a link, or a chain of them, as a call.

    >>> values = {"kind": "qsgd", "levels": 4}
    >>> call_of({"kind": "top_k", "k": 9, "density": None, "values": values})
    'top_k(k=9, values=qsgd(levels=4))'
    """
    if isinstance(link, list):
        return " → ".join(call_of(item) for item in link) or "as sent"
    if isinstance(link, bool):
        return "true" if link else "false"
    if not isinstance(link, Mapping) or "kind" not in link:
        return str(link)

    arguments = []
    for name, value in for_display(link).items():
        if name != "kind" and value not in (None, [], {}):
            prefix = "" if name == "codec" else f"{name}="
            arguments.append(prefix + call_of(value))
    return f"{link['kind']}({', '.join(arguments)})" if arguments else str(link["kind"])


def value_in_short(value: Any) -> str:
    """Return a value of an axis: links as calls, anything else as it is in the scenario.

    >>> value_in_short("[{kind: error_feedback, codec: {kind: top_k, k: 9}}]")
    'error_feedback(top_k(k=9))'
    >>> value_in_short("[]"), value_in_short(0.2)
    ('nothing', '0.2')
    """
    links = _as_list(_value(value) if isinstance(value, str) else value)
    if not links:
        return "nothing"
    if all(isinstance(link, Mapping) and "kind" in link for link in links):
        return call_of(links)
    return str(value)


def _setting_in_words(setting: str, scenario: Mapping[str, Any] | None) -> str:
    if "=" not in setting:
        return setting
    path, text = path_and_value(setting)
    value = _value(text)
    if path == "fleet.malicious":
        return _malicious(value, text)
    if path == "data.test" and isinstance(value, Mapping) and isinstance(value["clients"], list):
        return f"{', '.join(map(str, value['clients']))} held out"
    words = _value_in_words(value, text)
    if not words:
        return _nothing(path, scenario)
    owner, _, key = path.rpartition(".")
    kind = _kind_at(re.findall(r"[^.\[\]]+", owner), scenario)
    phrase = PHRASES.get((str(kind), key))
    if phrase is None and path in TITLES:
        _, phrase = TITLES[path]
    if phrase is not None:
        return _phrase(phrase, words, value)
    if _parameter(key) in SIGNS.values() and not path.startswith("wire"):
        return _parameter_in_words(key, words)
    return f"{axis_name(path, scenario)} {words}"


def _phrase(phrase: str, words: Any, value: Any) -> str:
    return phrase.format(words, s="" if str(value) == "1" else "s")


def _malicious(value: Any, text: str) -> str:
    """A value of `fleet.malicious` in words: a share, ids, or a mapping with one of these."""
    kind = "share"
    amount = value
    suffix = ""
    if isinstance(value, dict):
        kinds = [key for key in ("share", "count", "ids") if value.get(key) is not None]
        kind = kinds[0] if kinds else "count"
        amount = value.get(kind, text)
        suffix = ", drawn every round" if value.get("per") == "round" else ""
    if isinstance(amount, list):
        noun = "client" if len(amount) == 1 else "clients"
        return f"{noun} {', '.join(map(str, amount))} malicious{suffix}"
    if kind == "share" and is_number(amount):
        return f"{100 * amount:.6g} % malicious{suffix}"
    return f"{amount} malicious{suffix}"


def _value_in_words(value: Any, text: str) -> str:
    """A value in words: links by their names and parameters, anything else as it is."""
    if _is_codec(value):
        return call_of(value)
    if isinstance(value, list) and all(_is_link(item) for item in value):
        return ", then ".join(_link_in_words(item) for item in value)
    if isinstance(value, dict) and "kind" in value:
        return _link_in_words(value)
    call = CALL.fullmatch(text)
    if call is not None:
        return _with_parameters(call[1], map(path_and_value, split_at_commas(call[2])))
    return KINDS.get(text, text)


def _is_link(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and "kind" in value)


def _link_in_words(link: Any) -> str:
    """A link in words: a codec as a call, any other kind with its parameters behind it."""
    if _is_codec(link):
        return call_of(link)
    if not isinstance(link, dict):
        return _kind(link)
    parameters = [(name, value) for name, value in link.items() if name != "kind"]
    return _with_parameters(link["kind"], parameters)


def _with_parameters(kind: Any, parameters: Iterable[tuple[str, Any]]) -> str:
    parameters = list(parameters)
    if len(parameters) == 1:
        [(name, value)] = parameters
        if phrase := PHRASES.get((str(kind), name)):
            return _phrase(phrase, value, value)
    texts = [_parameter_in_words(name, value) for name, value in parameters]
    return f"{_kind(kind)} {', '.join(texts)}".strip()


def _parameter_in_words(name: str, value: Any) -> str:
    """A hyper-parameter as people write it: `α = 0.1`, `scale 5`."""
    words = _parameter(name)
    is_sign = len(words) <= 2 and words in SIGNS.values()
    return f"{words} = {value}" if is_sign else f"{words} {value}"


def _nothing(path: str, scenario: Mapping[str, Any] | None) -> str:
    """A value of an axis that is an empty list, by the other values: without attack or codec."""
    vary = ((scenario or {}).get("compare") or {}).get("vary") or {}
    labels = [f"{path}={value}" for value in vary.get(path, ())]
    if codec_axes(labels) or path.startswith("broadcast"):
        return "uncompressed"
    return "no attack" if labels else "nothing"


def _is_codec(link: Any) -> bool:
    if isinstance(link, dict):
        kind = link.get("kind")
    else:
        kind, _, _ = str(link).partition("(")  # a call in a label, such as `top_k(k=9)`
    return kind in FAMILIES["codec"]


def _owner_and_key(path: str, scenario: Mapping[str, Any] | None) -> tuple[str, str]:
    """The kind or the section that the last key of a path belongs to, and that key."""
    *parents, key = re.findall(r"[^.\[\]]+", path) or [path]
    kind = _kind_at(parents, scenario)
    if kind and parents[0] != "client":
        return _kind(kind), key
    sections = [parent for parent in parents if not parent.isdigit()]
    if not sections:
        return "", key
    return sections[-1].replace("_", " "), key


def _kind_at(keys: list[str], scenario: Any) -> Any:
    """The kind of the link under some keys of a scenario; None if there is no link."""
    value = scenario
    for key in keys:
        if isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, Mapping):
            value = value.get(key)
        else:
            return None
    if not isinstance(value, Mapping):
        return None
    return value.get("kind")


def _kind(name: Any) -> str:
    return KINDS.get(str(name), str(name).replace("_", " "))


def _parameter(name: str) -> str:
    return SIGNS.get(name, name.replace("_", " "))


def _as_list(value: Any) -> list[Any]:
    """A chain of links as it is, a single link as a chain of one."""
    return value if isinstance(value, list) else [value]


def _value(text: str) -> Any:
    """A value as a scenario reads it; its text if that does not parse."""
    with contextlib.suppress(ScenarioError, ValueError, RecursionError):
        return parse(f"value: {text}\n", "variation").values["value"]
    return text
