"""`ema`."""

from typing import Annotated

from annotated_types import Ge, Lt

from fedsim.scenario.added import AddedKeys


class AverageKeys:
    """The key at the top of a scenario."""

    ema: Annotated[float, Ge(0), Lt(1)] | None = None
    """Decay d of an average of the server's models, d · average + (1 − d) · model after every
    round, scored beside the model: `ema/test_accuracy`. By default none."""


KEYS = [AddedKeys("", after="server", keys=AverageKeys)]
