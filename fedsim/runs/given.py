"""What a Python program passes to `fedsim.run`, `compare` and the others beside a scenario."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

REPLACED = "logistic"  # a kind that takes no parameters, in place of which a model is passed


class Given(NamedTuple):
    """What takes the place of parts of a scenario; None: the scenario's own.

    Its names and its order are those of the arguments of `assemble.build`.
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
        """Return the scenario; data and model that are passed need no kind in a dictionary."""
        if not isinstance(scenario, dict):
            return scenario
        sections = {}
        data = scenario.get("data") or {}
        if self.data is not None:
            sections["data"] = data if isinstance(data, str) else {"kind": "supplied", **data}
        model = scenario.get("model")
        if self.model is not None and isinstance(model, dict):
            sections["model"] = {"kind": REPLACED, **model}
        return {**scenario, **sections}


NOTHING_GIVEN = Given()
