"""scikit-learn's own tests of PCA, run on FairPCA with one group.

Its test module is executed once more with the class below in the place of PCA, and its tests are
collected from here. Those that ask for something FairPCA does not offer are named in `LEFT_OUT`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from fairpca import FairPCA

# One group is what all of these tests are about.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:sensitive_features=None:UserWarning"),
]
PAGE = Path(__file__).parents[1] / "docs" / "guide" / "like_pca.md"


class PCA(FairPCA):
    """FairPCA under the name of PCA and with its parameters."""

    def __init__(
        self,
        n_components=None,
        *,
        copy=True,
        whiten=False,
        svd_solver="auto",
        tol=0.0,
        iterated_power="auto",
        n_oversamples=10,
        power_iteration_normalizer="auto",
        random_state=None,
    ):
        # PCA's `tol` is ARPACK's; that of FairPCA is about the certificate and keeps its default.
        super().__init__(n_components, whiten=whiten, random_state=random_state)
        self.copy = copy
        self.svd_solver = svd_solver
        self.iterated_power = iterated_power
        self.n_oversamples = n_oversamples
        self.power_iteration_normalizer = power_iteration_normalizer


RANK = (
    "`n_components` is 1 to the number of columns and None means all of them, also where there "
    "are fewer rows; PCA's is 0 to the smaller side of the table."
)
MLE = '`n_components="mle"` is not offered, because its model of the rows knows no groups.'
SHARE = (
    "A float `n_components` keeps at least that share of the variance, where PCA keeps more than "
    "it; the two differ only where some rank keeps exactly the share."
)
SOLVERS = (
    "PCA's `svd_solver` with its limits and errors is not shared: FairPCA takes "
    "dense and sparse rows, and up to all components."
)
WHITEN = (
    "`score` and `get_covariance` describe the rows with `whiten=True` too, where those of PCA "
    "multiply by the variances twice."
)
DTYPE = (
    "`components_` and all other attributes are float64, also from float32 rows, because the "
    "certificate needs the digits; `transform` and `inverse_transform` keep float32."
)
ARRAYS = (
    "Arrays of other libraries: their tests choose `svd_solver`, which there is none of; "
    "scikit-learn's general checks pass ([accelerators](accelerators.md))."
)
NO_PCA = "No PCA takes part in it: it tests a private function of scikit-learn."

# Why a test of scikit-learn is not collected. All but the last reason are on PAGE.
LEFT_OUT = {
    "test_n_components_none": RANK,
    "test_pca_validation": RANK,
    "test_pca_score3": RANK,
    "test_fit_mle_too_few_samples": MLE,
    "test_mle_redundant_data": MLE,
    "test_mle_simple_case": MLE,
    "test_n_components_mle": MLE,
    "test_n_components_mle_error": MLE,
    "test_pca_dim": MLE,
    "test_pca_n_components_mostly_explained_variance_ratio": SHARE,
    "test_pca_svd_solver_auto": SOLVERS,
    "test_sparse_pca_solver_error": SOLVERS,
    "test_pca_score": WHITEN,
    "test_pca_dtype_preservation": DTYPE,
    "test_array_api_error_and_warnings_on_unsupported_params": ARRAYS,
    "test_pca_array_api_compliance": ARRAYS,
    "test_pca_mle_array_api_compliance": ARRAYS,
    "test_assess_dimension_bad_rank": NO_PCA,
    "test_assess_dimension_rank_one": NO_PCA,
    "test_assess_dimesion_rank_one": NO_PCA,  # the same in scikit-learn 1.6
    "test_small_eigenvalues_mle": NO_PCA,
}


@pytest.fixture
def global_random_seed():
    """Return the seed that scikit-learn's own runs use unless told otherwise."""
    return 42


@pytest.fixture(params=["float32", "float64"])
def global_dtype(request):
    """Return both types of rows; scikit-learn's own runs take float64 unless told otherwise."""
    return np.dtype(request.param).type


def _load():
    """Return the tests of scikit-learn's module by name, with our class in the place of PCA."""
    spec = importlib.util.find_spec("sklearn.decomposition.tests.test_pca")
    module = importlib.util.module_from_spec(spec)
    # Some of its lists of parameters hold estimators, so PCA is replaced before the module runs.
    with mock.patch("sklearn.decomposition.PCA", PCA):
        spec.loader.exec_module(module)
    # The same two hundred sparse cases on smaller tables, which take a fraction of the time.
    module.SPARSE_M, module.SPARSE_N = 200, 60
    return {name: test for name, test in vars(module).items() if name.startswith("test_")}


THEIRS = _load()
globals().update({name: test for name, test in THEIRS.items() if name not in LEFT_OUT})


def test_most_tests_of_scikit_learn_are_run_and_every_reason_is_needed():
    assert len(THEIRS.keys() - LEFT_OUT.keys()) >= 20
    # By reason and not by name: names of tests change from version to version.
    assert {LEFT_OUT[name] for name in THEIRS.keys() & LEFT_OUT.keys()} == set(LEFT_OUT.values())


def test_the_page_about_pca_gives_every_reason():
    page = PAGE.read_text(encoding="utf-8")
    assert [r for r in LEFT_OUT.values() if r != NO_PCA and f"| {r} |" not in page] == []
