"""PyTrees, and stacks of them.

A *stack* is a struct of arrays: one PyTree whose every leaf has a leading client axis `[K, ...]`.
It is what a list of client trees becomes (`stack`), what `jax.vmap` maps over, and what
`weighted_sum` collapses back to one tree.
"""

from fedsim.tree.angles import angles as angles
from fedsim.tree.angles import cosines as cosines
from fedsim.tree.arithmetic import Tree as Tree
from fedsim.tree.arithmetic import add as add
from fedsim.tree.arithmetic import along as along
from fedsim.tree.arithmetic import concatenate as concatenate
from fedsim.tree.arithmetic import count as count
from fedsim.tree.arithmetic import divide as divide
from fedsim.tree.arithmetic import finite_rows as finite_rows
from fedsim.tree.arithmetic import floats as floats
from fedsim.tree.arithmetic import fold as fold
from fedsim.tree.arithmetic import nbytes as nbytes
from fedsim.tree.arithmetic import payload_bytes as payload_bytes
from fedsim.tree.arithmetic import put as put
from fedsim.tree.arithmetic import row_shapes as row_shapes
from fedsim.tree.arithmetic import rows as rows
from fedsim.tree.arithmetic import scale as scale
from fedsim.tree.arithmetic import select as select
from fedsim.tree.arithmetic import split as split
from fedsim.tree.arithmetic import stack as stack
from fedsim.tree.arithmetic import subtract as subtract
from fedsim.tree.arithmetic import sum_weights as sum_weights
from fedsim.tree.arithmetic import take as take
from fedsim.tree.arithmetic import unstack as unstack
from fedsim.tree.arithmetic import weighted_mean as weighted_mean
from fedsim.tree.arithmetic import weighted_sum as weighted_sum
from fedsim.tree.arithmetic import zero_row as zero_row
from fedsim.tree.arithmetic import zeros_like as zeros_like
from fedsim.tree.columns import block_starts as block_starts
from fedsim.tree.columns import by_columns as by_columns
from fedsim.tree.columns import gram as gram
from fedsim.tree.columns import over_blocks as over_blocks
from fedsim.tree.columns import squared_distances as squared_distances
from fedsim.tree.columns import wide_leaves as wide_leaves
from fedsim.tree.exact import clipped as clipped
from fedsim.tree.exact import distances as distances
from fedsim.tree.exact import mix as mix
from fedsim.tree.exact import norm as norm
from fedsim.tree.exact import norms as norms
from fedsim.tree.exact import over as over
from fedsim.tree.exact import scaled_norm as scaled_norm
from fedsim.tree.leaves import fill_leaves as fill_leaves
from fedsim.tree.leaves import leaves_like as leaves_like
from fedsim.tree.leaves import select_leaves as select_leaves
from fedsim.tree.names import leaf_names as leaf_names
from fedsim.tree.names import listed as listed
from fedsim.tree.names import map_by_name as map_by_name
from fedsim.tree.names import mask_by_name as mask_by_name
from fedsim.tree.names import matches_any as matches_any
from fedsim.tree.names import require_leaves as require_leaves
from fedsim.tree.noise import direction as direction
from fedsim.tree.noise import noised as noised
from fedsim.tree.noise import normal as normal
