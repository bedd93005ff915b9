"""Wang et al. 2026: StablePCA, the min-max dual under its authors' name and conventions."""

from __future__ import annotations

from fairpca.methods._base import Found, MinMaxMethod
from fairpca.solvers import solve_problem
from fairpca.solvers.problem import Problem


class StablePCA(MinMaxMethod):
    """Components that keep variance in every source of data.

    Z. Wang, M. Liu, J. Lei, F. Bach, Z. Guo. StablePCA: Distributionally Robust Learning of Shared
    Representations from Multi-Source Data. arXiv:2505.00940, 2026.

    Maximises the least variance kept over groups, which the authors call sources: batches, labs,
    hospitals. Their "stable", "fair" and "squared" PCA are the criteria "variance", "loss" and
    "error". The authors run Mirror-Prox on the relaxed problem; this class solves the same dual
    with the solver of `fairpca.FairPCA`. For any mixture of the sources' covariances the loss
    (error, relative loss) of the components is at most that of the worst source.

    Parameters
    ----------
    n_components, criterion, center
        As in all of `fairpca.methods`. The authors' release does not centre: "none".
    tol, max_iter : float, int, default=1e-10, 200
        Stop at this relative gap, or after as many eigen-decompositions of full size.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_shared_subspace(random_state=0)
    >>> model = methods.StablePCA(3).fit(known.data, sensitive_features=known.sensitive_features)
    >>> model.certificate_.optimal
    True
    """

    criterion: str = "variance"
    tol: float = 1e-10
    max_iter: int = 200

    def _solve(self, problem: Problem) -> Found:
        return Found.of(solve_problem(problem, tol=self.tol, max_iter=self.max_iter))
