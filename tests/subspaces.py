"""Subspaces compared by their projectors."""

import numpy as np


def subspace_distance(first, second):
    """Return the spectral norm of the difference of two projectors, from orthonormal columns."""
    left = second - first @ (first.T @ second)
    return float(np.linalg.norm(left, 2)) if left.size else 0.0
