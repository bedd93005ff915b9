"""Fits in threads and in other processes are fits; limits on BLAS threads are kept."""

import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import threadpoolctl
from sklearn.base import clone

import fairpca
from fairpca import FairPCA, GroupMoments
from fairpca._arrays import available_cores, available_threads, one_blas_thread
from fairpca.covariances.dense import DenseOracle
from fairpca.methods import WorstCasePCA
from fairpca.moments.scatter import _Worker
from fairpca.solvers.problem import Problem


def people(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 6)) * [3, 2, 1, 1, 0.5, 0.5]
    labels = np.arange(200) % 2
    X[labels == 1] = X[labels == 1][:, ::-1]
    return X, labels


def fitted(seed):
    X, labels = people(seed)
    return FairPCA(2).fit(X, sensitive_features=labels).components_


def check(found):
    for seed, components in enumerate(found):
        np.testing.assert_allclose(components, fitted(seed), atol=1e-10)


def test_fits_in_threads():
    with ThreadPoolExecutor(4) as pool:
        check(pool.map(fitted, range(12)))


def test_one_counted_model_looked_at_from_many_threads():
    """The first look solves; looks at the same moment agree and none sees half a result."""
    X, labels = people(0)
    model = FairPCA(2).partial_fit(X, sensitive_features=labels)
    barrier = threading.Barrier(4)

    def look(_):
        barrier.wait()
        return model.components_, model.certificate_

    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(look, range(4)))
    for components, certificate in seen:
        np.testing.assert_array_equal(components, seen[0][0])
        assert certificate == seen[0][1]


# A forked child of a process whose BLAS has threads may hang in BLAS itself; Python 3.12 warns of
# it. That is why workers that fork are given one thread, as every fork-based tool advises.
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_fits_in_processes(method):
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        check(pool.map(fitted, range(4)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_fits_in_forked_processes():
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        check(pool.map(fitted, range(4)))


def test_fits_in_joblib_workers():
    check(joblib.Parallel(n_jobs=2)(joblib.delayed(fitted)(seed) for seed in range(4)))


def moments(seed):
    X, labels = people(seed)
    return GroupMoments.from_array(X, labels)


def test_moments_cross_processes_and_merge():
    counted = joblib.Parallel(n_jobs=2)(joblib.delayed(moments)(seed) for seed in range(3))
    merged = counted[0].merge(counted[1]).merge(counted[2])
    X = np.vstack([people(seed)[0] for seed in range(3)])
    whole = GroupMoments.from_array(X, np.tile(np.arange(200) % 2, 3))
    np.testing.assert_allclose(merged.scatter, whole.scatter, rtol=1e-12, atol=1e-10)


def test_limits_of_blas_bound_our_own_threads(monkeypatch):
    started = []
    monkeypatch.setattr(threading.Thread, "start", lambda self: started.append(self))
    X = np.random.default_rng(0).normal(size=(50_000, 8))
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        assert available_threads() == min(2, available_cores())
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        assert available_threads() == 1
        GroupMoments.from_array(X, np.arange(50_000) % 2)
    assert not started


@pytest.mark.parametrize("variable", ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"])
def test_limits_of_the_environment_bound_our_own_threads(variable):
    code = "from fairpca._arrays import available_threads; print(available_threads())"
    others = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    found = subprocess.run(
        [sys.executable, "-c", f"import numpy, scipy.linalg; {code}"],
        env={**others, variable: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "1"


def test_tall_rows_by_several_threads_give_the_same_bits(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60_000, 8))
    labels = np.arange(60_000) % 3
    found = []
    for threads in (1, 4):
        monkeypatch.setattr("fairpca.moments.scatter.available_threads", lambda n=threads: n)
        found.append(GroupMoments.from_array(X, labels).scatter)
    np.testing.assert_array_equal(*found)


def blas_threads():
    """Threads of every BLAS but PyTorch's, which nothing here calls."""
    return [
        pool["num_threads"]
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas" and "/torch/lib/" not in pool["filepath"]
    ]


def threads_inside(monkeypatch, *methods):
    """Return a set that fills with the threads of BLAS during every call of these methods."""
    seen = set()
    for home, name in methods:
        found = getattr(home, name)

        def watched(self, argument, plain=found):
            seen.update(blas_threads())
            return plain(self, argument)

        monkeypatch.setattr(home, name, watched)
    return seen


def test_overlapping_fits_leave_blas_its_threads():
    """One enters while the other is inside, and leaves last."""
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = threading.Event(), threading.Event()

        def other():
            with one_blas_thread():
                first.set()
                second.wait(10)

        helper = threading.Thread(target=other)
        with one_blas_thread():
            helper.start()
            assert first.wait(10)
            with one_blas_thread():
                pass
            assert set(blas_threads()) == {1}
        second.set()
        helper.join()
        assert blas_threads() == before


@pytest.mark.parametrize("criterion", ["loss", "share"])
def test_the_search_for_a_share_keeps_blas_on_one_thread(criterion, monkeypatch):
    """Every decomposition of it, also those that only tell which ranks can be skipped."""
    seen = threads_inside(monkeypatch, (DenseOracle, "own_pairs"), (Problem, "losses"))
    X = np.random.default_rng(0).normal(size=(200, 60)) * np.linspace(3, 0.1, 60)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        FairPCA(0.3, criterion=criterion).fit(X, sensitive_features=np.arange(200) % 2)
    assert seen == {1}


@pytest.mark.parametrize("estimator", [FairPCA(2), WorstCasePCA(2)])
@pytest.mark.parametrize("n", [5, 40, 64, 300])
def test_small_fits_keep_blas_on_one_thread(n, estimator, monkeypatch):
    """NumPy's and SciPy's threads wait for each other there: 64 columns took twice as long.

    On cores that others use too, 30 to 50 columns took eight times as long.
    """
    seen = threads_inside(monkeypatch, (Problem, "losses"), (_Worker, "strand"))
    X = np.random.default_rng(0).normal(size=(2 * n, n))
    moments = GroupMoments.from_array(X, np.arange(2 * n) % 2)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        clone(estimator).fit(X, sensitive_features=np.arange(2 * n) % 2)
        fairpca.solve(moments.covariances, 2)
    assert seen == {1}


def threads_by_owner():
    """Threads of NumPy's own BLAS and of SciPy's; nothing where they share one."""
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    found = {
        owner: pool["num_threads"]
        for pool in pools
        for owner in ("numpy", "scipy")
        if f"{owner}.libs" in pool["filepath"]
    }
    return found if len(found) == 2 else {}


def test_large_solves_leave_scipy_its_threads(monkeypatch):
    """Two BLAS with threads wait for each other; with one, cores are used."""
    seen = []
    losses = Problem.losses

    def watched(self, basis):
        seen.append(threads_by_owner())
        return losses(self, basis)

    monkeypatch.setattr(Problem, "losses", watched)
    X = np.random.default_rng(0).normal(size=(500, 310))
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads_by_owner()
        FairPCA(2).fit(X, sensitive_features=np.arange(500) % 2)
        assert threads_by_owner() == before
    assert seen
    assert all(now == (before and {"numpy": 1, "scipy": 2}) for now in seen)
