"""Pieces of sparse rows: the numbers of dense ones, without becoming dense."""

from functools import reduce

import numpy as np
import pytest
import scipy.sparse as sp

from fairpca import FairPCA
from fairpca.distributed.pieces import (
    CellSums,
    GroupingOptions,
    PassOperators,
    piece_products,
    piece_sums,
)

OPTIONS = GroupingOptions()


@pytest.fixture(scope="module")
def pieces():
    """Three pieces of sparse rows; one column is far from zero, one piece lacks a group."""
    rng = np.random.default_rng(0)
    X = rng.poisson(0.2, (90, 12)) * rng.normal(size=(90, 12))
    X[:, 3] = 1e6 + rng.normal(size=90)
    labels = np.r_[["a"] * 30, ["a", "b"] * 30]
    weight = rng.integers(0, 3, 90).astype(float)
    return [(X[i : i + 30], labels[i : i + 30], weight[i : i + 30]) for i in (0, 30, 60)]


def test_sums_and_products_are_those_of_dense_rows(pieces):
    columns = np.random.default_rng(1).normal(size=(12, 4))
    found = []
    for make in (np.asarray, sp.csr_matrix):
        rows = [(make(X), labels, weight) for X, labels, weight in pieces]
        facts = reduce(CellSums.merge, [piece_sums(*row, OPTIONS, "here") for row in rows])
        images = sum(piece_products(*row, facts, columns, OPTIONS) for row in rows)
        found.append((facts, images))
    (dense, expected), (sparse, images) = found
    assert sparse.labels == dense.labels == ("a", "b")
    np.testing.assert_array_equal(sparse.count, dense.count)
    for name in ("weight", "mean", "spread"):
        np.testing.assert_allclose(getattr(sparse, name), getattr(dense, name), rtol=1e-9)
    np.testing.assert_allclose(images, expected, atol=1e-8 * np.abs(expected).max())


def test_a_fit_to_passes_over_sparse_rows(pieces):
    rows = [(sp.csr_matrix(X), labels, None) for X, labels, _ in pieces]

    def products(facts, columns):
        return sum(piece_products(*row, facts, columns, OPTIONS) for row in rows)

    cells = PassOperators(lambda: [piece_sums(*row, OPTIONS, "here") for row in rows], products)
    model = FairPCA(3).fit_operators(cells)
    X, labels = np.vstack([p[0] for p in pieces]), np.concatenate([p[1] for p in pieces])
    expected = FairPCA(3).fit(X, sensitive_features=labels)
    np.testing.assert_allclose(model.group_losses_, expected.group_losses_, rtol=1e-7)


def test_what_is_no_number_is_refused_with_the_piece(pieces):
    X, labels, weight = pieces[0]
    bad = sp.csr_matrix(X)
    bad.data[0] = np.nan
    with pytest.raises(ValueError, match="piece 7: X contains NaN"):
        piece_sums(bad, labels, weight, OPTIONS, "piece 7")
