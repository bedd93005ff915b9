"""What every solver returns: a basis, and the proof of how good it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairpca._linalg import FloatArray, rounding_level

#: A relative gap at or below this is called optimal; rounding alone reaches about 1e-12.
OPTIMAL_GAP = 1e-8


@dataclass(frozen=True)
class Certificate:
    """A pair of numbers that encloses the best reachable worst-group value.

    No orthonormal basis of this rank has a worst-group value below `lower_bound`; the returned
    one attains `value`. Nothing about the number of groups or the data is assumed.

    Attributes
    ----------
    lower_bound : float
        A value of the dual function, valid for every basis of the requested rank.
    value : float
        The worst group's criterion at the returned basis.
    gap : float
        ``(value - lower_bound) / |value|``, with an absolute floor. A difference below
        `resolution` cannot be told from zero and counts as zero.
    resolution : float
        The rounding level of both numbers.
    """

    lower_bound: float
    value: float
    gap: float
    resolution: float = 0.0

    @classmethod
    def of(cls, lower_bound: float, value: float, *, scale: float, n_features: int) -> Certificate:
        """Build the certificate of a value and a bound of matrices of magnitude `scale`."""
        resolution = rounding_level(scale, n_features)
        difference = value - lower_bound
        if -resolution <= difference < 0:
            # Rounding only; a bound that is lowered stays a bound.
            lower_bound, difference = value, 0.0
        floor = max(abs(value), 1e-12 * scale, np.finfo(float).tiny)
        gap = 0.0 if difference <= resolution else difference / floor
        return cls(float(lower_bound), float(value), float(gap), float(resolution))

    def times(self, factor: float) -> Certificate:
        """Return the same certificate of matrices multiplied by a positive factor."""
        return replace(
            self,
            lower_bound=self.lower_bound * factor,
            value=self.value * factor,
            resolution=self.resolution * factor,
        )

    @property
    def optimal(self) -> bool:
        """Whether the gap alone proves the basis optimal (to 1e-8)."""
        return self.gap <= OPTIMAL_GAP

    def __str__(self) -> str:
        """One line for people: the value, the bound and what they prove."""
        proven = f"proven optimal (gap {self.gap:.1e})"
        verdict = proven if self.optimal else f"at most {self.gap:.2%} could be gained"
        return f"worst group {self.value:.6g}, no basis below {self.lower_bound:.6g}: {verdict}"


@dataclass(frozen=True)
class Solution:
    """The result of a solver, the same for every solver.

    Attributes
    ----------
    components : ndarray of shape (r, n)
        Orthonormal rows.
    weights : ndarray of shape (k,)
        Dual weights, a point of the simplex; zero for groups that are not binding.
    losses : ndarray of shape (k,)
        Every group's criterion at `components`.
    certificate : Certificate
    n_eigen : int
        Eigen-decompositions of full size, those of the groups' own matrices included.
    stop_reason : str
        Why the solver stopped, in words.
    solver : str
        What ran.
    history : tuple of dict
        One entry per dual evaluation, in the solver's own units.
    """

    components: FloatArray
    weights: FloatArray
    losses: FloatArray
    certificate: Certificate
    n_eigen: int
    stop_reason: str
    solver: str
    history: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    def times(self, factor: float) -> Solution:
        """Return the solution of the same problem with every matrix times a positive factor."""
        if factor == 1:
            return self
        return replace(
            self, losses=self.losses * factor, certificate=self.certificate.times(factor)
        )
