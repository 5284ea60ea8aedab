"""Data: sources and readers -> `Arrays`, partitions -> client index lists; together a `Federation`. NumPy only."""

from fedsim.data.archive import npz as npz
from fedsim.data.arrays import Arrays as Arrays
from fedsim.data.arrays import DataError as DataError
from fedsim.data.arrays import PartitionError as PartitionError
from fedsim.data.federation import Federation as Federation
from fedsim.data.federation import federate as federate
from fedsim.data.files import sha256_of as sha256_of
from fedsim.data.generators import gaussian_blobs as gaussian_blobs
from fedsim.data.generators import leaf_synthetic as leaf_synthetic
from fedsim.data.generators import linear_regression as linear_regression
from fedsim.data.generators import quadratics as quadratics
from fedsim.data.generators import synthetic as synthetic
from fedsim.data.partition import Assign as Assign
from fedsim.data.partition import Parts as Parts
from fedsim.data.partition import Pool as Pool
from fedsim.data.partition import iid as iid
from fedsim.data.partition import natural as natural
from fedsim.data.partition import quantity as quantity
from fedsim.data.skew import dirichlet as dirichlet
from fedsim.data.skew import dirichlet_client as dirichlet_client
from fedsim.data.skew import pathological as pathological
from fedsim.data.skew import shards as shards
from fedsim.data.sources import digits as digits
from fedsim.data.splits import Sets as Sets
from fedsim.data.splits import prepare as prepare
from fedsim.data.table import csv as csv
