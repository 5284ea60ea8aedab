"""All problems of a scenario in one exception: every check is made whose inputs are known."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fedsim.assemble.links import located
from fedsim.errors import DataError, LinkError, Problem, ScenarioError, dotted
from fedsim.scenario.diagnostics import in_order, problem_at
from fedsim.scenario.mending import touches
from fedsim.scenario.reader import KeyPath
from fedsim.scenario.scenario import Scenario

Findings = Iterator[tuple[KeyPath, str]]  # paths, each with what is wrong there and what to do


class Unknown:
    """Stands for what a refused step would have made; steps that need it are left out."""

    def __bool__(self) -> bool:
        return False


UNKNOWN: Any = Unknown()


def all_known(*values: Any) -> bool:
    """Whether none of these values is UNKNOWN."""
    return not any(value is UNKNOWN for value in values)


class Problems:
    """What is wrong with a scenario, collected while it is built.

    Args:
      scenario: as read. Where its wrong sections were left out, so is every step that reads them.
    """

    def __init__(self, scenario: Scenario):
        self.scenario = scenario
        self.broken = scenario.document.broken  # paths that were left out for being wrong
        self.errors: list[ScenarioError | DataError] = []

    def attempt(
        self, make: Callable[..., Any], *arguments: Any, reads: Iterable[KeyPath] = ()
    ) -> Any:
        """Return `make(*arguments)`; UNKNOWN where an argument is, or where the step is refused.

        A refusal is recorded for `raise_all`.

        Args:
          reads: paths of the scenario that the step depends on.
        """
        if not all_known(*arguments) or not self.sound(*reads):
            return UNKNOWN
        try:
            return make(*arguments)
        except LinkError as error:
            self._record(located(self.scenario, error))
        except (ScenarioError, DataError) as error:
            self._record(error)
        return UNKNOWN

    def check(
        self, find: Callable[..., Findings], *arguments: Any, reads: Iterable[KeyPath] = ()
    ) -> None:
        """Record every problem that `find(*arguments)` yields, where all that it reads is known."""

        def find_all(*known_arguments: Any) -> list[tuple[KeyPath, str]]:
            return list(find(*known_arguments))

        findings = self.attempt(find_all, *arguments, reads=reads)
        if findings is UNKNOWN:
            return
        self.record(findings)

    def record(self, findings: Iterable[tuple[KeyPath, str]]) -> None:
        """Record problems: paths, each with what is wrong there and what to do."""
        for path, text in findings:
            self._record(self.scenario.error(path, text))

    def sound(self, *paths: KeyPath) -> bool:
        """Whether nothing at, below or above these paths was left out for being wrong."""
        return not any(touches(self.broken, path) for path in paths)

    def refused(self, *paths: str) -> bool:
        """Whether anything at or below one of these dotted paths was refused.

        Refusals for want of memory do not count.
        """
        refused_paths = [dotted(path) for path in self.broken]
        for error in self.errors:
            if type(error) is ScenarioError:
                refused_paths += [problem.where for problem in error.problems]
        return any(path.startswith(paths) for path in refused_paths)

    def raise_all(self) -> None:
        """Raise one exception with a line for every problem, in the order of the file, if any."""
        if not self.errors:
            return
        first = self.errors[0]
        if len(self.errors) == 1:
            raise first

        data_errors = [error for error in self.errors if isinstance(error, DataError)]
        if len(data_errors) == len(self.errors):
            lines = [line for error in data_errors for line in error.lines]
            raise DataError(*lines) from first

        classes = {type(error) for error in self.errors}
        error_class: Any = classes.pop() if len(classes) == 1 else ScenarioError
        document = self.scenario.document
        problems = [problem for error in self.errors for problem in self._problems_of(error)]
        raise error_class(in_order(document, problems), document.file) from first

    def add(self, error: ScenarioError | DataError) -> None:
        """Record what was refused elsewhere."""
        if str(error) not in map(str, self.errors):
            self.errors.append(error)

    def _record(self, error: ScenarioError | DataError) -> None:
        """Record a refusal, without what it says of paths that were refused before."""
        if isinstance(error, ScenarioError) and self.broken:
            before = tuple(map(dotted, self.broken))
            problems = [p for p in error.problems if not p.where.startswith(before)]
            if not problems:
                return
            error = type(error)(problems, error.file)
        self.add(error)

    def _problems_of(self, error: ScenarioError | DataError) -> list[Problem]:
        if isinstance(error, ScenarioError):
            return error.problems
        document = self.scenario.document
        return [problem_at(document, error.section, line) for line in error.lines]
