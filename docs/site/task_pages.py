"""A page for every task of the suite: what it asks, its file, what it resolves to, its sizes."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import yaml
from kind_pages import places as places_of_kinds
from making import make
from places import ROOT, link, place_of

from fedsim.scenario import Scenario
from fedsim.scenario.explain import as_value
from fedsim.suite.tasks import SIZES, tasks_of

FOLDER = "scenarios/suite"
# Sections that say what a task is; the others are the protocol's.
SHOWN = ("data", "model", "cohort", "client", "fleet", "wire", "privacy", "evaluate")
# Keys whose kinds have pages, by the family of the kind.
FAMILIES = {
    ("data",): "dataset",
    ("data", "partition"): "partition",
    ("data", "skew"): "skew",
    ("model",): "model",
    ("cohort",): "cohort",
}


@functools.cache
def tasks(size: str | None = None) -> dict[str, Scenario]:
    """Name -> task, in a size."""
    return {task.spec.name: task for task in tasks_of([ROOT / FOLDER], size, [])}


def places() -> dict[str, str]:
    """Name of a task -> the place of its page."""
    return {name: f"suite/{name}.md" for name in tasks()}


def linked(markdown: str) -> str:
    """The page of the suite, whose tasks link to their pages in place of their files."""
    for name, place in places().items():
        file = link(place_of(f"{FOLDER}/{name}.yaml"), "suite.md")
        markdown = markdown.replace(f"[`{name}`]({file})", f"[`{name}`]({place})")
    return markdown


def task_page(name: str, publish: Callable[[str], None]) -> str:
    """The page of a task in Markdown.

    Args:
      name: of the task.
      publish: called with the path of every file of the repository that the page shows.
    """
    return "\n\n".join(_sections(name, publish)) + "\n"


def _sections(name: str, publish: Callable[[str], None]) -> Iterator[str]:
    place = places()[name]
    file = f"{FOLDER}/{name}.yaml"
    protocol = f"{FOLDER}/protocol.yaml"
    publish(file)
    publish(protocol)
    resolved = tasks()[name].resolved()

    yield f"# {name}"
    yield make.comment_of(ROOT / file)
    yield f"```text\nfedsim suite run {file} --size small --out reports/suite\n```"
    yield (
        f"It is [`{file}`]({link(place_of(file), place)}), version {resolved['compare']['suite']}, "
        f"on [the protocol]({link(place_of(protocol), place)}) of [the suite]"
        f"({link('suite.md', place)})."
    )
    yield "## What clients have and do"
    yield make.table(("section", "value"), list(_rows(resolved, place)))
    yield "## Sizes"
    yield make.table(("", *(f"`{size}`" for size in _sizes())), list(_size_rows(name)))


def _rows(resolved: dict[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """A row for each section; in `data`, one for each key."""
    for section in SHOWN:
        if not resolved.get(section):
            continue
        if section != "data":
            yield _row((section,), resolved[section], place)
            continue
        yield _row(("data",), {"kind": resolved["data"]["kind"]}, place)
        for key, value in resolved["data"].items():
            if key != "kind":
                yield _row(("data", key), value, place)


def _row(path: tuple[str, ...], value: Any, place: str) -> tuple[str, str]:
    """A key and its value, whose kinds link to their pages."""
    text = f"`{as_value(value)}`"
    family = FAMILIES.get(path)
    links = value if isinstance(value, list) else [value]
    if family is not None:
        for kind in dict.fromkeys(entry["kind"] for entry in links):
            text += f" [{kind}]({link(places_of_kinds()[family, kind], place)})"
    return f"`{'.'.join(path)}`", text


def _sizes() -> list[str]:
    return list(yaml.safe_load((ROOT / FOLDER / SIZES).read_text()))


def _size_rows(name: str) -> Iterator[tuple[str, ...]]:
    """What a task is in each size."""
    specs = [tasks(size)[name].spec for size in _sizes()]
    yield "rounds", *(str(spec.rounds) for spec in specs)
    yield "seeds", *(str(len(spec.seeds)) for spec in specs)
    yield "trials of every method", *(str(spec.compare.budget) for spec in specs)
    yield "methods", *(make.in_cell(list(map(_label, spec.compare.methods))) for spec in specs)


def _label(method: Any) -> str:
    """A method as a task writes it, or its label."""
    return method["label"] if isinstance(method, dict) else method
