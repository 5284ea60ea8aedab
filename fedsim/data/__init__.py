"""Data: sources and readers -> `Arrays`, partitions -> client index lists; together a `Federation`. NumPy only."""

from fedsim.data.federation import Arrays as Arrays
from fedsim.data.federation import DataError as DataError
from fedsim.data.federation import Federation as Federation
from fedsim.data.federation import federate as federate
from fedsim.data.federation import natural as natural
from fedsim.data.federation import prepare as prepare
from fedsim.data.partition import PartitionError as PartitionError
from fedsim.data.partition import dirichlet as dirichlet
from fedsim.data.partition import iid as iid
from fedsim.data.sources import digits as digits
