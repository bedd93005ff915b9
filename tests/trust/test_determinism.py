"""Same input, same bits; nothing outside the estimator is touched."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

from fairpca import FairPCA, GroupMoments

pytestmark = pytest.mark.filterwarnings(
    "ignore:The gap between:sklearn.exceptions.ConvergenceWarning"
)


def people(m=300, n=8, k=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, n)) * np.linspace(3, 0.5, n) + 1
    labels = rng.integers(0, k, size=m)
    X[labels == 0] *= np.linspace(0.5, 2, n)
    return X, labels


def sparse():
    X = scipy.sparse.random(200, 600, density=0.03, format="csr", random_state=0)
    return X, np.arange(200) % 2


# Every way the data can be known: moments, row space, products; three groups with a descent.
ROADS = {
    "moments": (people, {}),
    "row space": (lambda: people(40, 400), {}),
    "sparse": (sparse, {}),
    "three groups": (lambda: people(k=3), {"criterion": "relative"}),
    "nested": (people, {"nested": True}),
}


def fit(road):
    make, params = ROADS[road]
    X, labels = make()
    return FairPCA(3, **params).fit(X, sensitive_features=labels)


@pytest.mark.parametrize("road", ROADS)
def test_same_bits_again_and_no_global_generator(road):
    one = fit(road)
    np.random.seed(7)  # noqa: NPY002
    random.seed(7)
    state, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    other = fit(road)
    for name in ("components_", "group_values_", "explained_variance_", "mean_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.certificate_ == other.certificate_
    assert random.getstate() == python
    np.testing.assert_array_equal(np.random.get_state()[1], state[1])  # noqa: NPY002


@pytest.mark.slow
def test_the_hash_seed_does_not_matter():
    """Labels of mixed types go through sets; their order must not depend on the process."""
    code = (
        "import numpy as np; from fairpca import FairPCA;"
        "X = np.sin(np.arange(120.0)).reshape(40, 3);"
        "g = ['b', 'a', 7, 2.5, 'c'] * 8;"
        "m = FairPCA(2).fit(X, sensitive_features=g);"
        "print(m.groups_, m.components_.tobytes().hex())"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    outputs = {
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("layout", ["C", "Fortran", "strided", "memory map", "float32"])
def test_input_is_untouched(layout, tmp_path):
    X, labels = people()
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
    before = [np.array(part) for part in (X, labels, weight)]
    for part in (X, labels, weight):
        part.flags.writeable = False
    model = FairPCA(2).fit(X, sensitive_features=labels, sample_weight=weight)
    model.inverse_transform(model.transform(X))
    moments = GroupMoments.from_array(X, labels, sample_weight=weight)
    scatter = moments.scatter.copy()
    moments.merge(moments).pooled()
    np.testing.assert_array_equal(moments.scatter, scatter)
    for part, old in zip((X, labels, weight), before, strict=True):
        np.testing.assert_array_equal(part, old)
