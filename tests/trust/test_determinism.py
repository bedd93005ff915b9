"""Same input, same bits; nothing outside the estimator is touched."""

import hashlib
import os
import random
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

from fairpca import FairPCA, GroupMoments

pytestmark = pytest.mark.filterwarnings(
    "ignore:The gap between:sklearn.exceptions.ConvergenceWarning"
)


def people(m=300, n=8, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) * np.linspace(3, 0.5, n) + 1
    labels = rng.integers(0, k, size=m)
    X[labels == 0] *= np.linspace(0.5, 2, n)
    return X, labels


def wide(m=40, n=400):
    return people(m, n)


def sparse():
    X = scipy.sparse.random(200, 600, density=0.03, format="csr", random_state=0)
    return X, np.arange(200) % 2


# Every way the data can be known: moments, row space, products, three groups with a descent.
ROADS = {
    "moments": (people, {}),
    "krylov": (people, {"solver": "krylov"}),
    "paper": (people, {"solver": "paper"}),
    "row space": (wide, {}),
    "sparse": (sparse, {}),
    "three groups": (lambda: people(k=3), {"criterion": "relative"}),
    "nested": (people, {"nested": True}),
}
ATTRIBUTES = ("components_", "group_values_", "explained_variance_", "mean_")


def fit(road):
    make, params = ROADS[road]
    X, labels = make()
    return FairPCA(3, **params).fit(X, sensitive_features=labels)


@pytest.mark.parametrize("road", ROADS)
def test_same_bits_again(road):
    one, other = fit(road), fit(road)
    for name in ATTRIBUTES:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.certificate_ == other.certificate_


@pytest.mark.parametrize("road", ROADS)
def test_one_thread_or_two(road):
    with threadpool_limits(1):
        one = fit(road)
    with threadpool_limits(2):
        two = fit(road)
    size = np.abs(one.group_errors_).max()
    np.testing.assert_allclose(two.group_values_, one.group_values_, atol=1e-12 * (1 + size))
    # A search by value stops anywhere within the square root of rounding.
    atol = 1e-6 if road == "paper" else 1e-8
    np.testing.assert_allclose(
        two.components_.T @ two.components_, one.components_.T @ one.components_, atol=atol
    )


def test_blas_limits_of_the_caller_are_left_alone():
    from threadpoolctl import threadpool_info

    def limits():
        return [pool["num_threads"] for pool in threadpool_info()]

    with threadpool_limits(1):
        before = limits()
        fit("moments")
        fit("sparse")
        assert limits() == before


@pytest.mark.parametrize("road", ROADS)
def test_no_global_generator_is_touched(road):
    np.random.seed(7)  # noqa: NPY002
    random.seed(7)
    state, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    fit(road)
    after = np.random.get_state()  # noqa: NPY002
    assert random.getstate() == python
    assert after[0] == state[0]
    assert after[2:] == state[2:]
    np.testing.assert_array_equal(after[1], state[1])


def test_the_hash_seed_does_not_matter():
    """Labels of mixed types go through sets; their order must not depend on the process."""
    code = (
        "import numpy as np; from fairpca import FairPCA;"
        "X = np.sin(np.arange(120.0)).reshape(40, 3);"
        "g = ['b', 'a', 7, 2.5, 'c'] * 8;"
        "m = FairPCA(2).fit(X, sensitive_features=g);"
        "print(m.groups_, m.components_.tobytes().hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def digest(*arrays):
    return [hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest() for a in arrays]


@pytest.mark.parametrize("layout", ["read-only", "Fortran", "strided", "memory map", "float32"])
@pytest.mark.parametrize("make", [people, wide])
def test_input_is_untouched(layout, make, tmp_path):
    X, labels = make()
    weight = np.linspace(0.5, 2, len(X))
    if layout == "Fortran":
        X = np.asfortranarray(X)
    elif layout == "strided":
        X = np.repeat(X, 2, axis=0)[::2]
    elif layout == "float32":
        X = X.astype(np.float32)
    elif layout == "memory map":
        np.save(tmp_path / "x.npy", X)
        X = np.load(tmp_path / "x.npy", mmap_mode="r")
    before = digest(X, labels, weight)
    for array in (X, labels, weight):
        array.flags.writeable = False
    model = FairPCA(2).fit(X, sensitive_features=labels, sample_weight=weight)
    model.inverse_transform(model.transform(X))
    GroupMoments.from_array(X, labels, sample_weight=weight)
    assert digest(X, labels, weight) == before


def test_merging_leaves_both_sides():
    X, labels = people()
    one, other = GroupMoments.from_array(X, labels), GroupMoments.from_array(X + 1, labels + 1)
    before = digest(one.scatter, other.scatter, one.mean, other.mean)
    one.merge(other).pooled()
    assert digest(one.scatter, other.scatter, one.mean, other.mean) == before
