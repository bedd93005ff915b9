"""scikit-learn's own checks, with no expected failure."""

import importlib.util

import pytest
import sklearn
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import estimator_checks_generator

from fairpca import FairPCA, MaxMinDistanceAnalysis

MODELS = [
    FairPCA(),
    FairPCA(n_components=1),
    FairPCA(criterion="share"),
    MaxMinDistanceAnalysis(),
    MaxMinDistanceAnalysis(within="identity"),
]


def follows_arrays():
    """Whether the installed versions can follow arrays of other libraries at all."""
    try:
        with sklearn.config_context(array_api_dispatch=True):
            return True
    except (ImportError, RuntimeError):
        return False


def can_run(check):
    """Whether the array libraries and devices that a check is about are here."""
    asked = getattr(check, "keywords", {})
    places = [(asked.get("array_namespace"), asked.get("device_name"))]
    places += [
        asked.get(name) or (None, None) for name in ("X_ns_and_device", "other_ns_and_device")
    ]
    places = [(library, device) for library, device in places if library is not None]
    if not places:
        return True
    installed = all(importlib.util.find_spec(library.partition(".")[0]) for library, _ in places)
    elsewhere = any(device in ("cuda", "mps", "xpu", "gpu") for _, device in places)
    return follows_arrays() and installed and not elsewhere


def named(part):
    """Return a short name of an estimator or a check."""
    if isinstance(part, BaseEstimator):
        return repr(part)
    asked = [str(value) for value in getattr(part, "keywords", {}).values() if value is not None]
    return "-".join([getattr(part, "func", part).__name__, *asked])


CHECKS = [
    (estimator, check)
    for model in MODELS
    for estimator, check in estimator_checks_generator(model)
    if can_run(check)
]


# The checks never pass groups, which is ordinary PCA and warns.
@pytest.mark.filterwarnings("ignore:sensitive_features=None:UserWarning")
@pytest.mark.parametrize("estimator, check", CHECKS, ids=named)
def test_common_checks(estimator, check):
    check(estimator)


def test_arrays_of_other_libraries_are_among_them():
    kinds = {named(check).partition("-")[0] for _, check in CHECKS}
    assert "check_fit_score_takes_y" in kinds
    assert ("check_array_api_input" in kinds) == follows_arrays()
