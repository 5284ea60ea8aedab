"""All problems of a scenario in one exception: every check is made whose inputs are known."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from fedsim.build.links import located
from fedsim.errors import DataError, LinkError, Problem, ScenarioError
from fedsim.scenario.diagnostics import problem_at
from fedsim.scenario.reader import Path
from fedsim.scenario.schema import Scenario


class Unknown:
    """What a refused step would have made; whatever needs it is left out."""

    def __bool__(self) -> bool:
        return False


UNKNOWN: Any = Unknown()


class Problems:
    """What is wrong with a scenario, collected while it is built.

    Args:
      scenario: as read.
    """

    def __init__(self, scenario: Scenario):
        self.scenario = scenario
        self.errors: list[ScenarioError | DataError] = []

    def attempt(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """`make(*arguments)`; UNKNOWN where an argument is, or where it is refused, which is kept for `raise_all`."""
        if any(argument is UNKNOWN for argument in arguments):
            return UNKNOWN
        try:
            return make(*arguments)
        except LinkError as error:
            self._keep(located(self.scenario, error))
        except (ScenarioError, DataError) as error:
            self._keep(error)
        return UNKNOWN

    def check(self, find: Callable[..., Iterable[tuple[Path, str]]], *arguments: Any) -> None:
        """Keep every (path, what is wrong there) that `find(*arguments)` yields, where all arguments are known."""
        for path, text in self.attempt(lambda *known: list(find(*known)), *arguments) or ():
            self._keep(self.scenario.error(path, text))

    def refused(self, *places: str) -> bool:
        """Whether anything at or below one of these dotted paths was refused, for another reason than memory."""
        errors = [error for error in self.errors if type(error) is ScenarioError]
        return any(problem.where.startswith(places) for error in errors for problem in error.problems)

    def raise_all(self) -> None:
        """One exception with a line for every problem, in the order of the file; nothing where there is none.

        Raises:
          ScenarioError: of the class that all problems share, which decides the exit code; else a plain one.
          DataError: for samples that cannot be learned from, where nothing else is wrong.
        """
        if not self.errors:
            return
        if len(self.errors) == 1:
            raise self.errors[0]
        kinds = {type(error) for error in self.errors}
        kind: Any = kinds.pop() if len(kinds) == 1 else ScenarioError
        problems = dict.fromkeys(problem for error in self.errors for problem in self._lines(error))
        raise kind(sorted(problems, key=self._order), self.scenario.document.file) from self.errors[0]

    def _keep(self, error: ScenarioError | DataError) -> None:
        if str(error) not in map(str, self.errors):
            self.errors.append(error)

    def _lines(self, error: ScenarioError | DataError) -> list[Problem]:
        if isinstance(error, ScenarioError):
            return error.problems
        return [problem_at(self.scenario.document, error.section, line) for line in error.lines]

    def _order(self, problem: Problem) -> tuple[int, int, list[int]]:
        """Line and column; in a mapping without lines, the positions of the keys on the way to the place."""
        value: Any = self.scenario.document.values
        positions: list[int] = []
        for part in re.findall(r"[^.[\]]+", problem.where.partition(" ")[0]):
            if isinstance(value, dict) and part in value:
                positions.append(list(value).index(part))
                value = value[part]
            elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
                positions.append(int(part))
                value = value[int(part)]
        return problem.line or 0, problem.column or 0, positions
