"""Two papers of 2026 whose worst group is that of `fairpca.FairPCA`, by their authors' names."""

from __future__ import annotations

from fairpca.methods._base import Found, MinMaxMethod, choice
from fairpca.solvers import solve_problem
from fairpca.solvers.problem import Problem

#: The authors' objectives, their default first, each with the criterion of `fairpca.FairPCA` that
#: has the same best basis. "norm-" divides every environment's covariance by its trace. A wrong
#: line here would solve another problem than the one asked for; tests/methods/test_worst_case.py
#: checks each by formula.
VARIANTS = {
    "norm-minPCA": "share",
    "minPCA": "variance",
    "maxRCS": "error",
    "norm-maxRCS": "share",
    "maxRegret": "loss",
    "norm-maxRegret": "relative",
}


class WorstCasePCA(MinMaxMethod):
    """Components whose worst environment is served as well as possible.

    A. Fries, M. Reichstein, D. Blei, J. Peters. Worst-case low-rank approximations.
    arXiv:2603.11304, 2026.

    The groups are what the authors call environments: sites, continents, studies. The authors run
    Adam from five random starts; this class solves the same problems with the solver of
    `fairpca.FairPCA`, which also bounds how much better any other components could be.

    Parameters
    ----------
    n_components, center
        As in all of `fairpca.methods`. The authors' release centres every environment: "group".
    variant : str, default="norm-minPCA"
        The authors' objective, by their name. Each is one criterion of `fairpca.FairPCA`:

        ================  ==========  ========================================================
        variant           criterion   the worst environment is that with the
        ================  ==========  ========================================================
        "minPCA"          "variance"  least variance kept
        "norm-minPCA"     "share"     least share of its variance kept (their default)
        "maxRCS"          "error"     largest reconstruction error
        "norm-maxRCS"     "share"     largest error as a share of its variance
        "maxRegret"       "loss"      largest loss against its own PCA
        "norm-maxRegret"  "relative"  largest such loss as a share of its variance
        ================  ==========  ========================================================

        The two of "share" are one problem: the shares kept and lost add up to one. So are the
        regrets of variance and of reconstruction in their release.
    tol, max_iter : float, int, default=1e-10, 200
        Stop at this relative gap, or after as many eigen-decompositions of full size.

    Attributes
    ----------
    criterion : str
        The criterion of the variant. `group_values_` and `certificate_` are in its terms: with
        "minPCA" minus the variance kept, with "norm-minPCA" one minus the share kept.

    Notes
    -----
    Their components found one after the other ("seq") are ``nested=True`` of `fairpca.FairPCA`
    with the criterion of the variant. Their ordered components, their mixture of worst and average
    case ("minpca_pen") and their matrix completion (maxMC) have no counterpart here, and PCA of
    the averaged covariances is `BalancedPCA`.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_shared_subspace(random_state=0)
    >>> model = methods.WorstCasePCA(3, variant="maxRegret")
    >>> model.fit(known.data, sensitive_features=known.sensitive_features).certificate_.optimal
    True
    >>> model.criterion
    'loss'
    """

    variant: str = choice(*VARIANTS)
    tol: float = 1e-10
    max_iter: int = 200

    @property
    def criterion(self) -> str:  # type: ignore[override]
        """The criterion that the variant is."""
        return VARIANTS[self.variant]

    def _solve(self, problem: Problem) -> Found:
        return Found.of(solve_problem(problem, tol=self.tol, max_iter=self.max_iter))


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
