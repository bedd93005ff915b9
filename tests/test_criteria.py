"""A criterion is one record: whatever is added to the table works everywhere, at once."""

import numpy as np
import pytest

import fairpca
from fairpca import FairPCA
from fairpca.criteria import CRITERIA, Criterion

# Criteria that the package does not have. The first asks by how much a group stays below nine
# tenths of its variance; the second lies half way between the loss and the error.
ADDED = {
    "shortfall": Criterion(trace=0.9),
    "half way": Criterion(own=0.5, trace=0.5),
    "relative shortfall": Criterion(trace=0.9, as_share=True),
}


@pytest.fixture(params=sorted(ADDED))
def criterion(request):
    """Add one criterion for one test and take it away again."""
    CRITERIA[request.param] = ADDED[request.param]
    yield request.param
    del CRITERIA[request.param]


def table(k, seed=0, rows=60, n=6):
    """Return rows of k groups that share one mean, the labels, and the groups' covariances.

    The groups differ mildly, so that the gap closes for four of them too.
    """
    rng = np.random.default_rng(seed)
    common = np.diag(0.6 ** np.arange(n))
    mixing = [common + 0.1 * rng.normal(size=(n, n)) for _ in range(k)]
    parts = [rng.normal(size=(rows, n)) @ matrix for matrix in mixing]
    parts = [part - part.mean(axis=0) for part in parts]
    matrices = np.array([part.T @ part / rows for part in parts])
    return np.vstack(parts), np.repeat(np.arange(k), rows), matrices


def posed(name, matrices, r):
    """Return scaled matrices and offsets of an added criterion, by NumPy alone."""
    traces = np.trace(matrices, axis1=1, axis2=2)
    own = np.linalg.eigvalsh(matrices)[:, -r:].sum(axis=1)
    if name == "half way":
        return matrices, (own + traces) / 2
    scales = 1 / traces if name == "relative shortfall" else np.ones(len(traces))
    return matrices * scales[:, None, None], 0.9 * traces * scales


def values(matrices, offsets, basis):
    return offsets - np.einsum("nr,knm,mr->k", basis, matrices, basis)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("r", [1, 3])
def test_a_criterion_added_at_run_time_is_solved_and_certified(criterion, k, r):
    X, labels, matrices = table(k)
    model = FairPCA(r, criterion=criterion).fit(X, sensitive_features=labels)
    matrices, offsets = posed(criterion, matrices, r)
    found = values(matrices, offsets, model.components_.T)
    np.testing.assert_allclose(model.group_values_, found, rtol=1e-10, atol=1e-12)
    proof = model.certificate_
    assert proof.value == pytest.approx(found.max(), rel=1e-10)
    # The bound is the dual function at the weights: no basis goes below it.
    weights = model.group_weights_
    mixture = np.tensordot(weights, matrices, axes=1)
    phi = weights @ offsets - np.linalg.eigvalsh(mixture)[-r:].sum()
    assert proof.lower_bound == pytest.approx(phi, rel=1e-9)
    assert proof.lower_bound <= proof.value
    assert proof.optimal


def test_no_basis_goes_below_the_bound_of_an_added_criterion(criterion):
    X, labels, matrices = table(4, seed=1)
    model = FairPCA(2, criterion=criterion).fit(X, sensitive_features=labels)
    matrices, offsets = posed(criterion, matrices, 2)
    rng = np.random.default_rng(2)
    for _ in range(500):
        basis = np.linalg.qr(rng.normal(size=(6, 2)))[0]
        assert values(matrices, offsets, basis).max() >= model.certificate_.lower_bound


def test_losses_do_not_depend_on_the_criterion_they_were_found_with(criterion):
    X, labels, matrices = table(3)
    model = FairPCA(2, criterion=criterion).fit(X, sensitive_features=labels)
    own = np.linalg.eigvalsh(matrices)[:, -2:].sum(axis=1)
    lost = values(matrices, own, model.components_.T)
    left = values(matrices, np.trace(matrices, axis1=1, axis2=2), model.components_.T)
    np.testing.assert_allclose(model.group_losses_, lost, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.group_errors_, left, rtol=1e-9, atol=1e-12)


def test_functions_take_it_too(criterion):
    X, labels, matrices = table(2)
    solution = fairpca.solve(matrices, 2, criterion=criterion)
    model = FairPCA(2, criterion=criterion).fit(X, sensitive_features=labels)
    assert solution.certificate.value == pytest.approx(model.certificate_.value, rel=1e-9)
    moments = fairpca.GroupMoments.from_array(X, labels)
    path = fairpca.component_path(moments, 3, criterion=criterion)
    assert path.certificates[1].value == pytest.approx(model.certificate_.value, rel=1e-9)


def test_what_was_taken_away_is_unknown_again():
    X, labels, _ = table(2)
    assert not set(ADDED) & set(CRITERIA)
    with pytest.raises(ValueError, match=r"criterion='shortfall'.*'loss'"):
        FairPCA(2, criterion="shortfall").fit(X, sensitive_features=labels)
