"""A scenario that has been read and checked."""

import hashlib
import json
from typing import Any, NamedTuple

from fedsim.errors import ScenarioError, ScenarioTooLargeError
from fedsim.scenario.added import idle_sections, leave_out_added
from fedsim.scenario.diagnostics import problem_at
from fedsim.scenario.named_files import without_hashed_paths
from fedsim.scenario.reader import Document, KeyPath
from fedsim.scenario.sections import Compare, Search

# Section, key and value: what a resolved scenario leaves out, since it says nothing.
UNWRITTEN = (
    ("compare", "budget", None),
    ("compare", "question", {}),
    ("compare", "ranges", False),
    ("compare", "search", Search().model_dump()),
    ("compare", "suite", None),
    ("client", "statistics", "averaged"),
    ("fleet", "without", []),
    ("checkpoint", "keep", []),
    ("checkpoint", "updates", False),
    ("model", "freeze", None),
    ("model", "train", None),
    ("model", "weights", None),
    ("data", "clients", None),  # the runs of a comparison may differ in their number
)


class Scenario(NamedTuple):
    """A scenario that has been read and checked; `fedsim.scenario.read` makes it.

    Attributes:
      spec: the typed sections, with every default filled in.
      document: values and positions as written.
    """

    spec: Any
    document: Document

    def resolved(self) -> dict[str, Any]:
        """Return plain values with every default filled in; reading them again gives the same."""
        plain = self.spec.model_dump(mode="json")
        plain.pop("extends")  # the base is merged in
        if plain["title"] is None:
            plain.pop("title")
        # Sections that change nothing are left out.
        if self.spec.compare == Compare():
            plain.pop("compare")
        if self.spec.schedule.kind == "sync":
            plain.pop("schedule")
        leave_out_added(plain)
        for section, key, nothing in UNWRITTEN:
            if section in plain and plain[section][key] == nothing:
                plain[section].pop(key)
        # A listed cohort is either in the scenario or in a file, which then has a hash.
        if self.spec.cohort.kind == "listed":
            cohort = plain["cohort"]
            plain["cohort"] = {key: cohort[key] for key in cohort if cohort[key] is not None}
        for section in idle_sections(self.spec):
            plain.pop(section, None)
        return _kind_first(plain)

    def hash(self) -> str:
        """Return the SHA-256 of the resolved values.

        It depends neither on the folders of data files nor on what the scenario is compared with,
        nor on its title.
        """
        plain = without_hashed_paths(self.resolved())
        plain.pop("compare", None)
        plain.pop("title", None)
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    def error(self, path: KeyPath, text: str) -> ScenarioError:
        """Return a problem as an exception, for the caller to raise.

        Args:
          path: keys and list indices from the top, such as `("server", 0, "kind")`.
          text: what is wrong there, and what to do.

        Returns:
          The exception, with line and column if the scenario is a file.
        """
        return ScenarioError([problem_at(self.document, path, text)], self.document.file)

    def too_large(self, path: KeyPath, text: str) -> ScenarioTooLargeError:
        """Return what does not fit into memory as an exception; arguments as of `error`."""
        return ScenarioTooLargeError([problem_at(self.document, path, text)], self.document.file)


def _kind_first(value: Any) -> Any:
    """Return plain values with `kind` as the first key of every mapping."""
    if isinstance(value, list):
        return [_kind_first(item) for item in value]
    if not isinstance(value, dict):
        return value
    keys = sorted(value, key=lambda key: key != "kind")  # the others keep their order
    return {key: _kind_first(value[key]) for key in keys}
