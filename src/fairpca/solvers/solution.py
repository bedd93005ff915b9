"""What every solver returns: a basis, and the proof of how good it is.

With v the worst loss of the basis and b a lower bound on the worst loss of every basis of its
rank, the relative gap is ``(v - b) / |v|``. A gap of zero proves that the basis is optimal, and
nothing else does. `Certificate.of` decides what rounding still allows to be claimed; read it
first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fairpca._arrays import FloatArray

#: A relative gap at or below this is called optimal; rounding alone reaches about 1e-12.
OPTIMAL_GAP = 1e-8
# Most units of rounding that a bound may have been lowered by and still count as equal: the worst
# of 400 random matrices of 3 to 120 columns took 5.
_MOST_SLACK = 16
# Rounding past this share of the matrices' magnitude is no detail: products with columns far from
# zero can lose so many digits that two equal numbers prove nothing.
_COARSE = 1e-9


@dataclass(frozen=True)
class Certificate:
    """A pair of numbers that encloses the best reachable worst-group value.

    No orthonormal basis of this rank has a worst-group value below `lower_bound`; the returned
    one attains `value`. Nothing about the number of groups or the data is assumed.

    Attributes
    ----------
    lower_bound : float
        Valid for every basis of the requested rank: a value of the dual function, or what a search
        proved.
    value : float
        The worst group's criterion at the returned basis.
    gap : float
        ``(value - lower_bound) / |value|``, with an absolute floor. A difference below
        `resolution` cannot be told from zero and counts as zero.
    resolution : float
        The rounding level of both numbers.
    about : str
        What both numbers are about, where that is not the rows themselves.
    nodes : int
        How many nodes a search took for the bound. Zero: the dual alone proves it.

    Examples
    --------
    >>> import fairpca
    >>> certificate = fairpca.solve([[[3, 0], [0, 1]], [[1, 0], [0, 2]]], 1).certificate
    >>> print(certificate)
    worst group 0.666667, no basis below 0.666667: proven optimal (gap 0.0e+00)
    >>> certificate.optimal, round(certificate.value, 3)
    (True, 0.667)
    """

    lower_bound: float
    value: float
    gap: float
    resolution: float = 0.0
    about: str = ""
    nodes: int = 0

    @classmethod
    def of(
        cls,
        lower_bound: float,
        value: float,
        *,
        scale: float,
        resolution: float,
        slack: float = 0.0,
    ) -> Certificate:
        """Build the certificate of a value and a bound.

        Parameters
        ----------
        lower_bound, value : float
        scale : float
            Magnitude of the matrices.
        resolution : float
            Rounding level of value and bound.
        slack : float
            What the bound was lowered by to be safe from rounding.

        Returns
        -------
        Certificate
            A bound that exceeds the value by rounding only is lowered to the value. Where
            rounding is coarse against `scale`, no gap smaller than rounding is claimed. A bound
            far above the value contradicts it: it becomes minus infinity, and the gap infinite.
        """
        # More than that is no rounding but a bound that could not be computed well.
        resolution = resolution + min(slack, _MOST_SLACK * resolution)
        difference = value - lower_bound
        if -resolution <= difference < 0:
            # Rounding only; a bound that is lowered stays a bound.
            lower_bound, difference = value, 0.0
        floor = max(abs(value), 1e-12 * scale, np.finfo(float).tiny)
        gap = 0.0 if difference <= resolution else difference / floor
        coarse = resolution > max(_COARSE * scale, float(np.finfo(float).tiny))
        if coarse and difference > -resolution:
            # Rounding hides what is to be proven, so nothing finer than it is claimed.
            gap = max(difference, resolution) / floor
        if difference < -(64 * resolution + _COARSE * scale):
            # A value below a bound on all values: one of them is wrong, and nothing is proven.
            lower_bound, gap = -np.inf, np.inf
        return cls(float(lower_bound), float(value), float(gap), float(resolution))

    @property
    def optimal(self) -> bool:
        """Whether the gap alone proves the basis optimal among those of its rank (to 1e-8)."""
        return self.gap <= OPTIMAL_GAP

    closed = optimal

    def __str__(self) -> str:
        """One line for people: the value, the bound and what they prove."""
        # A value that is zero to rounding is shown as zero: a loss is not negative.
        value, bound = (
            0.0 if abs(number) <= self.resolution else number
            for number in (self.value, self.lower_bound)
        )
        # Beside a group that is larger by many orders the gap is relative to rounding, not to it.
        apart = (value - bound) / abs(value) if value != 0 else self.gap
        if self.optimal and apart > OPTIMAL_GAP:
            verdict = f"equal within rounding ({self.resolution:.1e})"
        elif self.optimal:
            verdict = f"proven optimal (gap {self.gap:.1e})"
        elif np.isfinite(self.gap):
            verdict = f"at most {_percent(max(apart, self.gap))} could be gained"
        else:
            verdict = "nothing could be proven"
        of = f" ({self.about})" if self.about else ""
        by = f", by a search of {self.nodes} nodes" if self.nodes else ""
        return f"worst group {value:.6g}, no basis below {bound:.6g}: {verdict}{of}{by}"


def _percent(share: float) -> str:
    """Return a share as a percentage that is not rounded to nothing."""
    return f"{share:.2%}" if share >= 1e-4 else f"{100 * share:.1e}%"


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

    Examples
    --------
    >>> import fairpca
    >>> found = fairpca.solve([[[3, 0], [0, 1]], [[1, 0], [0, 2]]], 1)
    >>> found.components.shape, found.losses.round(3).tolist(), found.weights.round(3).tolist()
    ((1, 2), [0.667, 0.667], [0.333, 0.667])
    """

    components: FloatArray
    weights: FloatArray
    losses: FloatArray
    certificate: Certificate
    n_eigen: int
    stop_reason: str
    solver: str
    history: tuple[dict[str, float], ...] = field(default=(), repr=False)
