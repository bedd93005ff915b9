"""Tantipongpipat et al. 2019: any concave welfare of the groups' variances.

For a worst case the relaxation is that of `fairpca.methods.sdr`. Nash social welfare is the
geometric mean of the variances kept. The sum of log <S_i, P> is concave; its linearisation at P is
a weighted PCA with weights 1 / <S_i, P>, and the Frank-Wolfe gap g of that PCA bounds the optimum:
no basis has a geometric mean above ``exp(g / k)`` times the current one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.stats

from fairpca._arrays import FloatArray, symmetric
from fairpca.criteria import CRITERIA
from fairpca.fitting import pose
from fairpca.methods._base import Found, MinMaxMethod, choice, minimise_on_simplex
from fairpca.methods.sdr import (
    Relaxation,
    column_generation,
    from_spectrum,
    rounded,
    spectrum,
)
from fairpca.solvers.problem import Problem

# Accuracy of a mixture, as a share of the gap that asked for it. The next weighted PCA changes the
# problem anyway, so more would be wasted; less would add columns instead of using those there are.
_MIXTURE_SHARE = 0.01
# Eigenvalues this close to 0 or 1 are taken to be there.
_WHOLE = 1e-9


class MultiCriteriaPCA(MinMaxMethod):
    """Multi-criteria dimensionality reduction: the best worst group, or the best Nash welfare.

    U. Tantipongpipat, S. Samadi, M. Singh, J. Morgenstern, S. Vempala. Multi-Criteria
    Dimensionality Reduction with Applications to Fairness. Advances in Neural Information
    Processing Systems 32, 2019.

    Maximises a welfare of the groups over the relaxed projectors ``0 <= P <= I``, ``Tr P = r``
    and moves the answer to an extreme point, whose rank exceeds r by at most
    ``floor(sqrt(2 k + 1/4) - 3/2)``: nothing for two groups, one dimension for three to five. From
    three groups on the relaxed optimum can lie strictly below that of every projection of rank r;
    `certificate_` then shows the gap.

    Parameters
    ----------
    n_components, center
        As in all of `fairpca.methods`; the paper has "group".
    criterion : {"loss", "error", "variance", "relative", "share", "nash"}, default="loss"
        What the worst group is judged by, or "nash" for the geometric mean of the variances
        kept. The paper has "loss", "variance" and "nash".
    tol, max_iter : float, int, default=1e-9, 1000
        Stop at this relative gap, or after as many linear programs of column generation or, for
        "nash", fully corrective Frank-Wolfe steps.

    Attributes
    ----------
    projector_, relaxed_losses_ : ndarray of shape (n_features_in_, n_features_in_), (k,)
        Extreme point of the relaxation, whose r leading eigenvectors are `components_`, and the
        groups' criterion there (minus the variance kept for "nash").
    rank_, rank_bound_ : int
        Eigenvalues of `projector_` above 1e-6, and the theorem's bound on their number.
    welfare_ : float
        For "nash" only: geometric mean of the variances that `components_` keeps. The certificate
        is that of minus this number.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_shared_subspace(random_state=0)
    >>> model = methods.MultiCriteriaPCA(2, criterion="nash")
    >>> model = model.fit(known.data, sensitive_features=known.sensitive_features)
    >>> model.rank_ <= model.rank_bound_, model.certificate_.gap < 0.05
    (True, True)
    """

    criterion: str = choice("loss", *CRITERIA, "nash")
    max_iter: int = 1000
    tol: float = 1e-9

    def _pose(self, covariances: FloatArray, r: int) -> Problem:
        if self.criterion != "nash":
            return super()._pose(covariances, r)
        if np.trace(covariances, axis1=1, axis2=2).min() <= 0:
            raise ValueError(
                "criterion='nash' multiplies the groups' variances, and a group has none; choose "
                "another criterion, or drop that group."
            )
        return pose(covariances, r, "variance")

    def _solve(self, problem: Problem) -> Found:
        limits: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        if self.criterion == "nash":
            relaxed, bound = nash(problem, **limits)
        else:
            relaxed = column_generation(problem, **limits)
        found = rounded(problem, relaxed, extreme_point(problem, relaxed.projector))
        found.own["rank_bound_"] = rank_bound(problem.n_components, problem.oracle.n_groups)
        if self.criterion == "nash":
            # The bound is one of the welfare, so the value beside it must be the welfare too.
            welfare = geometric_mean(problem.oracle.retained_variance(found.basis))
            found.own["certificate_"] = problem.certificate(bound, -welfare)
            found.own["welfare_"] = welfare
        return found


def rank_bound(n_components: int, n_groups: int) -> int:
    """Largest rank of an extreme optimal point of the relaxation (Tantipongpipat et al., 2019).

    >>> [rank_bound(5, k) for k in (2, 3, 5, 6, 9, 10, 14)]
    [5, 6, 6, 7, 7, 8, 8]
    """
    return n_components + int(np.floor(np.sqrt(2 * n_groups + 0.25) - 1.5))


def geometric_mean(kept: FloatArray) -> float:
    """Return the geometric mean of the groups' kept variances, zero if one of them is."""
    return float(scipy.stats.gmean(np.maximum(kept, 0.0)))


def nash(problem: Problem, *, tol: float, max_iter: int) -> tuple[Relaxation, float]:
    """Maximise Nash welfare by Frank-Wolfe steps from ``(r / n) I``.

    The authors mix each weighted PCA with the point so far. Corrective steps optimise the mixture
    of all PCAs met so far anew, so a few dozen decompositions replace thousands. `tol` is the
    relative accuracy of the geometric mean at which to stop, `max_iter` the number of PCAs.
    """
    k, r, n = problem.oracle.n_groups, problem.n_components, problem.oracle.n_features
    projectors, shares = [np.eye(n) * (r / n)], np.ones(1)
    kept = np.einsum("kii->k", problem.oracle.matrices)[:, None] * (r / n)
    reason, steps = "max_iter reached", 0

    def evaluate(point: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return minus the sum of logarithms of a mixture, and its two derivatives."""
        mixed = kept @ point
        ratios = kept / mixed[:, None]
        return -float(np.log(mixed).sum()), -ratios.sum(axis=0), ratios.T @ ratios

    while steps < max_iter:
        steps += 1
        current = kept @ shares
        weights = 1 / current
        basis = problem.oracle.leading(weights, r).vectors[:, :r]
        found = problem.oracle.retained_variance(basis)
        gap = float(weights @ found) - k
        if gap <= k * tol:
            reason = "gap closed"
            break
        projectors, kept = [*projectors, basis @ basis.T], np.column_stack([kept, found])
        # A mixture in which a group keeps nothing is worth minus infinity, and is not taken.
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = minimise_on_simplex(evaluate, np.append(shares, 0.0), _MIXTURE_SHARE * gap)
        used = shares > 0
        projectors = [P for P, use in zip(projectors, used, strict=True) if use]
        kept, shares = kept[:, used], shares[used]
    # In the library's sense every criterion is made small: the bound is that of minus the mean.
    bound = -geometric_mean(current) * float(np.exp(gap / k))
    mixed = symmetric(np.tensordot(shares, projectors, axes=1))
    return Relaxation(mixed, weights / weights.sum(), steps, reason), bound


def extreme_point(problem: Problem, projector: FloatArray) -> FloatArray:
    """Move a relaxed projector to an extreme point of the relaxation; no group loses anything.

    With f fractional eigenvalues and k groups at the end, f (f + 1) / 2 is at most k (Pataki
    1998): as long as there are more, some direction inside their eigenspace changes no trace and
    nobody's loss but the first group's. P moves along it, to that group's advantage, until an
    eigenvalue reaches 0 or 1.
    """
    pairs = spectrum(projector)
    vectors, occupation = pairs.vectors.copy(), pairs.values.copy()
    # Each round settles an eigenvalue.
    for _ in range(len(occupation)):
        free = np.flatnonzero((occupation > _WHOLE) & (occupation < 1 - _WHOLE))
        block = vectors[:, free]
        inner = symmetric(block.T @ (problem.oracle.matrices @ block))
        direction = _neutral(inner[1:])
        if direction is None:
            break
        if np.sum(inner[0] * direction) < 0:
            direction = -direction
        low, high = occupation[free] ** -0.5, (1 - occupation[free]) ** -0.5
        down = np.linalg.eigvalsh(direction * low[:, None] * low)[0]
        up = np.linalg.eigvalsh(direction * high[:, None] * high)[-1]
        # As far as 0 <= P <= I allows.
        length = min(-1 / down if down < 0 else np.inf, 1 / up if up > 0 else np.inf)
        values, rotation = np.linalg.eigh(np.diag(occupation[free]) + length * direction)
        occupation[free], vectors[:, free] = np.clip(values, 0.0, 1.0), block @ rotation
    return from_spectrum(vectors, occupation)


def _neutral(matrices: FloatArray) -> FloatArray | None:
    """Return a symmetric direction of trace zero orthogonal to all `matrices`, if there is one."""
    f = matrices.shape[-1]
    rows, columns = np.triu_indices(f)
    root = np.where(rows == columns, 1.0, np.sqrt(2.0))
    conditions = np.vstack([matrices[:, rows, columns] * root, (rows == columns).astype(float)])
    norms = np.linalg.norm(conditions, axis=1, keepdims=True)
    _, values, vt = np.linalg.svd(conditions / np.where(norms > 0, norms, 1.0))
    if np.count_nonzero(values > _WHOLE) == len(rows):
        return None
    direction = np.zeros((f, f))
    direction[rows, columns] = direction[columns, rows] = vt[-1] / root
    return direction
