"""Cohorts that look at more than sample counts, one paper per file."""

from fedsim.fleet.cohorts.by_class import round_robin_by_class as round_robin_by_class
from fedsim.fleet.cohorts.clustered import clustered as clustered
from fedsim.fleet.cohorts.cyclic_poisson import cyclic_poisson as cyclic_poisson
from fedsim.fleet.cohorts.divfl import divfl as divfl
from fedsim.fleet.cohorts.fedcs import fedcs as fedcs
from fedsim.fleet.cohorts.importance import importance as importance
from fedsim.fleet.cohorts.least_participated import least_participated as least_participated
from fedsim.fleet.cohorts.oort import oort as oort
from fedsim.fleet.cohorts.separated import separated as separated
from fedsim.fleet.cohorts.tifl import tifl as tifl
