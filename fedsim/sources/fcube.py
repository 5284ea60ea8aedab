"""FCUBE: feature skew that can be drawn on paper."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Lt

from fedsim.compose import dataset
from fedsim.limits import require_memory
from fedsim.sources.arrays import Arrays

CLIENTS = 4


@dataset
def fcube(
    samples: Annotated[int, Ge(2)] = 1000,
    test_samples: Annotated[int, Ge(0)] = 1000,
    seed: Annotated[int, Ge(0), Lt(2**32)] = 0,
) -> Arrays:
    """FCUBE: points of the cube [−1, 1]³ in two classes, split by the plane x₁ = 0; has client ids.

    Feature skew: each of the 4 clients holds two of the eight octants, opposite each other with
    respect to (0, 0, 0), with points alternating between them. So features differ between clients,
    and labels are balanced. Class 0: x₁ > 0. Points are uniform in their octants, test points in
    the cube; the data set has a test set (`test` is not used).

    Args:
      samples: training points of every client.
      test_samples: test points; 0: the share `test` of the training points is held out instead.
      seed: the seed of the draws.

    References:
      Li et al. 2022, Federated Learning on Non-IID Data Silos, arXiv:2102.02079, section 4.2
      (4,000 and 1,000 points).
    """
    require_memory(samples=(CLIENTS * samples + test_samples) * 2 * 32)
    rng = np.random.default_rng(seed)
    client = np.repeat(np.arange(CLIENTS), samples)
    label = np.tile(np.arange(samples) % 2, CLIENTS)

    # The octant of each point by the signs of its coordinates, with x₁ > 0; class 1 is opposite.
    sign_2 = np.where(client > 1, -1, 1)
    sign_3 = np.where(client % 2, -1, 1)
    octant = np.stack([np.ones(len(client)), sign_2, sign_3], axis=1)
    side = np.where(label, -1, 1)[:, None]
    distances = 1 - rng.random((len(client), 3))  # in (0, 1], so that no point is on the plane
    x = distances * octant * side
    if not test_samples:
        return Arrays(x, label, client)

    x_test = rng.uniform(-1, 1, (test_samples, 3))
    y_test = (x_test[:, 0] <= 0).astype(np.int64)
    return Arrays(x, label, client, x_test, y_test)
