"""What a name means: `fedsim explain`.

Everything is read from factories: signatures, defaults, docstrings.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from fedsim.errors import EXIT_CODES, Problem, ScenarioError, near_miss, shortened
from fedsim.kinds import ALIASES, FAMILIES
from fedsim.kinds.claims import ranges_of
from fedsim.scenario.annotations import annotation_of
from fedsim.scenario.catalogue import aliases_of, catalogue, family_named
from fedsim.scenario.docs import docs_of
from fedsim.scenario.expected import SECTIONS_OF, joined, list_command, plural_of, type_in_words
from fedsim.scenario.fits import needs_and_takes, traits
from fedsim.scenario.fragments import fragment_of, links_of, ranges_of_method
from fedsim.scenario.guesses import in_words, row_of, what_is
from fedsim.scenario.guide import guide_to_rules
from fedsim.scenario.index import remedy as remedy_of_field
from fedsim.scenario.keys import Key, keys, keys_at, keys_below, paths_of, places
from fedsim.scenario.meanings import meanings, meanings_of_column
from fedsim.scenario.schema import per_registry
from fedsim.scenario.sections import CLIENT_SGD, Spec
from fedsim.spelling import words_of
from fedsim.synonyms import Synonym, parameters_like

WIDTH = 122  # wider than any line of a docstring, which stays as it is

# Keys whose values other tools have names for.
EXPLAINED_VALUES = ("evaluate.metric",)

MAX_ALIKE = 6  # names that share a word with one that means nothing
WHERE_TO_LOOK = (
    "fedsim list has all kinds, fedsim explain client the keys of a section, "
    "docs/coming_from.md the names of other tools"
)

FULL = 90  # columns of a line of a docstring, without its indent, that its next word did not fit on

Line = tuple[bool, str]  # whether it is a heading, and its text
# Whether it is a heading; its text, with line breaks as it was written; the further indent of what
# does not fit on its first line.
Paragraph = tuple[bool, str, str]


def explanations(
    name: str,
    commands: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Return all meanings of a name, as plain values; of `FAMILY/NAME` the one in that family.

    Args:
      name: a kind (`median`, `rule/median`), a key or its path (`rounds`, `client.lr`, `key/seed`),
        a column or a table (`bytes_up`, `column/seed`, `rounds.csv`), an exit code (`5`, `exit`),
        a family (`attacks`), or `rules`, for advice on which of them to take.
      commands: command line -> what it does, of the commands of this name.
      options: option and its commands -> what it does, of the options of this name.

    Raises:
      ScenarioError: for a name that has no meaning.
    """
    commands = commands or {}
    family, _, word = name.rpartition("/")
    explained = _meanings_of_kind(family, word)
    if family in ("", "key"):
        explained += _meanings_of_key(word)
    if family in ("", "parameter") and not explained:
        explained += _meanings_as_parameter(word)
    if family in ("", "file"):
        explained += _meanings_of_file(word)
    if name == "rules":
        explained.append(guide_to_rules())
    elif family == "":
        explained += _meanings_of_family(word, singular_too=not explained)
    explained += _meanings_without_parameters(family, word, commands, options or {})
    if not explained:
        remedy = remedy_of_field(word) or _remedy(word, names())
        raise ScenarioError([Problem("", f"nothing is called '{name}'{remedy}")], "explain")
    return explained


def _remedy(word: str, known: Iterable[str]) -> str:
    """Return what a name without a meaning was probably meant as, and else where to look."""
    guess = next(filter(None, _guesses(word, sorted(known))), "")
    return f"; {guess}" if guess else f", and nothing is like it; {WHERE_TO_LOOK}"


def _guesses(word: str, known: list[str]) -> Iterator[str]:
    """Yield what a name may have been meant as, the likeliest first; some may be empty."""
    yield near_miss(word, known, alike=1.0)
    kinds = [f"kind:{family}" for family in FAMILIES]
    values = [f"value:{path}" for path in EXPLAINED_VALUES]
    in_a_scenario = ("key", "key:top", "kind", *kinds, "column", *values)
    row = row_of(word, *in_a_scenario) or row_of(word, "list", "command")
    if row is not None:
        yield f"{_place_of(row)}{in_words(row, word)}"
    if rows := parameters_like(word):
        parameters = [name for row in rows for name in row.ours.split()]
        yield f"of a kind: write {joined(parameters)} (fedsim explain {parameters[0]})"
    yield near_miss(word, known, alike=0.75)
    yield what_is(word.partition(".")[0])
    yield near_miss(word, [*places(), *CLIENT_SGD], alike=0.75)
    if alike := [name for name in known if _shares_a_word(word, name)]:
        yield f"names with a word of it: {', '.join(alike[:MAX_ALIKE])}"


def _place_of(row: Synonym) -> str:
    """Return for which section or key a row counts, before a colon; empty if for all."""
    where, _, place = row.where.partition(":")
    if where not in ("kind", "value") or not place:
        return ""
    return f"{SECTIONS_OF.get(place, place)}: "


def _shares_a_word(one: str, other: str) -> bool:
    """Whether a word of at least four letters is in both names, whatever section they are in."""
    last = other.rpartition(".")[2]
    return any(len(word) > 3 for word in words_of(one) & words_of(last))


@per_registry
def names() -> set[str]:
    """Return everything that can be explained, except commands."""
    known = {"exit", "rules", *ALIASES}
    for kinds in catalogue(None).values():
        known.update(kinds)
    for keys_here in keys().values():
        known.update(key.dotted for key in keys_here if not key.kinds)

    texts = meanings()
    known.update(texts["files"], texts["tables"], texts["compared"])
    for table in texts["tables"].values():
        known.update(table["columns"])
    return known


def _meanings_of_kind(family: str, word: str) -> list[dict[str, Any]]:
    """Return the meanings of a word as a kind, in one family or, if that is empty, in all."""
    kind = ALIASES.get(word, word)
    explained: list[dict[str, Any]] = []
    for name, factories in FAMILIES.items():
        if family in ("", name, plural_of(name)) and kind in factories:
            explained.append(_explain_factory(name, kind, factories[kind]))
    return explained


def _explain_factory(family: str, kind: str, factory: Callable) -> dict[str, Any]:
    docs = docs_of(factory)
    parameters: list[dict[str, Any]] = []
    for p in inspect.signature(factory, eval_str=True).parameters.values():
        parameters.append(_parameter(p.name, p.annotation, p.default, docs.args.get(p.name, "")))
    shown = ("Raises", "References")
    explained = {
        "family": family,
        "kind": kind,
        "aliases": aliases_of(kind),
        "summary": docs.summary,
        "body": docs.body,
        "parameters": parameters,
        "sections": {title: text for title, text in docs.sections.items() if title in shown},
    }
    ranges = ranges_of(factory)
    if family == "method":
        ranges = ranges_of_method(kind, client="sgd")
        explained["parts"] = [_explain_link(*link) for link in links_of(fragment_of(factory))]
    if ranges:
        explained["ranges"] = ranges
    if kind in traits().get(family, {}):
        explained["fits"] = needs_and_takes(traits()[family][kind])
    return explained


def _explain_link(section: str, family: str, link: dict[str, Any]) -> dict[str, Any]:
    docs = docs_of(FAMILIES[family][link["kind"]])
    return {
        "section": section,
        "family": family,
        "link": link,
        "summary": docs.summary,
        "body": docs.body,
    }


def _meanings_of_key(name: str) -> list[dict[str, Any]]:
    """Return the meanings of a key by its path, of a section, or of a key wherever it is."""
    is_path = "." in name or "[" in name
    if not is_path and name not in (*places(), *CLIENT_SGD):
        return []
    matches = keys_at(name) or [key for path in paths_of(name) for key in keys_at(path)]
    if not is_path:
        matches = [key for key in matches if not key.kinds]
    explained = [_explain_key(key) for key in matches]
    for key, meaning in zip(matches, explained, strict=True):
        if key.dotted in traits()["section"]:
            meaning["fits"] = needs_and_takes(traits()["section"][key.dotted])
            meaning["fits_of"] = key.dotted
    return explained


def _meanings_as_parameter(word: str) -> list[dict[str, Any]]:
    """Return the kinds that have a parameter of a name, with what it is to each in a line."""
    entries: dict[str, str] = {}
    for family, factories in FAMILIES.items():
        if family == "method":  # whose parameters are those of their links
            continue
        for kind, factory in factories.items():
            parameter = inspect.signature(factory, eval_str=True).parameters.get(word)
            if parameter is not None:
                name = f"{family}/{kind}"
                line = _default_and_text(factory, parameter)
                entries[name] = shortened(line, WIDTH - len(f"  {name}: "))
    if not entries:
        return []
    about = "A parameter of these kinds; `fedsim explain KIND` has all of it."
    return [_listed("parameter", word, about, entries)]


def _listed(family: str, name: str, summary: str, entries: dict[str, str]) -> dict[str, Any]:
    """Return the meaning of a name that stands for several entries, with a text for each."""
    return {
        "family": family,
        "kind": name,
        "summary": summary,
        "parameters": [],
        "entries": entries,
    }


def _default_and_text(factory: Callable, parameter: inspect.Parameter) -> str:
    text = " ".join(docs_of(factory).args.get(parameter.name, "").split())
    if parameter.default is inspect.Parameter.empty:
        return text
    return f"{parameter.name} = {as_value(parameter.default)}; {text}"


def _explain_key(key: Key) -> dict[str, Any]:
    field = key.field
    default = inspect.Parameter.empty if field.is_required() else field.get_default()
    row = _parameter(key.path[-1], annotation_of(field), default, field.description or "")
    inner_keys = [] if key.kinds else keys_below(key.path)
    if not inner_keys:
        section = ".".join(key.path[:-1]) or "scenario"
        return {"family": "section", "kind": section, "of": list(key.kinds), "parameters": [row]}

    rows: list[dict[str, Any]] = []
    for inner in inner_keys:
        if not keys_below(inner.path):
            rows += _explain_key(inner)["parameters"]
    return {
        "family": "section",
        "kind": key.dotted,
        "of": [],
        "summary": row["text"],
        "parameters": rows,
    }


def _parameter(name: str, annotation: Any, default: Any, text: str) -> dict[str, Any]:
    parameter = {"name": name, "type": type_in_words(annotation), "text": text}
    if isinstance(default, BaseModel):
        default = default.model_dump()
    if default is not inspect.Parameter.empty:
        parameter["default"] = default
    return parameter


def _meanings_of_file(name: str) -> list[dict[str, Any]]:
    """Return the meaning of a file of a run directory; of a table also its columns."""
    about = meanings()["files"].get(name, "")
    table = meanings()["tables"].get(name, {})
    if not about and not table:
        return []
    sentences: list[str] = []
    if about:
        sentences.append(f"{about[:1].upper()}{about[1:]}.")
    if table.get("about"):
        sentences.append(table["about"])
    return [_listed("file", name, " ".join(sentences), table.get("columns", {}))]


def _meanings_of_family(word: str, singular_too: bool) -> list[dict[str, Any]]:
    """Return the meaning of the name of a family: where its kinds belong, and what they are."""
    family = family_named(word)
    if not family or (word == family and not singular_too):
        return []
    section = SECTIONS_OF.get(family, family)
    sentences = [f"They belong in `{section}`; `{list_command([family])}` has their parameters."]
    if family in Spec.model_fields and section != family:
        sentences.append(f"The section `{family}` is something else: `fedsim explain {family}`.")
    entries = {kind: row["summary"] for kind, row in catalogue(family)[plural_of(family)].items()}
    return [_listed("family", plural_of(family), " ".join(sentences), entries)]


def _meanings_without_parameters(
    family: str, word: str, commands: Mapping[str, str], options: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the meanings of a word as a column, an exit code, a command or an option."""
    columns = meanings_of_column(word)
    codes = {str(code): text for code, text in EXIT_CODES.items() if word in ("exit", str(code))}
    entries = {"column": columns, "exit": codes, "command": dict(commands), "option": dict(options)}
    if family in columns and family in meanings()["tables"]:
        entries[family] = {family: columns[family]}

    explained: list[dict[str, Any]] = []
    for name, texts in entries.items():
        if texts and family in ("", name):
            explained.append({"family": name, "kind": word, "parameters": [], "entries": texts})
    return explained


def lines_of(explained: dict[str, Any], width: int = WIDTH) -> Iterator[Line]:
    """Yield the lines of an explanation: (whether it is a heading, text of at most a width)."""
    for is_heading, text, hanging in _paragraphs_of(explained):
        for line in _folded(text, width):
            yield from ((is_heading, part) for part in _wrapped(line, width, hanging))


def _folded(text: str, width: int) -> list[str]:
    """Return the lines of a paragraph; as one line if they do not fit as they were written."""
    lines = text.split("\n")
    if all(len(line) <= width for line in lines):
        return lines
    return [" ".join([lines[0], *(line.strip() for line in lines[1:])])]


def _wrapped(line: str, width: int, hanging: str) -> list[str]:
    """Return a line as lines of a width, indented as it is; those behind the first by more."""
    indent = line[: len(line) - len(line.lstrip())]
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=indent + hanging, break_on_hyphens=False, break_long_words=False
    )
    return wrapper.wrap(line) or [""]


def _paragraphs_of(explained: dict[str, Any]) -> Iterator[Paragraph]:
    yield from _head(explained)
    for text in (explained.get("summary"), explained.get("body")):
        if text:
            yield False, "", ""
            yield from _prose(text)
    for link in explained.get("parts", ()):
        yield False, "", ""
        yield from _lines_of_link(link)

    if explained["parameters"]:
        yield False, "", ""
    for parameter in explained["parameters"]:
        yield from _lines_of_parameter(parameter)

    if "ranges" in explained:
        yield False, "", ""
        yield True, "  Tuned over, where compare.ranges is true", "    "
        for path, text in explained["ranges"].items():
            yield False, f"    {path}: {text}", "    "

    if explained.get("body") and "entries" in explained:
        yield False, "", ""
    for name, text in explained.get("entries", {}).items():
        yield from _prose(f"{name}: {text}", hanging="    ")
    for title, text in explained.get("sections", {}).items():
        yield False, "", ""
        yield True, f"  {title}", "    "
        yield from _prose(text, "    ")
    if explained.get("fits"):
        yield False, "", ""
        name = explained.get("fits_of", explained["kind"])
        yield True, f"  What it goes with: fedsim list --with {name}", "    "
    for text in explained.get("fits", {}).values():
        yield from _prose(text, indent="    ", hanging="    ")


def _head(explained: dict[str, Any]) -> Iterator[Paragraph]:
    """Yield the name that is explained; of a kind also how a scenario writes it."""
    kind = explained["kind"]
    family = explained["family"]
    if family == "section":
        of_kinds = f"   of {', '.join(explained['of'])}" if explained["of"] else ""
        yield True, f"{kind}:{of_kinds}", "    "
        return
    if "entries" in explained:
        yield True, f"{family}/{kind}", "    "
        return

    aliases = explained["aliases"]
    also = f"   also: {', '.join(aliases)}" if aliases else ""
    yield True, f"{family}/{kind}{also}", "    "
    link = {"kind": kind}
    for parameter in explained["parameters"]:
        link[parameter["name"]] = parameter.get("default", "...")
    yield False, f"  {as_mapping(link)}", "    "


def _lines_of_link(link: dict[str, Any]) -> Iterator[Paragraph]:
    yield True, f"  {link['section']}: {as_mapping(link['link'])}", "    "
    factory = FAMILIES[link["family"]][link["link"]["kind"]]
    is_of_optax = factory.__module__ == "fedsim.rules.optimizers"  # whose texts are long
    if is_of_optax or not link["body"]:
        yield from _prose(link["summary"], "    ")
    else:
        yield from _prose(link["body"], "    ")


def _lines_of_parameter(parameter: dict[str, Any]) -> Iterator[Paragraph]:
    default = " (required)"
    if "default" in parameter:
        default = f" = {as_value(parameter['default'])}"
    expected = ""
    if parameter["type"] != "a value":
        expected = f"   [{parameter['type']}]"
    yield True, f"  {parameter['name']}{default}{expected}", "    "
    yield from _prose(parameter["text"], "      ")


def _prose(text: str, indent: str = "  ", hanging: str = "") -> Iterator[Paragraph]:
    """Yield paragraphs; each part of `Resists: ...    Cost: ...` is one of its own."""
    for paragraph in _paragraphs(text.splitlines()):
        parts = [paragraph] if paragraph.startswith(" ") else re.split(r" {4,}", paragraph)
        for part in parts:
            yield False, textwrap.indent(part, indent), hanging


def _paragraphs(lines: list[str]) -> list[str]:
    """Return lines with those joined, by line breaks, that were broken only because they were full.

    A line goes on where the next word did not fit on it; an equation or a list never does.
    """
    paragraphs: list[str] = []
    before = ""
    for line in lines:
        word = f"{line.strip()} ".split(" ")[0]
        was_full = len(before) + 1 + len(word) > FULL and not before.endswith(":")
        is_prose = word and not word.startswith("-") and not line.startswith("   ")
        if was_full and is_prose and not before.startswith("   "):
            paragraphs[-1] += f"\n{line}"
        else:
            paragraphs.append(line)
        before = line
    return paragraphs


def as_mapping(values: dict[str, Any]) -> str:
    """Return a mapping as a scenario writes it, on one line."""
    entries = ", ".join(f"{name}: {as_value(value)}" for name, value in values.items())
    return f"{{{entries}}}"


def as_value(value: Any) -> str:
    """Return a value as a scenario writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return as_mapping(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(as_value(item) for item in value)}]"
    if isinstance(value, float) and 1e-4 <= abs(value) < 1e6:
        return f"{value:g}"
    return str(value)
