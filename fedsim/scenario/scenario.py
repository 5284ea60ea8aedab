"""A scenario that was read and understood."""

import hashlib
import json
from typing import Any, NamedTuple

from fedsim.errors import ScenarioError, TooLargeError
from fedsim.scenario.diagnostics import problem_at
from fedsim.scenario.named_files import without_hashed_paths
from fedsim.scenario.reader import Document, Path
from fedsim.scenario.sections import Compare


class Scenario(NamedTuple):
    """A scenario that was read and understood, as `fedsim.scenario.read` returns it; `fedsim.run` takes one.

    Attributes:
      spec: the typed sections, every default filled in.
      document: values and places as written.
    """

    spec: Any
    document: Document

    def resolved(self) -> dict[str, Any]:
        """Plain values, every default filled in; reading them again gives the same."""
        plain = self.spec.model_dump(mode="json")
        if self.spec.compare == Compare():
            plain.pop("compare")  # as if there were no such section
        if self.spec.schedule.kind == "sync":
            plain.pop("schedule")  # likewise
        if plain["data"]["clients"] is None:
            plain["data"].pop("clients")  # the runs of a comparison have different numbers of them
        if (
            self.spec.cohort.kind == "listed"
        ):  # its clients stand in the scenario or in a file, which then has a hash
            plain["cohort"] = {
                key: value for key, value in plain["cohort"].items() if value is not None
            }
        return _kind_first(plain)

    def hash(self) -> str:
        """SHA-256 of the resolved values, wherever the data file lies and whatever it is compared with."""
        plain = {
            name: value
            for name, value in without_hashed_paths(self.resolved()).items()
            if name != "compare"
        }
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    def too_large(self, path: Path, what: str) -> TooLargeError:
        """What does not fit into memory, at a path of this scenario, as an exception."""
        return TooLargeError([problem_at(self.document, path, what)], self.document.file)

    def error(self, path: Path, what: str) -> ScenarioError:
        """A problem at a path of this scenario, as an exception.

        Args:
          path: keys and list indices from the top, `("server", 0, "kind")`.
          what: what is wrong there, and what to do.

        Returns:
          The exception, with the line and the column where there is a file; raising it is left to the caller.
        """
        return ScenarioError([problem_at(self.document, path, what)], self.document.file)


def _kind_first(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key != "kind")  # stable: the others keep their order
        return {key: _kind_first(value[key]) for key in keys}
    return [_kind_first(item) for item in value] if isinstance(value, list) else value
