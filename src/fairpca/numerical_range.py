"""The joint numerical range (Algorithm 1 of the paper) and curves of the dual function phi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca._checks import check_at_least, check_covariances, check_rank
from fairpca._linalg import FloatArray
from fairpca.covariances.eigenpairs import leading_pairs
from fairpca.criteria import pose, unit_for


@dataclass(frozen=True)
class JointNumericalRange:
    """Support points of ``{(Tr U.T S U, Tr U.T T U) : U orthonormal, r columns}``.

    Attributes
    ----------
    angles : ndarray of shape (l,)
        Directions, increasing in [0, 2 pi).
    points : ndarray of shape (l, 2)
        The point of the range furthest in each direction; in order, the corners of its hull.
    n_components : int
    """

    angles: FloatArray
    points: FloatArray
    n_components: int

    @property
    def outline(self) -> FloatArray:
        """The points closed into a polygon."""
        return np.vstack([self.points, self.points[:1]])

    @property
    def area(self) -> float:
        """Area of the inscribed polygon."""
        x, y = self.points.T
        return float(0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)))

    def support(self, directions: Any) -> FloatArray:
        """Return the largest ``direction . point`` over the polygon, for unit vectors (..., 2)."""
        return np.asarray((np.asarray(directions) @ self.points.T).max(axis=-1))


def joint_numerical_range(
    S: Any,
    T: Any,
    n_components: int,
    *,
    n_angles: int = 64,
    tol: float = 1e-3,
    max_angles: int = 2048,
) -> JointNumericalRange:
    """Sample the boundary of the joint numerical range of two symmetric matrices.

    Starts from equally spaced directions and adds directions where two neighbouring support
    points and their tangents leave more than `tol` of the diameter undetermined, so corners and
    strongly bent stretches are resolved and flat ones are not oversampled.

    Parameters
    ----------
    S, T : array-like of shape (n, n)
        Any two symmetric matrices. For Fair PCA pass the loss matrices
        ``(c_i / r) I - S_i``: the optimum is where the range meets the diagonal.
    n_components : int
        Rank r.
    n_angles : int, default=64
        Equally spaced directions to start with, at least 3.
    tol : float, default=1e-3
        Distance to the true boundary relative to the diameter; 0 switches refinement off.
    max_angles : int, default=2048
        Most directions in all.

    Returns
    -------
    JointNumericalRange

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import joint_numerical_range
    >>> w = joint_numerical_range(np.diag([1.0, -1.0]), [[0.0, 1.0], [1.0, 0.0]], 1)
    >>> bool(np.allclose(np.hypot(*w.points.T), 1.0))  # two real directions: the unit circle
    True
    """
    matrices = check_covariances([S, T])
    check_rank(n_components, matrices.shape[1])
    # Two directions have their support points on one line.
    check_at_least("n_angles", n_angles, 3)
    check_at_least("max_angles", max_angles, 3)
    if not isinstance(tol, int | float | np.number) or not tol >= 0:
        raise ValueError(f"tol={tol!r} must be at least 0.")
    unit = unit_for(matrices, "variance")
    matrices = matrices * unit

    def support(angle: float) -> FloatArray:
        direction = np.cos(angle) * matrices[0] + np.sin(angle) * matrices[1]
        basis = leading_pairs(direction, n_components).vectors
        return np.asarray(np.einsum("nr,knm,mr->k", basis, matrices, basis, optimize=True))

    angles = 2 * np.pi * np.arange(n_angles) / n_angles
    points = np.array([support(angle) for angle in angles])
    # A range of one point has diameter zero, and nothing to refine.
    diameter = float(np.ptp(points, axis=0).max())
    while tol > 0 and diameter > 0 and len(angles) < max_angles:
        fresh = _undetermined(angles, points, tol * diameter)[: max_angles - len(angles)]
        if not len(fresh):
            break
        angles = np.concatenate([angles, fresh])
        points = np.vstack([points, [support(angle) for angle in fresh]])
        order = np.argsort(angles)
        angles, points = angles[order], points[order]
    return JointNumericalRange(angles, points / unit, int(n_components))


def _undetermined(angles: FloatArray, points: FloatArray, limit: float) -> FloatArray:
    """Return midpoints of neighbouring angles whose tangents meet further than `limit` off."""
    after = np.roll(angles, -1)
    # The last direction's neighbour is the first one, a turn further on.
    after[-1] += 2 * np.pi
    chord = np.roll(points, -1, axis=0) - points
    length = np.hypot(*chord.T)
    # Triangle over the chord between the two tangents: its height bounds what is unknown.
    outward = np.arctan2(-chord[:, 0], chord[:, 1])
    left = np.abs((outward - angles + np.pi) % (2 * np.pi) - np.pi)
    right = np.abs((after - outward + np.pi) % (2 * np.pi) - np.pi)
    # Tangents that coincide leave nothing unknown: the floor makes their height zero, not 0 / 0.
    width = np.sin(np.clip(left + right, 1e-300, np.pi))
    with np.errstate(divide="ignore", invalid="ignore"):
        height = length * np.sin(left) * np.sin(right) / width
    # An edge seen from two directions is a true edge of the hull: nothing is hidden behind it.
    # Directions a microradian apart are not split further: at a corner that would never end.
    todo = (height > limit) & (after - angles > 1e-6) & (length > limit)
    return np.asarray(0.5 * (angles + after)[todo] % (2 * np.pi))


def phi(covariances: Any, n_components: int, t: Any, *, criterion: str = "loss") -> FloatArray:
    """Evaluate the dual function, a lower bound on every projection's worst-group value.

    Parameters
    ----------
    covariances : array-like of shape (k, n, n)
    n_components : int
    t : array-like
        Two groups: weights of the first group, any shape, the result has the same shape.
        Otherwise points of the simplex, shape (..., k), the result has shape (...).
    criterion : str, default="loss"

    Returns
    -------
    ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import phi
    >>> phi([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])], 1, [0.0, 0.5, 1.0]).tolist()
    [0.0, 0.5, 0.0]
    """
    matrices = check_covariances(covariances)
    check_rank(n_components, matrices.shape[1])
    unit = unit_for(matrices, criterion)
    problem = pose(matrices * unit, int(n_components), criterion)
    k = len(matrices)
    points = np.asarray(t, dtype=float)
    if k == 2:
        points = np.stack([points, 1 - points], axis=-1)
    on_simplex = points.shape[-1:] == (k,) and np.all(points >= 0)
    if not on_simplex or not np.allclose(points.sum(axis=-1), 1):
        raise ValueError(
            f"t={t!r} must hold weights: numbers in [0, 1] for two groups, otherwise {k} "
            "non-negative numbers that sum to one along the last axis."
        )
    flat = points.reshape(-1, k)
    values = [problem.phi(row, problem.oracle.leading(row, problem.n_components)) for row in flat]
    return np.array(values).reshape(points.shape[:-1]) / unit
