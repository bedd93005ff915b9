"""LAPACK and ARPACK that lie: a fit is right, or it raises; it never proves what is false."""

import functools
import types

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, aslinearoperator

import fairpca.covariances.block_krylov
import fairpca.covariances.dense
import fairpca.covariances.eigenpairs
from fairpca import FairPCA, GroupMoments, component_path

from trust_cases import Judge, second_moments

pytestmark = [
    pytest.mark.filterwarnings("ignore:The gap between:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def few(values, vectors):
    """One pair less than asked for: the leading one, which comes last."""
    return values[..., :-1], vectors[..., :-1]


def copies(values, vectors):
    """The second pair twice instead of the leading one."""
    values, vectors = values.copy(), vectors.copy()
    if values.shape[-1] > 1:
        values[..., -1], vectors[..., -1] = values[..., -2], vectors[..., -2]
    return values, vectors


def not_a_number(values, vectors):
    vectors = vectors.copy()
    vectors[..., 0, -1] = np.nan
    return values, vectors


def values_not_a_number(values, vectors):
    return np.full_like(values, np.nan), vectors


def wrong_order(values, vectors):
    return values[..., ::-1], vectors[..., ::-1]


def mixed_order(values, vectors):
    """The leading pair at the place of the last."""
    return np.roll(values, 1, axis=-1), np.roll(vectors, 1, axis=-1)


def too_small(values, vectors):
    return 0.9 * values, vectors


def values_of_others(values, vectors):
    """Right vectors, the values in opposite order."""
    return values[..., ::-1], vectors


def not_leading(values, vectors):
    """Orthonormal eigenpairs, but not those that lead; what is missing is filled up."""
    return np.roll(values, -1, axis=-1)[..., ::-1], np.roll(vectors, -1, axis=-1)[..., ::-1]


def failing(values, vectors):
    raise np.linalg.LinAlgError("the algorithm failed to converge")


def arpack_fails(values, vectors):
    raise ArpackError(-9999)


def no_convergence(values, vectors):
    raise ArpackNoConvergence("no convergence", np.empty(0), np.empty((0, 0)))


LIES = (
    few,
    copies,
    not_a_number,
    values_not_a_number,
    wrong_order,
    mixed_order,
    too_small,
    values_of_others,
    not_leading,
    failing,
    arpack_fails,
    no_convergence,
)


def next_best(decompose, matrix, k):
    """Return pairs 2 to k + 1 where k were asked for: true eigenpairs that do not lead."""
    values, vectors = decompose(matrix)
    return values[-k - 1 : -1], vectors[:, -k - 1 : -1]


class Liar:
    """Drivers of which some calls lie; `every` = 1 means all calls, 3 each third."""

    def __init__(self, lie, every):
        self.lie, self.every, self.calls, self.told = lie, every, 0, 0

    def spoil(self, values, vectors):
        self.calls += 1
        if self.calls % self.every:
            return values, vectors
        self.told += 1
        return self.lie(np.asarray(values), np.asarray(vectors))

    def wrap(self, driver):
        @functools.wraps(driver)
        def lying(*args, **kwargs):
            values, vectors, *rest = driver(*args, **kwargs)
            return *self.spoil(values, vectors), *rest

        return lying


class Stand:
    """A module with some names replaced."""

    def __init__(self, module, **names):
        self._module = module
        self.__dict__.update(names)

    def __getattr__(self, name):
        return getattr(self._module, name)


def inject(monkeypatch, liar, drivers):
    """Let some drivers lie wherever the package decomposes: LAPACK's in full, in part, ARPACK."""
    pairs = fairpca.covariances.eigenpairs
    if "full" in drivers:
        lying = Stand(np, linalg=Stand(np.linalg, eigh=liar.wrap(np.linalg.eigh)))
        for module in (pairs, fairpca.covariances.dense, fairpca.covariances.block_krylov):
            monkeypatch.setattr(module, "np", lying)
    eigh, eigsh = scipy.linalg.eigh, scipy.sparse.linalg.eigsh
    if "part" in drivers or "last resort" in drivers:
        lying_eigh = liar.wrap(eigh)

        def chosen(*args, **kwargs):
            partial = "subset_by_index" in kwargs
            lies = "part" in drivers if partial else "last resort" in drivers
            return (lying_eigh if lies else eigh)(*args, **kwargs)

        eigh = chosen
    if "arpack" in drivers:
        eigsh = liar.wrap(eigsh)
    sparse = Stand(scipy.sparse, linalg=Stand(scipy.sparse.linalg, eigsh=eigsh))
    monkeypatch.setattr(
        pairs, "scipy", Stand(scipy, linalg=Stand(scipy.linalg, eigh=eigh), sparse=sparse)
    )


DRIVERS = {
    "in part": ("part", "arpack"),
    "in full": ("full",),
    "all": ("part", "full", "last resort", "arpack"),
}


def rows(n, k, m, seed=0, rank=None):
    """Groups with spectra that step down, each turned by its own angle."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) * np.r_[4, 3, 2.5, 2, np.linspace(1, 0.2, n - 4)]
    labels = np.arange(m) % k
    for group in range(1, k):
        X[labels == group] = np.roll(X[labels == group], 2 * group, axis=1)
    if rank:
        labels[rank:] = labels[rank:] // k * 0
    return X, labels


class Streamed:
    """Cells that are known by passes over rows elsewhere."""

    def __init__(self, X, labels):
        moments = GroupMoments.from_array(X, labels)
        self.covariances = moments.covariances
        for name in ("count", "weight", "mean", "labels", "names", "n_features"):
            setattr(self, name, getattr(moments, name))
        self.origin, self.offset = moments.mean, moments.mean_rest
        self.traces = np.trace(self.covariances, axis1=1, axis2=2)

    def products(self, columns):
        return self.covariances @ columns


@functools.cache
def road(name):
    """Return rows, labels, rank, settings and the form in which the rows are given."""
    plain = lambda X, labels: X  # noqa: E731
    return {
        "dense": (*rows(9, 2, 60), 2, {}, plain),
        "dense, three groups": (*rows(9, 3, 90), 2, {}, plain),
        "dense, 70 columns": (*rows(70, 2, 160), 2, {}, plain),
        "large": (*rows(110, 2, 240), 2, {}, plain),
        "large, three groups": (*rows(110, 3, 330), 1, {}, plain),
        "large, few rows in a group": (*rows(110, 2, 200, rank=40), 2, {}, plain),
        "krylov": (*rows(24, 2, 60), 2, {"solver": "krylov"}, plain),
        "paper": (*rows(24, 2, 60), 2, {"solver": "paper", "tol": 1e-8}, plain),
        "sparse": (
            *np_padded(*rows(12, 2, 60), 520),
            2,
            {},
            lambda X, labels: scipy.sparse.csr_array(X),
        ),
        "operator": (*rows(24, 2, 60), 2, {}, lambda X, labels: aslinearoperator(X)),
        "row space": (*rows(260, 2, 50), 2, {}, plain),
        "streamed": (*rows(40, 2, 90), 2, {}, Streamed),
        "one group": (*rows(100, 1, 150), 2, {}, plain),
        "nested": (*rows(14, 2, 60), 3, {"nested": True}, plain),
        "nested, large": (*rows(100, 2, 220), 3, {"nested": "backward"}, plain),
    }[name]


def np_padded(X, labels, n):
    return np.pad(X, ((0, 0), (0, n - X.shape[1]))), labels


ROADS = (
    "dense",
    "dense, three groups",
    "dense, 70 columns",
    "large",
    "large, three groups",
    "large, few rows in a group",
    "krylov",
    "paper",
    "sparse",
    "operator",
    "row space",
    "streamed",
    "one group",
    "nested",
    "nested, large",
)


def fit(given, labels, r, settings):
    model = FairPCA(r, **settings)
    if isinstance(given, Streamed):
        return model.fit_operators(given)
    return model.fit(given, sensitive_features=labels)


@functools.cache
def honest(name, criterion):
    """Return the judges of every rank up to r, and what honest drivers attain there."""
    X, labels, r, _, _ = road(name)
    matrices = second_moments(X, labels)
    judges = [Judge(matrices, j, criterion) for j in range(1, r + 1)]
    if name == "one group":
        attained = [judge.bound(np.ones(1)) for judge in judges]
    else:
        attained = [
            judge.value(
                FairPCA(judge.r, criterion=criterion).fit(X, sensitive_features=labels).components_
            )
            for judge in judges
        ]
    return judges, attained


@functools.cache
def optima(name):
    """Return the best value of every rank, found without the package."""
    return [judge.optimum() for judge in honest(name, "loss")[0]]


# What a driver that gives up, or a check that fails, may raise. Anything else is a crash.
RAISED = (np.linalg.LinAlgError, ArpackError, RuntimeError, ValueError)


def lied_to(monkeypatch, name, criterion, lie, drivers, every=1):
    """Fit by drivers that lie; return the model (None if it raised), and how often they lied."""
    X, labels, r, settings, form = road(name)
    given, liar = form(X, labels), Liar(lie, every)
    with monkeypatch.context() as patch:
        inject(patch, liar, DRIVERS[drivers])
        try:
            model = fit(given, labels, r, {"criterion": criterion, **settings})
        except RAISED:
            return None, liar.told
    return model, liar.told


def check(model, name, criterion):
    """Assert that nothing the model states is false."""
    judges, attained = honest(name, criterion)
    if model.nested:
        # Values rest on components that were chosen inside; bounds are those of the free problem.
        for j, judge in enumerate(judges, start=1):
            slack = 1e-10 * judge.scale
            true = judge.value(model.components_[:j])
            assert abs(model.nested_values_[j - 1] - true) <= slack, ("value", j)
            assert model.nested_bounds_[j - 1] <= attained[j - 1] + slack, ("bound", j)
    judges[-1].check(model.components_, model.certificate_, attained[-1], rtol=1e-10)
    off = np.abs(model.group_values_ - judges[-1].values(model.components_)).max()
    assert off <= 1e-10 * judges[-1].scale, ("group values", off)


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", ROADS)
def test_no_lie_of_a_driver_becomes_a_proof(monkeypatch, name, lie):
    wrong = []
    for drivers in DRIVERS:
        for criterion, every in (("loss", 1), ("share", 2)):
            model, told = lied_to(monkeypatch, name, criterion, lie, drivers, every)
            if model is None or not told:
                continue
            try:
                check(model, name, criterion)
            except AssertionError as error:
                wrong.append((drivers, criterion, every, str(error).splitlines()[0]))
    assert not wrong


@pytest.mark.parametrize("lie", LIES)
def test_no_lie_of_a_driver_becomes_a_proof_of_a_path(monkeypatch, lie):
    name, wrong = "nested, large", []
    X, labels, r, _, _ = road(name)
    moments = GroupMoments.from_array(X, labels)
    judges, attained = honest(name, "loss")
    optimum = optima(name)
    for drivers in DRIVERS:
        with monkeypatch.context() as patch:
            inject(patch, Liar(lie, 1), DRIVERS[drivers])
            try:
                path = component_path(moments, r)
            except RAISED:
                continue
        for j, certificate in enumerate(path.certificates):
            slack = 1e-10 * judges[j].scale
            if certificate.lower_bound > attained[j] + slack:
                wrong.append((drivers, j + 1, "bound", certificate, attained[j]))
            if min(certificate.value, path.losses[j].max()) < optimum[j] - slack:
                wrong.append((drivers, j + 1, "value", certificate, optimum[j]))
    assert not wrong


def test_the_honest_drivers_are_asked_on_every_road(monkeypatch):
    """Otherwise the tests above would test nothing."""
    for name in ROADS:
        model, told = lied_to(monkeypatch, name, "loss", lambda *pair: pair, "all")
        assert told > 0, name
        check(model, name, "loss")


@pytest.mark.parametrize(
    "name", ["dense, 70 columns", "large", "large, three groups", "row space"]
)
@pytest.mark.parametrize("lie", [few, copies, not_a_number, not_leading, failing])
def test_a_lie_in_part_is_replaced_by_the_truth_in_full(monkeypatch, name, lie):
    model, _ = lied_to(monkeypatch, name, "loss", lie, "in part")
    assert model is not None
    _, attained = honest(name, "loss")
    assert model.certificate_.value == pytest.approx(attained[-1], rel=1e-7)
    if len(model.groups_) == 2:
        assert model.certificate_.optimal


def test_true_pairs_that_do_not_lead_are_noticed(monkeypatch):
    """The partial driver returns eigenpairs 2 to r + 1: each is right, the sum is too small."""
    real = scipy.linalg.eigh
    told = []

    def second(matrix, *args, **kwargs):
        if "subset_by_index" not in kwargs:
            return real(matrix, *args, **kwargs)
        low, high = kwargs["subset_by_index"]
        told.append(1)
        return next_best(np.linalg.eigh, matrix, high - low + 1)

    pairs = fairpca.covariances.eigenpairs
    stand = Stand(scipy, linalg=Stand(scipy.linalg, eigh=second))
    for name in ("large", "large, three groups", "one group"):
        for criterion in ("loss", "error", "share"):
            honest(name, criterion)
            with monkeypatch.context() as patch:
                patch.setattr(pairs, "scipy", stand)
                X, labels, r, settings, form = road(name)
                model = fit(form(X, labels), labels, r, {"criterion": criterion, **settings})
            check(model, name, criterion)
    assert told


def test_modules_are_restored():
    assert isinstance(fairpca.covariances.eigenpairs.np, types.ModuleType)
