"""Settings every test shares."""

import os
import random
import sys

# scikit-learn's common checks skip their array API part unless SciPy is told before its import.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import hypothesis
import pytest

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


def _trust_counts():
    counts = vars(sys.modules["_trust_counts"]) if "_trust_counts" in sys.modules else {}
    return {name[6:]: n for name, n in counts.items() if name.startswith("cases ")}


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    """Send the counts of this process to the one that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["trust"] = _trust_counts()


class _FromWorkers:
    """Counts of worker processes; the hook exists only where pytest-xdist is loaded."""

    def __init__(self):
        self.counts = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error):
        for kind, n in getattr(node, "workeroutput", {}).get("trust", {}).items():
            self.counts[kind] = self.counts.get(kind, 0) + n


_workers = _FromWorkers()


def pytest_sessionstart(session):
    session.config.pluginmanager.register(_workers, "trust-workers")


def pytest_terminal_summary(terminalreporter, config):
    """Say how many generated cases ran, and from which seed."""
    counts = _workers.counts or _trust_counts()
    if counts:
        seed = "fixed by the name of each test" if os.environ.get("CI") else None
        seed = seed or f"--hypothesis-seed={config.getoption('hypothesis_seed')}"
        terminalreporter.section("trust")
        for kind, n in sorted(counts.items()):
            terminalreporter.line(f"{n:7,}  {kind}")
        terminalreporter.line(f"trust: {sum(counts.values()):,} generated cases, seed {seed}")


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
