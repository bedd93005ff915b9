"""Every road to the answer against every other, and against tools written by others."""

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.decomposition import PCA

import fairpca
from fairpca import FairPCA, GroupMoments, Groups
from fairpca.covariances.implicit import GroupOperators
from fairpca.covariances.sources import MomentCovariances, OperatorCovariances, RowSpaceCovariances
from fairpca.criteria import CRITERIA
from fairpca.fitting import Settings, fit_source

pytestmark = pytest.mark.filterwarnings(
    "ignore:The gap between:sklearn.exceptions.ConvergenceWarning"
)


def people(seed, k=2, n=9, m=60):
    rng = np.random.default_rng([seed, k])
    X = rng.normal(size=(m, n)) * rng.uniform(0.3, 3, size=n) + rng.normal(size=n)
    labels = np.r_[np.arange(k), rng.integers(0, k, size=m - k)]
    X[labels == 0] *= rng.uniform(0.3, 3, size=n)
    weight = rng.uniform(0.5, 2, size=m) if seed % 2 else None
    return X, labels, weight, 1 + seed % (n - 2), tuple(CRITERIA)[seed % 5]


def roads(X, labels, weight, r, criterion):
    """Yield name and (values, lower bound) of every way to solve the same problem."""
    groups = Groups.from_labels(labels)
    moments = GroupMoments.from_array(X, groups, sample_weight=weight)
    halves = [slice(0, None, 2), slice(1, None, 2)]
    parts = [
        GroupMoments.from_array(
            X[h], labels[h], sample_weight=None if weight is None else weight[h]
        )
        for h in halves
    ]
    populations = {
        "moments": MomentCovariances(moments),
        "operators": OperatorCovariances(GroupOperators.from_rows(X, groups, weight)),
        "sparse operators": OperatorCovariances(
            GroupOperators.from_rows(scipy.sparse.csr_array(X), groups, weight)
        ),
        "linear operator": OperatorCovariances(
            GroupOperators.from_rows(aslinearoperator(X), groups, weight)
        ),
        "row space": RowSpaceCovariances(X, groups, weight, "intersection"),
    }
    solvers = ["auto", "dense", "krylov"] + (["paper"] if len(groups.labels) == 2 else [])
    for name, population in populations.items():
        fit = fit_source(population, r, Settings(criterion))
        yield name, fit.solution.losses, fit.solution.certificate
    for solver in solvers:
        solution = fairpca.solve(moments, r, criterion=criterion, solver=solver)
        yield f"solve {solver}", solution.losses, solution.certificate
        model = FairPCA(r, criterion=criterion, solver=solver)
        model.fit(X, sensitive_features=labels, sample_weight=weight)
        yield f"estimator {solver}", model.group_values_, model.certificate_
    for name, found in (("moments", moments), ("merged moments", parts[1].merge(parts[0]))):
        model = FairPCA(r, criterion=criterion).fit_moments(found)
        yield f"estimator of {name}", model.group_values_, model.certificate_


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", range(20))
def test_every_road_gives_one_answer(seed, k):
    case = people(seed, k)
    found = {name: (values.max(), c) for name, values, c in roads(*case)}
    best = min(value for value, _ in found.values())
    highest = max(c.lower_bound for _, c in found.values())
    size = abs(best) + max(c.resolution for _, c in found.values()) * 1e13
    # Bounds and values of different roads are statements about one problem: none contradicts.
    assert highest <= best + 1e-9 * size
    for name, (value, c) in found.items():
        assert value == pytest.approx(c.value, abs=1e-12 * size), name
        slack = 1e-6 if "paper" in name else 1e-9
        # Three groups may leave a gap; within it a road may stop at another local optimum.
        gap = max(c.gap, 0.0) * abs(value) if k == 3 else 0.0
        assert value <= best + slack * size + gap, name
        if k == 2:
            assert c.lower_bound >= best - slack * size, name


@pytest.mark.parametrize("seed", range(24))
def test_the_bound_is_the_semidefinite_program(seed):
    """An interior-point solver written by others, on the relaxation with variables n x n."""
    import cvxpy as cp

    rng = np.random.default_rng(seed)
    k, n = 2 + seed % 3, 2 + seed % 4
    r, criterion = 1 + seed % (n - 1) if n > 2 else 1, tuple(CRITERIA)[seed % 5]
    S = np.array([a @ a.T / n for a in rng.normal(size=(k, n, n))])
    solution = fairpca.solve(S, r, criterion=criterion)
    if criterion in ("relative", "share"):
        S = S / np.trace(S, axis1=1, axis2=2)[:, None, None]
    values = np.linalg.eigvalsh(S)[:, ::-1]
    full = {"loss": values[:, :r], "relative": values[:, :r], "variance": 0 * values}
    offsets = full.get(criterion, values).sum(axis=1)
    P, z = cp.Variable((n, n), symmetric=True), cp.Variable()
    constraints = [P >> 0, np.eye(n) - P >> 0, cp.trace(P) == r]
    constraints += [z >= c - cp.trace(s @ P) for c, s in zip(offsets, S, strict=True)]
    program = cp.Problem(cp.Minimize(z), constraints)
    program.solve(solver=cp.CLARABEL)
    # The exhaustive search may prove more than the relaxation, never less.
    assert solution.certificate.lower_bound >= program.value - 1e-6
    assert solution.certificate.value >= program.value - 1e-6
    if "search" not in solution.stop_reason:
        assert solution.certificate.lower_bound == pytest.approx(program.value, abs=1e-6)


@pytest.mark.parametrize("shape", [(50, 6), (7, 6), (6, 12), (30, 1)])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_one_group_is_pca_in_every_attribute(shape, dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=shape) * rng.uniform(0.5, 3, size=shape[1]) + 5).astype(dtype)
    r = min(3, min(shape) - 1) or 1
    pca = PCA(r, svd_solver="full").fit(X.astype(float))
    model = FairPCA(r).fit(X, sensitive_features=np.zeros(len(X)))
    atol = 1e-9 if dtype == "f8" else 1e-5
    for name in (
        "mean_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "noise_variance_",
        "n_components_",
        "n_samples_",
        "n_features_in_",
    ):
        got, want = getattr(model, name), getattr(pca, name)
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=atol, err_msg=name)
    np.testing.assert_allclose(np.abs(model.components_ @ pca.components_.T), np.eye(r), atol=1e-6)
    np.testing.assert_allclose(
        np.abs(model.transform(X)), np.abs(pca.transform(X)), atol=1e-4 if dtype == "f4" else 1e-9
    )
    assert list(model.get_feature_names_out()) == [f"fairpca{j}" for j in range(r)]
