"""A page for every kind: what `fedsim explain` says, with formulas set, and a kept figure."""

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import kept
from borrowed import has_latex, html_of
from making import make
from mathematics import typeset
from places import link, place_of

from fedsim.kinds import FAMILIES
from fedsim.scenario.catalogue import catalogue
from fedsim.scenario.expected import plural_of
from fedsim.scenario.explain import as_mapping, as_value, explanations

ROW = re.compile(r"^\| \[`(\w+)`\]\([^)]*\)", re.M)
LABEL = re.compile(r"[A-Z]\w+: .*", re.S)
PROSE = re.compile(r"[a-z]{2,}[,.;]?")
WIDTH = 96  # of docstrings: a line that ends although the next word fits was ended on purpose


@functools.cache
def places() -> dict[tuple[str, str], str]:
    """Family and kind -> the place of its page."""
    catalogue(None)  # registers them
    by_kind = {}
    for family in make.TITLES:
        for kind in make.kinds_of(family):
            by_kind[family, kind] = f"catalogue/{plural_of(family)}/{kind}.md"
    return by_kind


def linked(markdown: str) -> str:
    """A family, whose kinds link to their pages in place of the files that define them."""
    return ROW.sub(r"| [`\1`](\1.md)", markdown)


def kind_page(family: str, kind: str, publish: Callable[[str], None]) -> str:
    """The page of a kind in Markdown.

    Args:
      family: of the kind.
      kind: its name.
      publish: called with the path of every file of the repository that the page shows.
    """
    place = places()[family, kind]
    explained = explanations(f"{family}/{kind}")[0]
    return "\n\n".join(filter(None, _sections(explained, place, publish))) + "\n"


def _sections(
    explained: dict[str, Any], place: str, publish: Callable[[str], None]
) -> Iterator[str]:
    family = explained["family"]
    kind = explained["kind"]
    heading, where = make.TITLES[family]
    also = f" Also called {', '.join(explained['aliases'])}." if explained["aliases"] else ""
    yield f"# {kind}"
    yield f'<p class="family">{heading}. In a scenario: {_code(where)}.{escape(also)}</p>'
    yield f'<p class="summary">{typeset(explained["summary"])}</p>'
    yield f"```yaml\n{_written(explained)}\n```"
    yield _body_of(family, kind, explained["body"])
    yield from _links(explained, place)
    yield from _parameters(explained["parameters"])
    for title, text in explained["sections"].items():
        yield f"## {title}"
        yield f"<p>{_with_links(escape(' '.join(text.split()), quote=False))}</p>"
    yield from _figure(family, kind, place, publish)

    file = str(Path(*FAMILIES[family][kind].__module__.split(".")).with_suffix(".py"))
    publish(file)
    yield f"Defined in [`{file}`]({link(place_of(file), place)})."


def _written(explained: dict[str, Any]) -> str:
    """The kind as a scenario writes it, with its defaults."""
    values = {"kind": explained["kind"]}
    for parameter in explained["parameters"]:
        values[parameter["name"]] = parameter.get("default", "...")
    return as_mapping(values)


def _body_of(family: str, kind: str, body: str) -> str:
    """The text of a kind, with its formulas set."""
    factory = FAMILIES[family][kind]
    return html_of(factory) if has_latex(factory) else _body(body)


def _body(text: str) -> str:
    """The text of a docstring: paragraphs, and its labelled lines as a list."""
    pieces: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        pieces += _paragraph(paragraph)
    return "\n".join(pieces).replace("</dl>\n<dl>\n", "")


def _paragraph(paragraph: str) -> Iterator[str]:
    """A paragraph as HTML; `State: none.    Sends: one model.` becomes a list of two."""
    parts: list[str] = []
    for line in _lines(paragraph):
        parts += re.split(r"(?<=[.)])\s{4,}", line)
    for is_labelled, group in itertools.groupby(parts, lambda part: bool(LABEL.fullmatch(part))):
        if is_labelled:
            rows = [_labelled(part) for part in group]
            yield "<dl>\n" + "\n".join(rows) + "\n</dl>"
        else:
            yield "<p>" + "<br>\n".join(typeset(part) for part in group) + "</p>"


def _labelled(part: str) -> str:
    """A line such as `Cost: O(D).`."""
    label, _, text = part.partition(": ")
    return f"<dt>{label}</dt><dd>{typeset(text)}</dd>"


def _lines(paragraph: str) -> list[str]:
    """The lines that were ended on purpose: those that were only broken are joined."""
    lines: list[str] = []
    before = ""
    for line in paragraph.splitlines():
        if lines and _continues(line, before, lines[-1]):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
        before = line
    return lines


def _continues(line: str, before: str, joined: str) -> bool:
    """Whether a line was broken off the one before it.

    Args:
      line: of a docstring.
      before: the line before it.
      joined: that line with what it continues.
    """
    if LABEL.match(line) or line.startswith("- "):
        return False
    if joined.startswith("- ") and line.startswith("  "):
        return True
    if joined.count("`") % 2:  # code over two lines
        return True
    word = line.split(" ")[0]
    was_full = len(before) + 1 + len(word) > WIDTH
    return was_full or (before[-1:] not in ".;:," and bool(PROSE.fullmatch(word)))


def _links(explained: dict[str, Any], place: str) -> Iterator[str]:
    """The links of a method, each with what it does."""
    for part in explained.get("parts", ()):
        of_kind = part["family"], part["link"]["kind"]
        name = f"[`{of_kind[1]}`]({link(places()[of_kind], place)})"
        yield f"## {part['section'].capitalize()}: {name}"
        yield f"```yaml\n{as_mapping(part['link'])}\n```"
        yield _body_of(*of_kind, part["body"] or part["summary"])


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[str]:
    """The table of parameters."""
    if not parameters:
        return
    yield "## Parameters"
    rows = ["<tr><th>parameter</th><th>default</th><th>may be</th><th>meaning</th></tr>"]
    for parameter in parameters:
        default = "required"
        if "default" in parameter:
            default = f"<code>{escape(as_value(parameter['default']))}</code>"
        rows.append(
            f"<tr><td><code>{parameter['name']}</code></td><td>{default}</td>"
            f"<td>{escape(parameter['type'])}</td><td>{typeset(parameter['text'])}</td></tr>"
        )
    yield "<table>\n" + "\n".join(rows) + "\n</table>"


def _figure(family: str, kind: str, place: str, publish: Callable[[str], None]) -> Iterator[str]:
    """A figure of a kept comparison in which the kind takes part."""
    folders = kept.shown_in().get((family, kind), [])
    drawn = [folder for folder in folders if kept.figure(folder)]
    if not folders:
        return
    yield "## In a kept comparison"
    if drawn:
        path = kept.figure(drawn[0])
        publish(path)
        yield f"![{kind} among others]({link(place_of(path), place)}){{ .kept }}"
    for folder in dict.fromkeys([*drawn[:1], *folders]):
        report = f"reports/{folder}"
        publish(report)
        record = kept.records()[folder]
        headline = escape(kept.headline(record), quote=False)
        yield f"[{kept.titles()[folder]}]({link(place_of(report), place)}) {headline}"


def _code(text: str) -> str:
    """A text with its code in backticks as HTML."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def _with_links(text: str) -> str:
    """A text with links to arXiv."""
    return re.sub(
        r"arXiv:(\d{4}\.\d{4,5})", r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', text
    )
