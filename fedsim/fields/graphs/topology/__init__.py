"""Topology: which nodes hear which, and how much each counts in what a node mixes.

A graph's mixing matrix W says x_i ← Σ_j W_ij x_j. Nothing here knows of models or of a run.
"""

# isort: off
# The order of registration is the order of the kinds in the schema and in messages.
from fedsim.fields.graphs.topology.fixed import ring as ring
from fedsim.fields.graphs.topology.fixed import path as path
from fedsim.fields.graphs.topology.fixed import grid as grid
from fedsim.fields.graphs.topology.fixed import torus as torus
from fedsim.fields.graphs.topology.fixed import star as star
from fedsim.fields.graphs.topology.fixed import complete as complete
from fedsim.fields.graphs.topology.fixed import hypercube as hypercube
from fedsim.fields.graphs.topology.fixed import exponential as exponential
from fedsim.fields.graphs.topology.listed import listed as listed
from fedsim.fields.graphs.topology.drawn import erdos_renyi as erdos_renyi
from fedsim.fields.graphs.topology.drawn import regular as regular
from fedsim.fields.graphs.topology.drawn import watts_strogatz as watts_strogatz
from fedsim.fields.graphs.topology.drawn import barabasi_albert as barabasi_albert
from fedsim.fields.graphs.topology.graphs import Draw as Draw
from fedsim.fields.graphs.topology.graphs import Topology as Topology
from fedsim.fields.graphs.topology.graphs import require_connected as require_connected
from fedsim.fields.graphs.topology.spectrum import gap_of as gap_of
from fedsim.fields.graphs.topology.spectrum import matrix_of as matrix_of
from fedsim.fields.graphs.topology.spectrum import spectral_gap as spectral_gap
from fedsim.fields.graphs.topology.tables import EdgeTable as EdgeTable
from fedsim.fields.graphs.topology.tables import Neighbourhoods as Neighbourhoods
from fedsim.fields.graphs.topology.tables import neighbourhoods_of as neighbourhoods_of
from fedsim.fields.graphs.topology.tables import shape_of as shape_of
from fedsim.fields.graphs.topology.tables import table_of as table_of
from fedsim.fields.graphs.topology.weights import MixingMatrix as MixingMatrix
from fedsim.fields.graphs.topology.weights import mixing_of as mixing_of
from fedsim.fields.graphs.topology.weights import Weights as Weights
from fedsim.fields.graphs.topology.weights import without as without
