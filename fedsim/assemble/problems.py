"""All problems of a scenario in one exception: every check is made whose inputs are known."""

from collections.abc import Callable, Iterable
from typing import Any

from fedsim.assemble.links import located
from fedsim.errors import DataError, LinkError, Problem, ScenarioError, dotted
from fedsim.scenario.diagnostics import in_order, problem_at
from fedsim.scenario.mending import touches
from fedsim.scenario.reader import Path
from fedsim.scenario.scenario import Scenario


class Unknown:
    """What a refused step would have made; whatever needs it is left out."""

    def __bool__(self) -> bool:
        return False


UNKNOWN: Any = Unknown()


class Problems:
    """What is wrong with a scenario, collected while it is built.

    Args:
      scenario: as read; of one whose wrong parts were left out, what depends on these is left out as well.
    """

    def __init__(self, scenario: Scenario):
        self.scenario = scenario
        self.broken = scenario.document.broken
        self.errors: list[ScenarioError | DataError] = []

    def attempt(self, make: Callable[..., Any], *arguments: Any, reads: Iterable[Path] = ()) -> Any:
        """`make(*arguments)`; UNKNOWN where an argument is, or where it is refused, which is kept for `raise_all`.

        Args:
          make: a step of the build.
          arguments: of it.
          reads: paths of the scenario that it depends on.
        """
        if any(argument is UNKNOWN for argument in arguments) or not self.sound(*reads):
            return UNKNOWN
        try:
            return make(*arguments)
        except LinkError as error:
            self._keep(located(self.scenario, error))
        except (ScenarioError, DataError) as error:
            self._keep(error)
        return UNKNOWN

    def check(
        self,
        find: Callable[..., Iterable[tuple[Path, str]]],
        *arguments: Any,
        reads: Iterable[Path] = (),
    ) -> None:
        """Keep every (path, what is wrong there) that `find(*arguments)` yields, where all that it reads is known."""
        for path, text in (
            self.attempt(lambda *known: list(find(*known)), *arguments, reads=reads) or ()
        ):
            self._keep(self.scenario.error(path, text))

    def sound(self, *paths: Path) -> bool:
        """Whether nothing at, below or above these paths was left out for being wrong."""
        return not any(touches(self.broken, path) for path in paths)

    def refused(self, *places: str) -> bool:
        """Whether anything at or below one of these dotted paths was refused, for another reason than memory."""
        errors = [error for error in self.errors if type(error) is ScenarioError]
        wheres = [problem.where for error in errors for problem in error.problems]
        return any(where.startswith(places) for where in [*wheres, *map(dotted, self.broken)])

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
        data = [error for error in self.errors if isinstance(error, DataError)]
        if len(data) == len(self.errors):
            raise DataError(*(line for error in data for line in error.lines)) from data[0]
        kinds = {type(error) for error in self.errors}
        kind: Any = kinds.pop() if len(kinds) == 1 else ScenarioError
        problems = [problem for error in self.errors for problem in self._lines(error)]
        document = self.scenario.document
        raise kind(in_order(document, problems), document.file) from self.errors[0]

    def add(self, error: ScenarioError | DataError) -> None:
        """Keep what was refused elsewhere."""
        if str(error) not in map(str, self.errors):
            self.errors.append(error)

    def _keep(self, error: ScenarioError | DataError) -> None:
        """Keep a refusal, but for what it says of parts that were refused before."""
        if isinstance(error, ScenarioError) and self.broken:
            before = tuple(map(dotted, self.broken))
            problems = [
                problem for problem in error.problems if not problem.where.startswith(before)
            ]
            if not problems:
                return
            error = type(error)(problems, error.file)
        self.add(error)

    def _lines(self, error: ScenarioError | DataError) -> list[Problem]:
        if isinstance(error, ScenarioError):
            return error.problems
        return [problem_at(self.scenario.document, error.section, line) for line in error.lines]
