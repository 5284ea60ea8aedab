"""The kept reports: their records, their figures, and which kinds each of them compares."""

import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any

import yaml
from places import ROOT

from fedsim.kinds import ALIASES, FAMILIES
from fedsim.scenario.fragments import fragment_of, links_of
from fedsim.scenario.shipped import about

# The last part of a key -> the families of the kinds that it may hold.
FAMILIES_OF = {
    "client": ("client",),
    "server": ("stage", "rule", "aggregate_stage", "optimizer"),
    "wire": ("attack", "codec", "stage"),
    "partition": ("partition",),
    "schedule": ("timetable",),
}
# Figures of a comparison by what is in their names, the most telling first.
FIGURES = ("curves", "scores", "bytes", "seconds", "attacks")

Kind = tuple[str, str]  # its family, and its name


@functools.cache
def records() -> dict[str, dict[str, Any]]:
    """Folder in reports -> the `run.json` of every kept run that has a page."""
    kept = {}
    for folder in folders():
        record = ROOT / "reports" / folder / "run.json"
        if record.is_file():
            kept[folder] = json.loads(record.read_text(encoding="utf-8"))
    return kept


def folders() -> list[str]:
    """The folders in reports that are kept and have a page."""
    pages = sorted(ROOT.glob("reports/*/report.html"))
    return [page.parent.name for page in pages if _is_kept(page.parent.name)]


def _is_kept(folder: str) -> bool:
    """Whether a folder is one that version control keeps, by the list of those."""
    return f"!reports/{folder}/" in (ROOT / ".gitignore").read_text(encoding="utf-8").split()


@functools.cache
def titles() -> dict[str, str]:
    """Folder in reports -> what the scenario that was run asks."""
    commands = {name: record["surroundings"]["command"] for name, record in records().items()}
    return {name: about(ROOT / command[2]) for name, command in commands.items()}


def headline(record: dict[str, Any]) -> str:
    """The first sentence about a comparison; empty for a run."""
    return (record.get("verdict") or [""])[0]


def figure(folder: str) -> str:
    """The path of the figure that shows a comparison; empty if none is kept."""
    for name in FIGURES:
        path = f"reports/{folder}/figures/{name}.png"
        if (ROOT / path).is_file():
            return path
    return ""


@functools.cache
def shown_in() -> dict[Kind, list[str]]:
    """Kind -> the folders of the comparisons that compare it, those of the fewest kinds first."""
    compared = {folder: set(_compared(record)) for folder, record in records().items()}
    folders: dict[Kind, list[str]] = {}
    for folder in sorted(compared, key=lambda name: (len(compared[name]), name)):
        for kind in compared[folder]:
            folders.setdefault(kind, []).append(folder)
    return folders


def _compared(record: dict[str, Any]) -> Iterator[Kind]:
    """The kinds that a comparison's methods and variations name, and its attackers' attack."""
    scenario = record["scenario"]
    compare = scenario.get("compare") or {}
    for method in compare.get("methods") or ():
        if isinstance(method, str):
            yield from _kinds_of_method(method)
        else:
            yield from _kinds_of_method(method["method"])
            for key, value in (method.get("set") or {}).items():
                yield from _kinds_at(key, [value])
    vary = compare.get("vary") or {}
    for key, values in vary.items():
        yield from _kinds_at(key, values)
    if "fleet.malicious" in vary and "wire" not in vary:
        yield from _kinds_at("wire", [scenario.get("wire")])


def _kinds_of_method(text: str) -> Iterator[Kind]:
    """The kinds of a method such as `krum(f=6)`: of a named method also its links."""
    name = text.partition("(")[0]
    name = ALIASES.get(name, name)
    if name not in FAMILIES["method"]:
        yield from _known(name, ("rule", "stage"))
        return
    yield "method", name
    for _, family, link in links_of(fragment_of(FAMILIES["method"][name])):
        if (family, link["kind"]) not in (("client", "sgd"), ("rule", "mean")):  # of every method
            yield family, link["kind"]


def _kinds_at(key: str, values: Iterable[Any]) -> Iterator[Kind]:
    """The kinds in the values of a key, which may be texts in YAML."""
    families = FAMILIES_OF.get(key.rpartition(".")[2], ())
    for value in values:
        read = yaml.safe_load(value) if isinstance(value, str) else value
        for link in read if isinstance(read, list) else [read]:
            name = link.get("kind", "") if isinstance(link, dict) else str(link)
            yield from _known(name, families)


def _known(name: str, families: Iterable[str]) -> Iterator[Kind]:
    """The kind of a name in the first of the families that has it."""
    for family in families:
        if name in FAMILIES[family]:
            yield family, name
            return
