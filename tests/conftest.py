"""Settings every test shares."""

import os
import random

# scikit-learn's common checks skip their array API part unless SciPy is told before its import.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import hypothesis
import pytest

from data_dir import data_dir

# Loaders find the tables that the tests find.
if data_dir():
    os.environ.setdefault("FAIRPCA_DATA", os.fspath(data_dir()))

# In CI the same examples every time: a new counter-example should meet a person, not a release.
hypothesis.settings.register_profile(
    "default",
    deadline=None,
    max_examples=40,
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
)
hypothesis.settings.load_profile("default")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Set threads, and choose one seed for all generated cases, to be printed and given again."""
    # One BLAS thread per worker process: two pools on two cores slow each other down many times
    # over. Set here, before the workers start and inherit it: a worker has NumPy, which plugins
    # and the filters of warnings import, before it comes to this file.
    if config.getoption("numprocesses", None):
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(variable, "1")
    if not os.environ.get("CI") and config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = random.SystemRandom().randrange(2**32)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """In CI a skip is a failure unless the test needs a GPU."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if "needs a GPU" not in reason:
            report.outcome = "failed"
            report.longrepr = f"skipped in CI, which is a failure here: {reason}"
