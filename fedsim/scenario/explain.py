"""What a name means: `fedsim explain`. Everything is read from factories: signature, defaults, docstring."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from fedsim.errors import EXIT_CODES, Problem, ScenarioError, did_you_mean
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.scenario.annotations import annotation_of
from fedsim.scenario.catalogue import catalogue
from fedsim.scenario.docs import docs_of
from fedsim.scenario.expected import type_in_words
from fedsim.scenario.fragments import fragment_of, links_of
from fedsim.scenario.guide import guide_to_rules
from fedsim.scenario.keys import Key, key_names, keys, keys_at, keys_below, paths_of
from fedsim.scenario.meanings import meanings, meanings_of_column
from fedsim.synonyms import answer, synonym

WIDTH = 122  # docstrings keep to 120


def explanations(name: str, commands: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """All that a name means, as plain values: kinds, keys, columns, files, exit codes, commands; of `FAMILY/NAME` that one.

    Args:
      name: a kind (`median`, `rule/median`), a key or its path (`rounds`, `client.lr`, `key/seed`), a column or a table
        (`bytes_up`, `column/seed`, `rounds.csv`), an exit code (`5`, `exit`); `rules`, for which of them to take.
      commands: name -> what it does, of the commands that can be asked for.

    Raises:
      ScenarioError: for a name that nothing has.
    """
    family, _, word = name.rpartition("/")
    kind = ALIASES.get(word, word)
    families = [f for f in FAMILIES if family in ("", f, f + "s") and kind in FAMILIES[f]]
    explained = [_explain_factory(f, kind, FAMILIES[f][kind]) for f in families]
    if family in ("", "key"):
        explained += _explain_keys(word, everywhere=not explained)
    if family in ("", "file"):
        explained += _explain_file(word)
    if name == "rules":
        explained.append(guide_to_rules())
    for other, entries in _entries(word, commands or {}).items():
        if entries and family in ("", other):
            explained.append({"family": other, "kind": word, "parameters": [], "entries": entries})
    if family in meanings()["tables"] and family in (columns := meanings_of_column(word)):
        explained.append(
            {"family": family, "kind": word, "parameters": [], "entries": {family: columns[family]}}
        )
    if not explained:
        text = f"nothing is called '{name}'{_meant(word, [*names(), *(commands or {})])}"
        raise ScenarioError([Problem("", text)], "explain")
    return explained


def _entries(word: str, commands: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Family -> what a word means there, name -> text, of what has no parameters."""
    return {
        "column": meanings_of_column(word),
        "exit": {
            str(code): text for code, text in EXIT_CODES.items() if word in ("exit", str(code))
        },
        "command": {
            f"fedsim {command}": text for command, text in commands.items() if command == word
        },
    }


def _meant(word: str, known: Iterable[str]) -> str:
    """What a word that nothing has was meant to be."""
    places = ("key", "key:top", "kind", *(f"kind:{family}" for family in FAMILIES), "command")
    other = synonym(word.rpartition(".")[2], *places)
    return f"; {answer(other, value=word, rest='SCENARIO')}" if other else did_you_mean(word, known)


def names() -> set[str]:
    """Everything that can be explained, but commands."""
    kinds = {kind for kinds in catalogue(None).values() for kind in kinds} | ALIASES.keys()
    shown = {key.dotted for at in keys().values() for key in at if not key.kinds}
    files, tables, compared = (meanings()[part] for part in ("files", "tables", "compared"))
    columns = {column for table in tables.values() for column in table["columns"]}
    return (
        kinds | shown | columns | files.keys() | tables.keys() | compared.keys() | {"exit", "rules"}
    )


def _explain_file(name: str) -> list[dict[str, Any]]:
    """A file of a run directory; of a table its columns."""
    about, table = meanings()["files"].get(name, ""), meanings()["tables"].get(name, {})
    text = " ".join(
        filter(None, (about and f"{about[:1].upper()}{about[1:]}.", table.get("about", "")))
    )
    explained = {
        "family": "file",
        "kind": name,
        "summary": text,
        "parameters": [],
        "entries": table.get("columns", {}),
    }
    return [explained] if text or table else []


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
        "sections": {
            title: text
            for title, text in docs.sections.items()
            if title in ("Raises", "References")
        },
    }
    if family == "method":
        explained["parts"] = [_part(*part) for part in links_of(fragment_of(factory))]
    return explained


def _part(section: str, family: str, link: dict[str, Any]) -> dict[str, Any]:
    docs = docs_of(FAMILIES[family][link["kind"]])
    return {
        "section": section,
        "family": family,
        "link": link,
        "summary": docs.summary,
        "body": docs.body,
    }


def _explain_keys(name: str, everywhere: bool) -> list[dict[str, Any]]:
    """A key by its path, a section with its keys, or a key alone, wherever it stands.

    Args:
      name: of the key.
      everywhere: whether parameters of kinds count where a name without a path is no other key.
    """
    if not {".", "["} & {*name} and name not in key_names():
        return []
    keys = keys_at(name) or [key for path in paths_of(name) for key in keys_at(path)]
    if not everywhere and "." not in name:
        keys = [key for key in keys if not key.kinds]
    return list(map(_explain_key, keys))


def _explain_key(key: Key) -> dict[str, Any]:
    default = inspect.Parameter.empty if key.field.is_required() else key.field.get_default()
    row = _parameter(key.path[-1], annotation_of(key.field), default, key.field.description or "")
    below = [] if key.kinds else keys_below(key.path)
    if not below:
        above = ".".join(key.path[:-1]) or "scenario"
        return {"family": "section", "kind": above, "of": list(key.kinds), "parameters": [row]}
    rows = [_explain_key(inner)["parameters"][0] for inner in below if not keys_below(inner.path)]
    return {
        "family": "section",
        "kind": key.dotted,
        "of": [],
        "summary": row["text"],
        "parameters": rows,
    }


def _parameter(name: str, annotation: Any, default: Any, text: str) -> dict[str, Any]:
    known = {} if default is inspect.Parameter.empty else {"default": default}
    if isinstance(default, BaseModel):
        known = {"default": default.model_dump()}
    return {"name": name, "type": type_in_words(annotation), "text": text, **known}


def lines_of(explained: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    """An explanation as lines for people -> (whether it is a heading, line)."""
    kind, parameters = explained["kind"], explained["parameters"]
    if explained["family"] == "section":
        yield True, f"{kind}:" + (f"   of {', '.join(explained['of'])}" if explained["of"] else "")
    elif "entries" in explained:
        yield True, f"{explained['family']}/{kind}"
    else:
        also = f"   also: {', '.join(explained['aliases'])}" if explained["aliases"] else ""
        yield True, f"{explained['family']}/{kind}{also}"
        yield (
            False,
            f"  {_written({'kind': kind} | {p['name']: p.get('default', '...') for p in parameters})}",
        )
    for text in filter(None, (explained.get("summary"), explained.get("body"))):
        yield False, ""
        yield from _prose(text)
    for part in explained.get("parts", ()):
        yield False, ""
        yield True, f"  {part['section']}: {_written(part['link'])}"
        factory = FAMILIES[part["family"]][part["link"]["kind"]]
        short = (
            factory.__module__ == "fedsim.rules.optimizers" or not part["body"]
        )  # optax's texts are long
        yield from _prose(part["summary"] if short else part["body"], "    ")
    if parameters:
        yield False, ""
    for p in parameters:
        default = f" = {_plain(p['default'])}" if "default" in p else " (required)"
        bounds = "" if p["type"] == "a value" else f"   [{p['type']}]"
        yield True, f"  {p['name']}{default}{bounds}"
        yield from _prose(p["text"], "      ")
    if explained.get("body") and "entries" in explained:
        yield False, ""
    for name, text in explained.get("entries", {}).items():
        yield from _prose(f"{name}: {text}", hanging="    ")
    for title, text in explained.get("sections", {}).items():
        yield False, ""
        yield True, f"  {title}"
        yield from _prose(text, "    ")


def _prose(text: str, indent: str = "  ", hanging: str = "") -> Iterator[tuple[bool, str]]:
    """Lines as they were written, but for `Resists: ...    Cost: ...`, whose parts get a line each."""
    space = {
        "initial_indent": indent,
        "subsequent_indent": indent + hanging,
        "break_on_hyphens": False,
    }
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
