"""The cells of a comparison: what each is called, and where a refusal of some of them belongs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.errors import Problem, dotted, shortened
from fedsim.scenario import Scenario
from fedsim.scenario.diagnostics import problem_at
from fedsim.scenario.reader import Document
from fedsim.study.methods import value_of

Axes = Sequence[str] | Mapping[str, Sequence[Any]]  # `PATH=V1,V2` texts, or path -> values
Part = tuple[
    str, str, str
]  # of a cell's name: `methods`, `vary` or `tune`; label or path; value as text
OPTIONS = {"methods": "--methods", "vary": "--vary", "tune": "--tune"}


class Cell(NamedTuple):
    """One configuration of the grid."""

    method: str  # label of the method
    variant: (
        str  # joined label of what varies, `data.partition.alpha=0.1`; empty where nothing does
    )
    varied: dict[str, Any]  # path -> value as written
    tuned: dict[str, Any]  # path -> value of what is tuned
    scenario: Scenario  # as read, with all of it
    edits: tuple[str, ...]  # what was changed in the base scenario, as `--set` takes it
    written: (
        Any  # the method, in the form that it was given in, with one value of what is tuned of it
    )

    @property
    def who(self) -> dict[str, Any]:
        """First columns of its rows."""
        variant = {"variant": self.variant, **self.varied} if self.varied else {}
        tuned = {"tuned": joined(self.tuned), **self.tuned} if self.tuned else {}
        return {"method": self.method, **variant, **tuned}

    @property
    def corner(self) -> "Corner":
        """Its place in the grid."""
        return Corner(self.method, self.written, _as_text(self.varied), _as_text(self.tuned))


class Corner(NamedTuple):
    """The place of a cell in the grid."""

    method: str  # label of the method
    written: Any  # the method, with one value of what is tuned of it
    varied: dict[str, str]  # path -> value as text for `--set`
    tuned: dict[str, str]  # likewise

    def cell(self, scenario: Scenario, edits: tuple[str, ...]) -> Cell:
        """The cell that stands there, of the scenario that was read with these edits."""
        return Cell(
            method=self.method,
            variant=joined(self.varied),
            varied={path: value_of(text) for path, text in self.varied.items()},
            tuned={path: value_of(text) for path, text in self.tuned.items()},
            scenario=scenario,
            edits=edits,
            written=self.written,
        )

    @property
    def parts(self) -> list[Part]:
        """The parts of its name: the method first, then what varies, then what is tuned."""
        varied = [("vary", path, str(text)) for path, text in self.varied.items()]
        tuned = [("tune", path, str(text)) for path, text in self.tuned.items()]
        return [("methods", self.method, ""), *varied, *tuned]


class Refused(NamedTuple):
    """A cell that cannot be, and why."""

    corner: Corner
    problem: Problem


class Places(NamedTuple):
    """Where the parts of a cell's name stand."""

    document: Document
    options: dict[str, str]  # key of `compare` -> the option that took its place
    labels: list[str]  # of the methods, in order
    axes: dict[str, dict[str, Sequence[Any]]]  # `vary` and `tune`: path -> values

    def problem(self, part: Part, text: str) -> Problem:
        """A problem at the place of a part of a cell's name."""
        key, name, value = part
        if key in self.options:
            return Problem(self.options[key], text)
        if key == "methods":
            return problem_at(self.document, ("compare", "methods", self.labels.index(name)), text)
        values = [str(known) for known in self.axes[key][name]]
        path = (
            ("compare", key, name, values.index(value))
            if value in values
            else ("compare", key, name)
        )
        return problem_at(self.document, path, text)._replace(
            where=f"compare.{key}.{name}{dotted(path[3:])}"
        )


def _as_text(values: Mapping[str, Any]) -> dict[str, str]:
    words = {True: "true", False: "false", None: "null"}
    return {
        path: words[value] if value is None or isinstance(value, bool) else str(value)
        for path, value in values.items()
    }


def joined(values: Mapping[str, Any]) -> str:
    """Paths and values as one label."""
    return ", ".join(f"{path}={value}" for path, value in values.items())


def bare(problem: Problem, edits: Sequence[str]) -> Problem:
    """A problem of a cell without the `--set` that made the cell of the base scenario: the cell's name says it."""
    for edit in edits:
        problem = problem._replace(
            what=problem.what.removesuffix(f" (--set {shortened(edit, 60)})")
        )
    return problem


def placed(
    refused: Sequence[Refused],
    everywhere: Sequence[Corner],
    places: Places,
    known: Sequence[Problem] = (),
) -> list[Problem]:
    """One line for each refusal, however many cells have it, at the part of their names that all of them share.

    Args:
      refused: cells with what is said against them.
      everywhere: all cells of the grid.
      places: where the parts of their names stand.
      known: what is said of the base scenario, which needs no saying again.
    """
    said = {(problem.where, problem.what) for problem in known}
    groups: dict[tuple[str, str], list[Refused]] = {}
    for one in refused:
        key = (one.problem.where, one.problem.what)
        if key not in said:
            groups.setdefault(key, []).append(one)
    return [_line(group, everywhere, places) for group in groups.values()]


def _line(group: list[Refused], everywhere: Sequence[Corner], places: Places) -> Problem:
    """The line of cells that are refused alike."""
    problem, first = group[0].problem, group[0].corner
    cells = list(dict.fromkeys(tuple(one.corner.parts) for one in group))
    if len(cells) == len(everywhere) > 1:
        axes = [
            part for part in first.parts if part[0] != "methods" and part[1] in places.axes[part[0]]
        ]
        axis = next((part for part in axes if _about(part[1], problem.where)), None)
        return (
            problem
            if axis is None
            else places.problem((*axis[:2], ""), f"{problem.where}: {problem.what}")
        )
    for parts in _shared(cells, places):
        if sum(set(parts) <= set(corner.parts) for corner in everywhere) == len(cells):
            return places.problem(parts[0], _text(parts, problem, ""))
    more = f" (and {len(cells) - 1} more cells alike)" if len(cells) > 1 else ""
    return places.problem(first.parts[0], _text(first.parts, problem, more))


def _about(axis: str, where: str) -> bool:
    """Whether a place is the path of an axis, or a part of it."""
    return bool(where) and (axis == where or axis.startswith((f"{where}.", f"{where}[")))


def _shared(cells: list[tuple[Part, ...]], places: Places) -> Iterator[list[Part]]:
    """The parts that all of some cells have, one by one and in pairs; what one method alone is tuned by, beside it."""
    shared = [part for part in cells[0] if all(part in cell for cell in cells)]
    yield from (
        [part] for part in shared if part[0] == "methods" or part[1] in places.axes[part[0]]
    )
    yield from ([one, other] for i, one in enumerate(shared) for other in shared[i + 1 :])


def _text(parts: Sequence[Part], problem: Problem, more: str) -> str:
    """`krum(f=8) with cohort.size=5: server[0].f: what is wrong`; of a value at its own path, the path once."""
    names = [f"{name}={value}" if key != "methods" else name for key, name, value in parts]
    head, *others = names
    said = f"{head} with {', '.join(others)}" if others else head
    where = (
        ""
        if any(name == problem.where for _, name, _ in parts)
        else f"{problem.where}: " * bool(problem.where)
    )
    return f"{said}: {where}{problem.what}{more}"
