"""The cells of a comparison: their names, and where a problem with some of them is reported.

A cell has coordinates in the grid, which are its name: its method, a value of every path that
varies, and a value of every path that is tuned. A problem that several cells have is reported once,
at the coordinate that they share.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.errors import Problem, dotted, shortened
from fedsim.scenario import Scenario
from fedsim.scenario.diagnostics import problem_at
from fedsim.scenario.reader import Document
from fedsim.study.methods import text_of, value_of

Axes = Sequence[str] | Mapping[str, Sequence[Any]]
"""`PATH=V1,V2` texts, or path -> values"""

# key of `compare` -> its option on the command line
OPTIONS = {"methods": "--methods", "vary": "--vary", "tune": "--tune"}


class Coordinate(NamedTuple):
    """A coordinate of a cell.

    Attributes:
      key: the key of `compare` that it comes from, `methods`, `vary` or `tune`.
      value: the value of the path as text; empty for a method.
    """

    key: str
    name: str
    value: str

    @property
    def is_method(self) -> bool:
        """Whether it is the method."""
        return self.key == "methods"

    @property
    def text(self) -> str:
        """The coordinate in words: `krum(f=8)` or `cohort.size=5`."""
        return self.name if self.is_method else f"{self.name}={self.value}"


class Cell(NamedTuple):
    """One configuration of the grid.

    Attributes:
      variant: the variation as a label, `data.partition.alpha=0.1`; empty if nothing varies.
      edits: what was changed in the base scenario, as `PATH=VALUE` texts of `--set`.
      definition: the method in the form in which it was given, with one value of what is tuned.
      until: the round after which a search with rungs ends its runs; None: they have all rounds.
      bracket: its number in such a search, if that has several.
    """

    method: str
    variant: str
    varied: dict[str, Any]
    tuned: dict[str, Any]
    scenario: Scenario
    edits: tuple[str, ...]
    definition: Any
    until: int | None = None
    bracket: int | None = None

    @property
    def rounds(self) -> int:
        """The rounds of its runs."""
        return self.scenario.spec.rounds if self.until is None else self.until

    @property
    def key_columns(self) -> dict[str, Any]:
        """The first columns of its rows."""
        columns: dict[str, Any] = {"method": self.method}
        if self.varied:
            columns |= {"variant": self.variant, **self.varied}
        if self.tuned:
            columns |= {"tuned": settings_label(self.tuned), **self.tuned}
        return columns

    @property
    def position(self) -> "Position":
        """Its position in the grid."""
        varied = {path: text_of(value) for path, value in self.varied.items()}
        tuned = {path: text_of(value) for path, value in self.tuned.items()}
        return Position(self.method, self.definition, varied, tuned)


class Position(NamedTuple):
    """The position of a cell in the grid, which is known before its scenario is read."""

    method: str
    definition: Any
    varied: dict[str, str]
    tuned: dict[str, str]

    def cell(self, scenario: Scenario, edits: tuple[str, ...]) -> Cell:
        """Return the cell at this position, given its scenario and the edits it was read with."""
        return Cell(
            method=self.method,
            variant=settings_label(self.varied),
            varied={path: value_of(text) for path, text in self.varied.items()},
            tuned={path: value_of(text) for path, text in self.tuned.items()},
            scenario=scenario,
            edits=edits,
            definition=self.definition,
        )

    @property
    def coordinates(self) -> list[Coordinate]:
        """Its coordinates: the method, then what varies, then what is tuned."""
        varied = [Coordinate("vary", path, str(text)) for path, text in self.varied.items()]
        tuned = [Coordinate("tune", path, str(text)) for path, text in self.tuned.items()]
        return [Coordinate("methods", self.method, ""), *varied, *tuned]


class RefusedCell(NamedTuple):
    """A cell that cannot be run, and why."""

    position: Position
    problem: Problem


class Origins(NamedTuple):
    """Where the coordinates of cells are given: in the scenario, or on the command line.

    Attributes:
      options: key of `compare` -> the option that replaced it.
      labels: labels of the methods, in the order of `compare.methods`.
      axes: `vary` and `tune`, each as path -> values.
    """

    document: Document
    options: dict[str, str]
    labels: list[str]
    axes: dict[str, dict[str, Sequence[Any]]]

    def problem(self, coordinate: Coordinate, text: str) -> Problem:
        """Return a problem at the line, or the option, where a coordinate is given."""
        key, name, value = coordinate
        if key in self.options:
            return Problem(self.options[key], text)
        if coordinate.is_method:
            index = self.labels.index(name)
            return problem_at(self.document, ("compare", "methods", index), text)

        # At the value if the scenario lists it, else at its axis.
        values = list(map(str, self.axes[key][name]))
        path_of_value = (values.index(value),) if value in values else ()
        problem = problem_at(self.document, ("compare", key, name, *path_of_value), text)
        return problem._replace(where=f"compare.{key}.{name}{dotted(path_of_value)}")

    def is_shared(self, coordinate: Coordinate) -> bool:
        """Return whether a coordinate is a method, or of an axis that is common to all methods."""
        return coordinate.is_method or coordinate.name in self.axes[coordinate.key]


def settings_label(values: Mapping[str, Any]) -> str:
    """Return paths and values as one label."""
    return ", ".join(f"{path}={value}" for path, value in values.items())


def without_edits(problem: Problem, edits: Sequence[str]) -> Problem:
    """Return a problem of a cell without the `--set` that made the cell: its name says that."""
    for edit in edits:
        suffix = f" (--set {shortened(edit, 60)})"
        problem = problem._replace(what=problem.what.removesuffix(suffix))
    return problem


def problem_lines(
    refused: Sequence[RefusedCell],
    all_positions: Sequence[Position],
    origins: Origins,
    base_problems: Sequence[Problem] = (),
) -> list[Problem]:
    """Return one line per problem, however many cells have it, at the coordinate they share.

    Args:
      base_problems: problems of the base scenario, which are not repeated.
    """
    reported = {(problem.where, problem.what) for problem in base_problems}
    groups: dict[tuple[str, str], list[RefusedCell]] = {}
    for cell in refused:
        key = (cell.problem.where, cell.problem.what)
        if key not in reported:
            groups.setdefault(key, []).append(cell)
    return [_line(cells, all_positions, origins) for cells in groups.values()]


def _line(
    cells: Sequence[RefusedCell], all_positions: Sequence[Position], origins: Origins
) -> Problem:
    """The line of a problem that some cells have."""
    first, problem = cells[0]
    names = list(dict.fromkeys(tuple(cell.position.coordinates) for cell in cells))
    if len(names) == len(all_positions) > 1:
        return _line_of_all(problem, first, origins)

    # One or two coordinates that these cells have, and no others.
    for shared in _shared(names, origins):
        count = sum(set(shared) <= set(position.coordinates) for position in all_positions)
        if count == len(names):
            return origins.problem(shared[0], _text(shared, problem))
    text = _text(first.coordinates, problem)
    if len(names) > 1:
        text += f" (and {len(names) - 1} more combinations)"
    return origins.problem(first.coordinates[0], text)


def _line_of_all(problem: Problem, position: Position, origins: Origins) -> Problem:
    """The line of a problem that all cells have: at the axis it is about, or else where it was."""
    for coordinate in position.coordinates:
        if coordinate.is_method or not origins.is_shared(coordinate):
            continue
        if _is_about(coordinate.name, problem.where):
            axis = coordinate._replace(value="")
            return origins.problem(axis, f"{problem.where}: {problem.what}")
    return problem


def _is_about(axis: str, where: str) -> bool:
    """Whether an axis is the section key of a problem, or lies below it."""
    return bool(where) and (axis == where or axis.startswith((f"{where}.", f"{where}[")))


def _shared(
    names: Sequence[tuple[Coordinate, ...]], origins: Origins
) -> Iterator[list[Coordinate]]:
    """The coordinates that all names have, one at a time, and then in pairs.

    What one method alone is tuned by has no line of its own, so it comes only in pairs.
    """
    first, *others = names
    shared = [coordinate for coordinate in first if all(coordinate in name for name in others)]
    yield from ([coordinate] for coordinate in shared if origins.is_shared(coordinate))
    yield from map(list, itertools.combinations(shared, 2))


def _text(coordinates: Sequence[Coordinate], problem: Problem) -> str:
    """A problem with its coordinates: `krum(f=8) with cohort.size=5: server[0].f: ...`.

    If one of them is the path of the problem, that is not repeated.
    """
    first, *others = coordinates
    text = first.text
    if others:
        other_texts = [coordinate.text for coordinate in others]
        text += f" with {', '.join(other_texts)}"
    if problem.where and all(coordinate.name != problem.where for coordinate in coordinates):
        text += f": {problem.where}"
    return f"{text}: {problem.what}"
