"""scikit-learn's own checks, with no expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairpca import FairPCA


# The checks never pass groups, which is ordinary PCA and warns.
@pytest.mark.filterwarnings("ignore:sensitive_features=None:UserWarning")
@parametrize_with_checks(
    [
        FairPCA(),
        FairPCA(n_components=1),
        FairPCA(solver="dense"),
        FairPCA(solver="krylov"),
        FairPCA(criterion="share"),
    ]
)
def test_common_checks(estimator, check):
    check(estimator)
