"""How fast a graph mixes: its spectral gap."""

from typing import Any

import numpy as np
from jaxtyping import Float

from fedsim.fields.graphs.topology.weights import MixingMatrix

# Nodes up to which all eigenvalues are computed.
DENSE = 1024


def matrix_of(mixing: MixingMatrix) -> Float[np.ndarray, "n n"]:
    """Return W as a dense matrix in float64."""
    matrix = np.diag(mixing.own)
    matrix[mixing.target, mixing.source] = mixing.weight
    return matrix


def spectral_gap(W: Float[np.ndarray, "n n"]) -> float:
    """Return 1 − the second largest modulus of an eigenvalue of a mixing matrix.

    Every mixing brings nodes at least this share closer to their mean, in the long run.

    Args:
      W: the matrix `[n, n]`, as `fedsim.mixing` returns it.

    Returns:
      A number between 0 (nodes never agree) and 1 (after one mixing they do).

    Raises:
      ValueError: for anything but a square matrix of finite numbers.

    >>> round(spectral_gap(np.full((4, 4), 0.25)), 12)
    1.0
    """
    matrix = np.asarray(W, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise ValueError(f"a mixing matrix is square and finite, found shape {matrix.shape}")
    if len(matrix) < 2:
        return 1.0
    if (matrix == matrix.T).all():
        eigenvalues = np.linalg.eigvalsh(matrix)
    else:
        eigenvalues = np.linalg.eigvals(matrix)
    return _gap(eigenvalues)


def gap_of(mixing: MixingMatrix) -> float | None:
    """Return the gap of a mixing; None: the eigenvalues of a large graph were not found."""
    if mixing.nodes <= DENSE:
        return spectral_gap(matrix_of(mixing))

    from scipy.sparse import csr_array  # takes a tenth of a second to import
    from scipy.sparse.linalg import ArpackNoConvergence, eigs

    node = np.arange(mixing.nodes)
    values = np.concatenate([mixing.weight, mixing.own])
    rows = np.concatenate([mixing.target, node])
    columns = np.concatenate([mixing.source, node])
    sparse = csr_array((values, (rows, columns)), shape=(mixing.nodes, mixing.nodes))
    start = np.random.default_rng(0).normal(size=mixing.nodes)
    try:
        largest: Any = eigs(sparse, k=2, which="LM", v0=start, return_eigenvectors=False)
    except ArpackNoConvergence:
        return None
    return _gap(largest)


def _gap(eigenvalues: np.ndarray) -> float:
    second = np.sort(np.abs(eigenvalues))[-2]
    return float(max(1.0 - second, 0.0))
