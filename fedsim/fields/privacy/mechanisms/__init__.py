"""Mechanisms: the noise that privacy adds to the aggregates of all rounds."""

# isort: off
# The order of registration is the order of the kinds in the schema and in messages.
from fedsim.fields.privacy.mechanisms.gaussian import gaussian as gaussian
from fedsim.fields.privacy.mechanisms.binary_tree import tree as tree
from fedsim.fields.privacy.mechanisms.banded import banded as banded
from fedsim.fields.privacy.mechanisms.blt import blt as blt
from fedsim.fields.privacy.mechanisms.distributed_skellam import (
    distributed_skellam as distributed_skellam,
)
from fedsim.fields.privacy.mechanisms.distributed_discrete_gaussian import (
    distributed_discrete_gaussian as distributed_discrete_gaussian,
)
