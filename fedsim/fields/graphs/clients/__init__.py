"""Methods of nodes: how each trains, and how it mixes what it hears."""

# isort: off
# The order of registration is the order of the kinds in the schema and in messages.
from fedsim.fields.graphs.clients.dfedavg import dfedavg as dfedavg
from fedsim.fields.graphs.clients.gradient_tracking import gradient_tracking as gradient_tracking
from fedsim.fields.graphs.clients.push_sum import push_sum as push_sum
from fedsim.fields.graphs.clients.exact_diffusion import exact_diffusion as exact_diffusion
from fedsim.fields.graphs.clients.choco import choco as choco
from fedsim.fields.graphs.clients.dfedavgm import dfedavgm as dfedavgm
from fedsim.fields.graphs.clients.dfedsam import dfedsam as dfedsam
