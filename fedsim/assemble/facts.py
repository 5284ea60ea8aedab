"""What is known of a scenario while it is checked."""

from typing import Any

from fedsim.assemble.problems import UNKNOWN, Problems
from fedsim.scenario.reader import KeyPath
from fedsim.scenario.scenario import Scenario


class NotKnownError(Exception):
    """What was asked for is not known yet, or was refused."""


class Facts(Problems):
    """What is known of a scenario, and its problems: every step of a check adds what it made.

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
      plan_inputs: what decides the rounds of every seed.
      model, trained, shapes, travelling, row: what is trained, how, and shapes of its variables, of
        those that travel, and of what a client remembers; `training_inputs` decides `trained`.
      shared: start variables by seed where a model or parameters were supplied. Otherwise empty:
        they are made once it is known that they fit into memory.
      activation_bytes: of the largest value in a pass of a batch through the model, by its rows.
      bytes_up, bytes_down: the most bytes that a client sends in a round, and receives; a node of a
        graph: per neighbour.

    Attributes:
      scenario: as read, with what the check solved for.
    """

    def __init__(self, scenario: Scenario, **given: Any):
        self._known = given
        super().__init__(scenario)

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

    def require(self, *names: str) -> None:
        """Raise `NotKnownError` where something of this is not known."""
        for name in names:
            getattr(self, name)

    def require_sound(self, *paths: KeyPath) -> None:
        """Raise `NotKnownError` where something there was left out for being wrong."""
        if not self.sound(*paths):
            raise NotKnownError(paths)
