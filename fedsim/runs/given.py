"""What a Python program passes to `fedsim.run`, `compare` and the others beside a scenario."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Given(NamedTuple):
    """What takes the place of parts of a scenario; None: the scenario's own.

    Its names and its order are those of the arguments of `assemble.build`.

    Attributes:
      data: `fedsim.Arrays`, `(x, y)`, or a pandas DataFrame.
      model: a `Model`, a pair `(init, apply)`, or an object with both.
      params: start parameters.
      loss: `f(outputs, y) -> loss per row`.
    """

    data: Any = None
    model: Any = None
    params: Any = None
    loss: Callable[[Any, Any], Any] | None = None

    @property
    def names(self) -> list[str]:
        """What there is: a record lists it, since whoever repeats the run has to pass it again."""
        return sorted(name for name, value in self._asdict().items() if value is not None)

    def missing(self, record: Mapping[str, Any]) -> list[str]:
        """What a record lists, and is not here."""
        return [name for name in record["supplied"] if name not in self.names]

    def beside(self, scenario: Any) -> Any:
        """Return the scenario; a dictionary that names no data has the kind that is passed."""
        if self.data is None or not isinstance(scenario, dict):
            return scenario
        section = scenario.get("data") or {}
        if not isinstance(section, str):
            section = {"kind": "supplied", **section}
        return {**scenario, "data": section}


NOTHING_GIVEN = Given()
