"""Differential privacy: ε of what clients release, and the noise that an ε asks for.

It knows the section `privacy` of a scenario and how a cohort draws, and nothing of how a round
runs. It needs dp-accounting, and jax-privacy for the noise `blt`: `pip install
'fedsim-jax[privacy]'`.
"""

from fedsim.fields.privacy.counting.accountant import by_dp_accounting as by_dp_accounting
from fedsim.fields.privacy.counting.accountant import epsilon_after as epsilon_after
from fedsim.fields.privacy.counting.accountant import least_noise as least_noise
from fedsim.fields.privacy.counting.accountant import (
    solve_noise_multiplier as solve_noise_multiplier,
)
from fedsim.fields.privacy.counting.auditing import audited_epsilon as audited_epsilon
from fedsim.fields.privacy.counting.distributed import Lattice as Lattice
from fedsim.fields.privacy.counting.distributed import cohort_size as cohort_size
from fedsim.fields.privacy.counting.distributed import lattice_of as lattice_of
from fedsim.fields.privacy.counting.gaussian import adaptive_noise_split as adaptive_noise_split
from fedsim.fields.privacy.counting.gaussian import local_gaussian_std as local_gaussian_std
from fedsim.fields.privacy.counting.gaussian import local_laplace_scale as local_laplace_scale
from fedsim.fields.privacy.counting.records import DISTRIBUTED as DISTRIBUTED
from fedsim.fields.privacy.counting.records import Mechanism as Mechanism
from fedsim.fields.privacy.counting.records import Settings as Settings
from fedsim.fields.privacy.counting.samples import sample_epsilon_after as sample_epsilon_after
from fedsim.fields.privacy.counting.strategies import MAX_BUFFERS as MAX_BUFFERS
from fedsim.fields.privacy.counting.strategies import Buffers as Buffers
from fedsim.fields.privacy.counting.strategies import banded_coefficients as banded_coefficients
from fedsim.fields.privacy.counting.strategies import optimised_buffers as optimised_buffers
from fedsim.fields.privacy.counting.strategies import pattern_of as pattern_of
