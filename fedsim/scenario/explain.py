"""What a name means: `fedsim explain`. Everything is read from factories: signature, defaults, docstring."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel

from fedsim.compose import ALIASES, FAMILIES
from fedsim.errors import Problem, ScenarioError, did_you_mean
from fedsim.scenario.annotations import annotation_of
from fedsim.scenario.catalogue import catalogue
from fedsim.scenario.docs import docs_of
from fedsim.scenario.expected import type_in_words
from fedsim.scenario.fragments import fragment_of, links_of
from fedsim.scenario.schema import scenario_model
from fedsim.scenario.sections import Checkpoint, ClientCommon, DataCommon, Evaluate, Fleet, ModelCommon, Numerics

SECTIONS = {
    "data": DataCommon,
    "model": ModelCommon,
    "fleet": Fleet,
    "client": ClientCommon,
    "evaluate": Evaluate,
    "numerics": Numerics,
    "checkpoint": Checkpoint,
}
WIDTH = 122  # docstrings keep to 120


def explanations(name: str) -> list[dict[str, Any]]:
    """Every kind of a name, of `FAMILY/NAME`, and every key such as `client.batch`, as plain values.

    Raises:
      ScenarioError: for a name that nothing has.
    """
    family, _, kind = name.rpartition("/")
    kind = ALIASES.get(kind, kind)
    families = [f for f in FAMILIES if family in ("", f, f + "s") and kind in FAMILIES[f]]
    explained = [_explain_factory(f, kind, FAMILIES[f][kind]) for f in families]
    if not family:
        explained += _explain_keys(name)
    if not explained:
        known = {k for kinds in catalogue(None).values() for k in kinds} | ALIASES.keys() | set(SECTIONS)
        raise ScenarioError([Problem("", f"nothing is called '{name}'{did_you_mean(kind, known)}")], "explain")
    return explained


def _explain_factory(family: str, kind: str, factory: Callable) -> dict[str, Any]:
    docs = docs_of(factory)
    explained = {
        "family": family,
        "kind": kind,
        "aliases": sorted(alias for alias, name in ALIASES.items() if name == kind),
        "summary": docs.summary,
        "body": docs.body,
        "parameters": [
            _parameter(p.name, p.annotation, p.default, docs.args.get(p.name, ""))
            for p in inspect.signature(factory, eval_str=True).parameters.values()
        ],
        "sections": {title: text for title, text in docs.sections.items() if title in ("Raises", "References")},
    }
    if family == "method":
        explained["parts"] = [_part(*part) for part in links_of(fragment_of(factory))]
    return explained


def _part(section: str, family: str, link: dict[str, Any]) -> dict[str, Any]:
    docs = docs_of(FAMILIES[family][link["kind"]])
    return {"section": section, "family": family, "link": link, "summary": docs.summary, "body": docs.body}


def _explain_keys(name: str) -> list[dict[str, Any]]:
    """A section of the scenario, or one of its keys; `batch` alone is found wherever it stands."""
    explained = []
    for section, model in SECTIONS.items():
        rows = [
            _parameter(key, annotation_of(field), field.get_default(), field.description or "")
            for key, field in model.model_fields.items()
            if name in (section, key, f"{section}.{key}")
        ]
        if rows:
            explained.append({"family": "section", "kind": section, "parameters": rows})
    return explained


def paths_of(name: str) -> list[str]:
    """Where a key of this name stands in a scenario: `lr` -> `client.lr`."""
    top = [name] if name in scenario_model().model_fields else []
    return top + [f"{section}.{name}" for section, model in SECTIONS.items() if name in model.model_fields]


def _parameter(name: str, annotation: Any, default: Any, text: str) -> dict[str, Any]:
    known = {} if default is inspect.Parameter.empty else {"default": default}
    if isinstance(default, BaseModel):
        known = {"default": default.model_dump()}
    return {"name": name, "type": type_in_words(annotation), "text": text, **known}


def lines_of(explained: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    """An explanation as lines for people -> (whether it is a heading, line)."""
    kind, parameters = explained["kind"], explained["parameters"]
    if explained["family"] == "section":
        yield True, f"{kind}:"
    else:
        also = f"   also: {', '.join(explained['aliases'])}" if explained["aliases"] else ""
        yield True, f"{explained['family']}/{kind}{also}"
        yield False, f"  {_written({'kind': kind} | {p['name']: p.get('default', '...') for p in parameters})}"
    for text in filter(None, (explained.get("summary"), explained.get("body"))):
        yield False, ""
        yield from _prose(text)
    for part in explained.get("parts", ()):
        yield False, ""
        yield True, f"  {part['section']}: {_written(part['link'])}"
        factory = FAMILIES[part["family"]][part["link"]["kind"]]
        short = factory.__module__ == "fedsim.rules.optimizers" or not part["body"]  # optax's texts are long
        yield from _prose(part["summary"] if short else part["body"], "    ")
    if parameters:
        yield False, ""
    for p in parameters:
        default = f" = {_plain(p['default'])}" if "default" in p else " (required)"
        bounds = "" if p["type"] == "a value" else f"   [{p['type']}]"
        yield True, f"  {p['name']}{default}{bounds}"
        yield from _prose(p["text"], "      ")
    for title, text in explained.get("sections", {}).items():
        yield False, ""
        yield True, f"  {title}"
        yield from _prose(text, "    ")


def _prose(text: str, indent: str = "  ") -> Iterator[tuple[bool, str]]:
    """Lines as they were written, but for `Resists: ...    Cost: ...`, whose parts get a line each."""
    space = {"initial_indent": indent, "subsequent_indent": indent, "break_on_hyphens": False}
    for line in text.splitlines():
        for part in [line] if line.startswith(" ") else re.split(r"\s{4,}", line):
            yield from ((False, wrapped) for wrapped in textwrap.wrap(part, WIDTH, **space) or [""])


def _written(link: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{name}: {_plain(value)}" for name, value in link.items()) + "}"


def _plain(value: Any) -> str:
    """A value as a scenario writes it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, dict):
        return _written(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return f"{value:g}" if isinstance(value, float) and 1e-4 <= abs(value) < 1e6 else str(value)
