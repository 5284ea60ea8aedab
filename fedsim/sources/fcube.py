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
    """FCUBE: points of the cube [−1, 1]³ in two classes, split by the plane x₁ = 0; feature skew; it brings client ids.

    Each of the 4 clients holds two of the eight octants that lie opposite each other with respect to (0, 0, 0), and points
    of them in turn: so features differ between clients, and labels are balanced. Class 0: x₁ > 0. Points are uniform in
    their octants, test points in the cube; the test set is the data set's own (`test` does not matter).

    Args:
      samples: training points of every client.
      test_samples: of all of them; 0: a share `test` of the training points is kept instead.
      seed: of the draws.

    References:
      Li et al. 2022, Federated Learning on Non-IID Data Silos, arXiv:2102.02079, section 4.2 (4,000 and 1,000 points).
    """
    require_memory(samples=(CLIENTS * samples + test_samples) * 2 * 32)
    rng = np.random.default_rng(seed)
    client = np.repeat(np.arange(CLIENTS), samples)
    label = np.tile(np.arange(samples) % 2, CLIENTS)
    octant = np.stack(
        [np.ones(len(client)), np.where(client > 1, -1, 1), np.where(client % 2, -1, 1)], axis=1
    )
    x = (
        (1 - rng.random((len(client), 3))) * octant * np.where(label, -1, 1)[:, None]
    )  # (0, 1]: never on the plane
    if not test_samples:
        return Arrays(x, label, client)
    x_test = rng.uniform(-1, 1, (test_samples, 3))
    return Arrays(x, label, client, x_test, (x_test[:, 0] <= 0).astype(np.int64))
