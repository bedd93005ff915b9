"""Generators with a known answer: the answer is the optimum of the sample that was drawn."""

import numpy as np
import pytest

import fairpca
from fairpca import FairPCA, GroupMoments
from fairpca.datasets import make_illustration, make_shared_subspace, make_three_lines


def covariances(known):
    return GroupMoments.from_array(known.data, known.sensitive_features).covariances


def worst_loss(components, matrices):
    r = len(components)
    own = np.linalg.eigvalsh(matrices)[:, ::-1][:, :r].sum(axis=1)
    return float((own - np.einsum("rn,knm,rm->k", components, matrices, components)).max())


MAKERS = {
    "illustration": lambda seed: make_illustration(random_state=seed),
    "three lines": lambda seed: make_three_lines((20, 30, 40), n_features=5, random_state=seed),
    "two sources": lambda seed: make_shared_subspace((80, 30), random_state=seed),
    "four sources": lambda seed: make_shared_subspace(random_state=seed),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_stated_optimum_is_that_of_the_rows(name, seed):
    known, again, other = (MAKERS[name](s) for s in (seed, seed, seed + 1))
    assert np.array_equal(known.data, again.data)
    assert not np.array_equal(known.data, other.data)
    assert "optimum" in known.DESCR
    matrices, r = covariances(known), known.n_components
    assert worst_loss(known.components, matrices) == pytest.approx(known.optimum, abs=1e-12)
    # No weights of the dual lie above the stated bound; some reach it.
    k = len(matrices)
    weights = np.random.default_rng(0).dirichlet(np.ones(k), 200)
    bounds = [fairpca.phi(matrices, r, w[0] if k == 2 else w) for w in weights]
    assert max(bounds) <= known.lower_bound + 1e-12
    found = fairpca.solve(matrices, r)
    assert known.lower_bound - 1e-9 <= found.certificate.lower_bound <= known.optimum + 1e-9
    assert found.certificate.value == pytest.approx(known.optimum, abs=1e-9)


def test_the_direction_of_the_picture():
    known = make_illustration(random_state=0)
    model = FairPCA(1).fit(known.data, sensitive_features=known.sensitive_features)
    x, y = model.components_[0]
    assert np.rad2deg(np.arctan2(y, x)) % 180 == pytest.approx(known.angle, abs=1e-6)


def test_too_few_rows_or_sources_are_refused():
    for make, match in [
        (lambda: make_illustration((2, 40)), "more than 2 rows"),
        (lambda: make_three_lines(3), "more than 3 rows"),
        (lambda: make_shared_subspace((50,)), "2 to 9 entries"),
    ]:
        with pytest.raises(ValueError, match=match):
            make()
