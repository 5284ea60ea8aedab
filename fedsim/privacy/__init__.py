"""Differential privacy: ε of what clients release, and the noise that an ε asks for.

It knows the section `privacy` of a scenario and how a cohort draws, and nothing of how a round
runs. It needs dp-accounting, and jax-privacy for the noise `blt`: `pip install
'fedsim-jax[privacy]'`.
"""

from fedsim.privacy.accountant import epsilon_after as epsilon_after
from fedsim.privacy.accountant import least_noise as least_noise
from fedsim.privacy.accountant import solve_noise_multiplier as solve_noise_multiplier
from fedsim.privacy.auditing import audited_epsilon as audited_epsilon
from fedsim.privacy.distributed import Lattice as Lattice
from fedsim.privacy.distributed import cohort_size as cohort_size
from fedsim.privacy.distributed import lattice_of as lattice_of
from fedsim.privacy.gaussian import adaptive_noise_split as adaptive_noise_split
from fedsim.privacy.gaussian import local_gaussian_std as local_gaussian_std
from fedsim.privacy.gaussian import local_laplace_scale as local_laplace_scale
from fedsim.privacy.records import DISTRIBUTED as DISTRIBUTED
from fedsim.privacy.records import AdaptiveClip as AdaptiveClip
from fedsim.privacy.records import Mechanism as Mechanism
from fedsim.privacy.records import Sampling as Sampling
from fedsim.privacy.records import Settings as Settings
from fedsim.privacy.samples import sample_epsilon_after as sample_epsilon_after
from fedsim.privacy.strategies import MAX_BUFFERS as MAX_BUFFERS
from fedsim.privacy.strategies import Buffers as Buffers
from fedsim.privacy.strategies import banded_coefficients as banded_coefficients
from fedsim.privacy.strategies import optimised_buffers as optimised_buffers
from fedsim.privacy.strategies import pattern_of as pattern_of
