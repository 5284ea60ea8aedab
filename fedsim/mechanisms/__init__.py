"""Mechanisms: the noise that privacy adds to the aggregates of all rounds."""

# isort: off
# The order of registration is the order of the kinds in the schema and in messages.
from fedsim.mechanisms.gaussian import gaussian as gaussian
from fedsim.mechanisms.binary_tree import tree as tree
from fedsim.mechanisms.banded import banded as banded
from fedsim.mechanisms.blt import blt as blt
from fedsim.mechanisms.distributed_skellam import distributed_skellam as distributed_skellam
from fedsim.mechanisms.distributed_discrete_gaussian import (
    distributed_discrete_gaussian as distributed_discrete_gaussian,
)
