"""Wang et al. 2026: StablePCA, the min-max dual under its authors' name and conventions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from fairpca.methods._base import MinMaxFound, MinMaxMethod
from fairpca.solvers import solve_problem
from fairpca.solvers.problem import Problem


@dataclass(eq=False, repr=False)
class StablePCA(MinMaxMethod):
    """Components that keep variance in every source of data (Wang et al., 2026).

    Maximises the least variance kept over groups, which the authors call sources: batches, labs,
    hospitals. Their "stable", "fair" and "squared" PCA are the criteria "variance", "loss" and
    "error". The authors run Mirror-Prox on the relaxed problem; this class solves the same dual
    with the solver of `fairpca.FairPCA`, which ends at the optimum in a few decompositions.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; None keeps all.
    criterion : {"variance", "loss", "error", "relative", "share"}, default="variance"
    center : {"group", "global", "none"}, default="group"
        Second moments are about each group's own mean, the overall mean, or zero. The authors'
        release does not centre: "none".
    tol : float, default=1e-10
        Relative gap between value and bound at which to stop.
    max_iter : int, default=200
        Most eigen-decompositions of full size.

    Attributes
    ----------
    components_, mean_, group_losses_, group_values_, group_weights_, certificate_, ...
        As in `fairpca.FairPCA`. The certificate bounds the distance to the optimum at any
        accuracy of the weights; the authors' needs them exact.
    center_ : str
        What the second moments are about.

    Notes
    -----
    For any mixture of the sources' covariances the loss (error, relative loss) of the components
    is at most that of the worst source: an unseen population that is such a mixture is served.

    References
    ----------
    Z. Wang, M. Liu, J. Lei, F. Bach, Z. Guo. StablePCA: Distributionally Robust Learning of Shared
    Representations from Multi-Source Data. arXiv:2505.00940, 2026.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import StablePCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)) * [3, 1, 1], rng.normal(size=(20, 3)) * [1, 3, 1]])
    >>> model = StablePCA(1).fit(X, sensitive_features=[0] * 80 + [1] * 20)
    >>> model.certificate_.optimal
    True
    """

    n_components: int | None = None
    _: KW_ONLY
    criterion: str = "variance"
    center: str = "group"
    tol: float = 1e-10
    max_iter: int = 200

    def _solve(self, problem: Problem) -> MinMaxFound:
        return MinMaxFound.of(solve_problem(problem, tol=self.tol, max_iter=self.max_iter))
