"""What is known of a scenario while it is checked."""

from collections.abc import Callable, Iterable
from typing import Any

from fedsim.assemble.problems import UNKNOWN, Problems
from fedsim.scenario.reader import KeyPath
from fedsim.scenario.scenario import Scenario


class NotKnownError(Exception):
    """What was asked for is not known yet, or was refused."""


class Facts:
    """What is known of a scenario: every step of a check adds what it made, by name.

    To ask for what is not known raises `NotKnownError`. By name there are, in the order in which
    the steps add them:

      cohort, timetable, local: who trains when, and how much.
      client: the method, as its factory made it; `at_server`: as it is at a
        server of fields.
      links: of `wire` and `server`; `made_links`: those that were not refused; `further_links`:
        those that fields add elsewhere; `rule`: the one that aggregates, None without a server.
      expects_drawn: whether a mean is over the clients that are drawn, whoever of them is missing.
      federations: by seed; `partitioned`: the first; `federation`: the same, or where the partition
        was refused, the samples in equal parts.
      N, eligible, K: clients, those that can be drawn, and those of a nominal round.
      classes, per_token: number of classes, 0 of numbers; whether every token has a label.
      model, trained, shapes, travelling, row: what is trained, how, and shapes of its variables, of
        those that travel, and of what a client remembers.

    Attributes:
      problems: where refusals are recorded.
      scenario: as read, with what the check solved for.
    """

    def __init__(self, problems: Problems, **given: Any):
        self.problems = problems
        self.scenario: Scenario = problems.scenario
        self._known = given

    def learn(self, **known: Any) -> None:
        """Add what was made, or UNKNOWN."""
        self._known.update(known)

    def maybe(self, name: str) -> Any:
        """Return what is known by a name, or else UNKNOWN."""
        return self._known.get(name, UNKNOWN)

    def __getattr__(self, name: str) -> Any:
        value = self.maybe(name)
        if value is UNKNOWN:
            raise NotKnownError(name)
        return value

    @property
    def spec(self) -> Any:
        """The sections of the scenario."""
        return self.scenario.spec

    def refused(self, *paths: str) -> bool:
        """Whether anything at or below one of these dotted paths was refused."""
        return self.problems.refused(*paths)

    def require(self, *names: str) -> None:
        """Raise `NotKnownError` where something of this is not known."""
        for name in names:
            getattr(self, name)

    def require_sound(self, *paths: KeyPath) -> None:
        """Raise `NotKnownError` where something there was left out for being wrong."""
        if not self.problems.sound(*paths):
            raise NotKnownError(paths)

    def attempt(
        self, make: Callable[..., Any], *arguments: Any, reads: Iterable[KeyPath] = ()
    ) -> Any:
        """Return `make(*arguments)`, or UNKNOWN, as `Problems.attempt` does."""
        return self.problems.attempt(make, *arguments, reads=reads)
