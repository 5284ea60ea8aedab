"""Types of values that sections have in common."""

from typing import Annotated, Any

from annotated_types import Ge, Le, Lt

from fedsim.limits import MAX_INTEGER

# The default of a section all of whose keys have defaults.
EMPTY: Any = {}

Count = Annotated[int, Ge(1), Le(MAX_INTEGER)]
Index = Annotated[int, Ge(0), Le(MAX_INTEGER)]
Seed = Annotated[int, Ge(0), Lt(2**32)]
Share = Annotated[float, Ge(0), Le(1)]
ShareBelowOne = Annotated[float, Ge(0), Lt(1)]
