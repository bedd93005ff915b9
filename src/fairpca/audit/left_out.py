"""What a group would get from a projection fitted without it."""

from __future__ import annotations

import numpy as np

from fairpca.arrays import FloatArray
from fairpca.audit.candidates import Candidate, Table, fair_solution, in_level
from fairpca.audit.findings import Finding, LeftOut
from fairpca.metrics import kept_variance
from fairpca.solve.eigen import leading_pairs

#: With more groups than this, what has to be solved once per group is done only on request.
FEW_GROUPS = 20

# Multiplications (about ten seconds on one core) above which it is done only on request.
_MOST_FLOPS = 3e10

# A dual weight below this is zero: the group does not bind.
_BINDS = 1e-12


def left_out_groups(
    table: Table, findings: list[Finding], fair: Candidate, wanted: bool | None
) -> tuple[LeftOut, ...]:
    """Fit PCA and FairPCA without each group in turn and measure what it loses.

    Parameters
    ----------
    table : Table
    findings : list of Finding
        Of the complete fits.
    fair : Candidate
        The fair projection at the number of components asked about, with its dual weights.
    wanted : bool or None
        None where that is cheap.
    """
    target, r = table.target, fair.n_components
    k, n = len(target.labels), target.n_features
    cost = 20.0 * n**3 * (k + np.count_nonzero(_binding(fair, k)) * 10)
    if wanted is False or (wanted is None and (cost > _MOST_FLOPS or k > FEW_GROUPS)):
        return ()
    losses = {f.reducer: f.loss for f in findings if f.n_components == r}
    overlapping = table.group_by == "marginal" and len(target.names) > 1
    found = []
    for i in range(k):
        cells = _cells_without(table, i)
        rest = table.moments.select(cells)
        if not cells or rest.weight.sum() <= 0:
            continue
        covariance = target.covariances[i]
        own = float(leading_pairs(covariance, r).values.sum())
        pca = leading_pairs(rest.pooled().covariances[0], r).vectors
        others = rest.grouped(table.group_by)
        if others.labels and (overlapping or _binding(fair, k)[i]):
            basis = fair_solution(others.covariances, r, search=False).components.T
        else:
            # The bound holds without a group of weight zero, and so does the value: the same
            # projection is optimal for the others.
            basis = fair.basis
        for reducer, columns in (("PCA", pca), ("FairPCA", basis)):
            kept = float(kept_variance(columns, covariance[None])[0])
            found.append(LeftOut(i, reducer, float(losses[reducer][i]), max(own - kept, 0.0)))
    return tuple(found)


def _binding(fair: Candidate, k: int) -> FloatArray:
    weights = np.ones(k) if fair.weights is None else fair.weights
    return np.asarray(weights > _BINDS)


def _cells_without(table: Table, i: int) -> list[int]:
    """Return the cells of the moments that hold no row of group i."""
    label = table.target.labels[i]
    labels = table.moments.labels
    if table.group_by == "intersection" or len(table.target.names) == 1:
        return [c for c, cell in enumerate(labels) if cell != label]
    names = table.target.names
    return [c for c, cell in enumerate(labels) if not in_level(cell, label, names)]
