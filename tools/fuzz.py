"""Look for broken promises with random tables and a checker that shares nothing with the package.

``python -m tools.fuzz --minutes N --seed S`` draws awkward tables, fits each by one of the roads
to an answer and checks what was promised against covariances, eigenvalue sums and a search of its
own (NumPy and SciPy, covariances in extended precision). Every broken promise is printed with the
one line that repeats it, ``python -m tools.fuzz --case SEED``, and makes the exit status one.

What is promised of every fit: the stated value is that of the basis, to `resolution`; no basis of
the rank has a value below the lower bound; what is called optimal is; two groups close; components
are orthonormal and every number is finite; the same input gives the same bits; wrong input is
refused with a ValueError that names a remedy, and right input is not; no fit of up to 50 columns
takes ten seconds of processor time, and none takes a minute.
"""

from __future__ import annotations

import argparse
import inspect
import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

# Small matrices are faster alone; it must be said before NumPy is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

import fairpca
from tools.fuzz_checker import EPS, LONG, Search, Truth, polished, truth_of_rows

CRITERIA = ("loss", "error", "variance", "relative", "share")
ROADS = ("tall", "wide", "sparse", "chunks", "moments", "operator", "solve", "path", "nested")
SPECTRA = (
    "plain equal clustered onehot integer duplicated far decades lines constant units tiny".split()
)
WEIGHTS = ("none", "counts", "shares", "decades")
WRONG = ("nan", "infinity", "square", "negative", "rank", "one row")
REMEDIES = (
    "pass use drop give replace rescale remove impute choose must label ask count contains".split()
)
# Seconds of processor time; the second limit is for more columns than the first is promised for.
SLOW, SLOW_WIDE, NARROW = 10.0, 60.0, 50
# A value within this of the optimum, relative to itself, may be called optimal.
OPTIMAL_GAP, FLOOR = 1e-8, 1e-12


def draw_plan(seed: int) -> SimpleNamespace:
    """Return what is drawn before any number of the table, so that cases can be chosen by it."""
    rng = np.random.default_rng([seed, 0])

    def pick(*choices: Any, p: Any = None) -> Any:
        return choices[rng.choice(len(choices), p=p)]

    plan = SimpleNamespace(seed=seed)
    plan.road = pick(*ROADS, p=np.array([5, 1, 2, 3, 2, 2, 2, 1, 2]) / 20)
    plan.spectrum, plan.criterion = pick(*SPECTRA), pick(*CRITERIA)
    plan.weights = pick(*WEIGHTS, p=[0.4, 0.3, 0.1, 0.2])
    plan.center, plan.shrinkage = pick("global", "group"), pick(None, None, None, 0.3, 1.0, "auto")
    plan.max_harm = pick(None, None, None, 0.0, 0.02, 1.0)
    plan.labels = pick("all", "some", "marginal", p=[0.84, 0.08, 0.08])
    plan.wrong = pick("right", *WRONG, p=[0.97, *[0.005] * 6])
    if plan.road == "solve":
        plan.weights, plan.wrong, plan.labels = "none", "right", "all"
    if plan.road == "solve":
        plan.center, plan.max_harm = "group", None
    if plan.road == "solve" or plan.labels == "marginal":
        plan.shrinkage = None
    if plan.shrinkage == "auto" and plan.road in ("chunks", "moments", "path", "operator"):
        plan.shrinkage = 0.5
    if plan.road == "nested":
        plan.max_harm = None
    plan.repeat = rng.random() < 0.05
    return plan


def draw_case(plan: SimpleNamespace) -> SimpleNamespace:
    """Return the plan with its table; `codes` has a column for every column of labels."""
    rng = np.random.default_rng([plan.seed, 1])
    n = int(rng.integers(1, 9) if rng.random() < 0.9 else rng.integers(9, 25))
    k = int(
        rng.choice([1, 2, 3, 4, 5, 9, 30, 99], p=[0.05, 0.4, 0.25, 0.14, 0.1, 0.05, 0.007, 0.003])
    )
    m, large = k + int(rng.integers(2, 40)), rng.random()
    if (plan.road == "wide" and large < 0.3) or (plan.road == "sparse" and large < 0.1):
        n, m, k = (265 if plan.road == "wide" else 520), min(m, 26), min(k, 4)
    elif plan.road == "wide":
        n = m + int(rng.integers(1, 12))
    elif large < 0.015:
        n, m = int(rng.integers(81, 100)), int(rng.integers(20, 220))
    elif plan.spectrum == "tiny":
        m = int(rng.integers(k + 1, 900))
    codes = np.r_[np.arange(k), rng.integers(0, k, max(m - k, 0))]
    codes[k:] = k - 1 if plan.spectrum == "tiny" else codes[k:]
    X = draw_rows(rng, plan.spectrum, codes, n)
    if plan.road == "sparse" and plan.spectrum not in ("onehot", "equal"):
        X[rng.random(X.shape) > 0.1 + 0.5 * (n < 100)] = 0.0
    weight = draw_weights(rng, plan.weights, len(X), k)
    r: Any = int(rng.integers(1, min(n, 9) + 1))
    r = r - 1 if r == n > 1 and rng.random() < 0.8 else r
    if plan.road in ("tall", "moments") and rng.random() < 0.12:
        r = round(float(rng.uniform(0.2, 0.99)), 3)
    codes = codes[:, None]
    if plan.labels == "some":
        codes = np.where(
            (rng.random(codes.shape) < 0.15) & (np.arange(len(X)) >= k)[:, None], -1, codes
        )
    elif plan.labels == "marginal":
        codes = np.c_[codes, rng.integers(0, 2, len(X))]
    if plan.wrong in ("nan", "infinity", "square"):
        bad = {"nan": np.nan, "infinity": np.inf, "square": 1e200}[plan.wrong]
        row = int(rng.integers(len(X)))
        X[row, rng.integers(n)] = bad
        if weight is not None and weight[row] == 0:
            # A row without weight is no row, and nobody would see it.
            weight[row] = 1.0
    elif plan.wrong == "negative":
        weight = np.where(codes[:, 0] == codes[0, 0], -1.0, 1.0)
    elif plan.wrong == "one row":
        X, codes, weight = X[:1], codes[:1], None
    r = n + 1 if plan.wrong == "rank" else r
    table = {"X": X, "codes": codes, "weight": weight, "r": r}
    return SimpleNamespace(**vars(plan), **table)


def draw_rows(rng: Any, spectrum: str, codes: Any, n: int) -> Any:
    """Return the rows of one kind of spectrum."""
    m, k = len(codes), int(codes.max()) + 1
    X, sizes = rng.normal(size=(m, n)), np.exp(rng.normal(size=(k, n)))
    place = np.array([int(np.sum(codes[:i] == code)) for i, code in enumerate(codes)])
    signed = np.eye(n)[place // 2 % n] * np.where(place % 2, -1.0, 1.0)[:, None]
    if spectrum == "equal":
        X = signed * rng.choice([1.0, 1.0, 2.0, 3.0], size=k)[codes, None]
    elif spectrum == "clustered":
        levels = rng.choice([1.0, 2.0, 9.0], size=(k, n))
        levels *= 1 + 10.0 ** -rng.uniform(3, 16, size=(k, n)) * rng.normal(size=(k, n))
        X = signed * np.sqrt(np.abs(levels))[codes]
        if rng.random() < 0.5 and n < 100:
            X = X @ np.linalg.qr(rng.normal(size=(n, n)))[0]
    elif spectrum == "onehot":
        chances = rng.dirichlet(np.full(n, 0.5 if rng.random() < 0.5 else 5.0), size=k)
        X = np.eye(n)[[rng.choice(n, p=chances[code]) for code in codes]]
        X *= rng.choice([-1.0, 1.0], size=(m, 1)) if rng.random() < 0.3 else 1.0
    elif spectrum == "integer":
        X = rng.integers(-2, 3, size=(m, n)).astype(float)
    elif spectrum == "duplicated":
        X = X[rng.integers(0, max(m // 4, 1), m)]
        X = X[place % m] if rng.random() < 0.5 else X[:, rng.integers(0, n, n)]
    elif spectrum == "far":
        X = X * sizes[codes]
        far = 10.0 ** rng.uniform(3, 6) * rng.normal(size=n)
        X += far * (np.arange(n) == 0 if rng.random() < 0.5 else 1.0)
    elif spectrum == "decades":
        X *= 10.0 ** rng.uniform(-8, 8, size=k)[codes, None] if rng.random() < 0.5 else 1.0
        X *= 10.0 ** rng.uniform(-4, 4, size=n) if rng.random() < 0.5 else sizes[codes]
    elif spectrum == "lines":
        X = X[:, :1] * rng.normal(size=(k, n))[codes] * rng.choice([1.0, 5.0], size=k)[codes, None]
    elif spectrum == "constant":
        X[:, rng.random(n) < 0.4] = rng.normal()
        X[codes == rng.integers(k)] = rng.normal(size=n)
    else:
        X = X * sizes[codes] + rng.choice([0.0, 1.0, 9.0]) * rng.normal(size=(k, n))[codes]
    return X * 10.0 ** rng.uniform(-40, 40) if spectrum == "units" else X


def draw_weights(rng: Any, kind: str, m: int, k: int) -> Any:
    """Return sample weights of one kind; the first k rows, at least two, have some."""
    if kind == "none":
        return None
    if kind == "counts":
        return np.maximum(rng.integers(0, 4, m).astype(float), np.arange(m) < max(k, 2)) * 1.0
    widths = {"shares": 0, "decades": 6}
    return 10.0 ** rng.uniform(-widths[kind], widths[kind], m) * rng.uniform(0.1, 1, m)


class Answer(NamedTuple):
    """One stated certificate, and the basis and the groups' values where they are stated too."""

    r: int
    certificate: Any
    basis: Any = None
    values: Any = None
    weights: Any = None


def own_covariances(case: SimpleNamespace) -> Any:
    """Return what a person who has covariances would pass."""
    members = [case.codes[:, 0] == code for code in range(int(case.codes.max()) + 1)]
    return truth_of_rows(case, members, "group")[0].matrices.astype(float)


def labels_of(codes: Any) -> Any:
    """Return labels as a person writes them: numbers, None where there is none, or two columns."""
    return codes if codes.shape[1] > 1 else [None if code < 0 else code for code in codes[:, 0]]


def fitted(case: SimpleNamespace) -> Any:
    """Fit a case by its road and return a model, a Solution or a ComponentPath."""
    X, w, labels, road = case.X, case.weight, labels_of(case.codes), case.road
    options = {"criterion": case.criterion}
    if road == "solve":
        return fairpca.solve(own_covariances(case), case.r, **options)
    group_by = "marginal" if case.codes.shape[1] > 1 else "intersection"
    rules = {"unlabelled": "ignore", "group_by": group_by}
    target = fairpca.component_path if road == "path" else fairpca.FairPCA.__init__
    for name in ("center", "shrinkage", "max_harm"):
        if name in inspect.signature(target).parameters:
            options[name] = getattr(case, name)
    if road in ("path", "moments"):
        moments = fairpca.GroupMoments.from_array(X, labels, sample_weight=w, **rules)
    if road == "path":
        return fairpca.component_path(moments, case.r, group_by=group_by, **options)
    model = fairpca.FairPCA(case.r, nested=road == "nested", **rules, **options)
    if road == "moments":
        return model.fit_moments(moments)
    if road == "chunks":
        for part in chunks_of(case):
            weight = None if w is None else w[part]
            chosen = labels_of(case.codes[part])
            model.partial_fit(X[part], sensitive_features=chosen, sample_weight=weight)
        return model
    wrap = {"sparse": scipy.sparse.csr_array, "operator": aslinearoperator}.get(road, np.asarray)
    return model.fit(wrap(X), sensitive_features=labels, sample_weight=w)


def shrinkage_of(case: SimpleNamespace, found: Any, r: int) -> Any:
    """Return how far every group's matrix was shrunk, as the answer says; None if not at all."""
    if case.road == "path":
        return found.shrinkage[r - 1] if case.shrinkage is not None else None
    return getattr(found, "shrinkage_", None)


def chunks_of(case: SimpleNamespace) -> list[Any]:
    """Return the rows of every batch of `partial_fit`."""
    rng, m, w = np.random.default_rng([case.seed, 2]), len(case.X), case.weight
    cuts = np.sort(rng.integers(1, max(m, 2), min(m - 1, 4)))
    order = rng.permutation(m)
    # The first batch has two rows that count, and one of a group.
    labelled = np.flatnonzero(
        (case.codes[order] >= 0).all(axis=1) & (True if w is None else w[order] > 0)
    )
    front = labelled[:2]
    order = np.r_[order[front], np.delete(order, front)]
    parts = np.split(order, np.maximum(cuts, 2))
    return [part for part in parts if len(part)]


def members_of(case: SimpleNamespace, found: Any) -> list[Any]:
    """Return which rows belong to every group, in the order of the answer."""
    labels = found.groups if case.road == "path" else found.groups_
    if case.codes.shape[1] == 1:
        return [case.codes[:, 0] == label for label in labels]
    names = list(dict.fromkeys(name for name, _ in labels))
    return [case.codes[:, names.index(name)] == value for name, value in labels]


def answers(case: SimpleNamespace, found: Any) -> Iterator[Answer]:
    """Split what was returned into certificates, each with what belongs to it."""
    if case.road == "path":
        for j, proof in list(enumerate(found.certificates))[-3:]:
            yield Answer(j + 1, proof, weights=found.weights[j])
    elif case.road == "solve":
        basis = found.components.T
        yield Answer(case.r, found.certificate, basis, found.losses, found.weights)
    else:
        proof, basis = found.certificate_, found.components_.T
        r = found.n_components_
        yield Answer(r, proof, basis, found.group_values_, found.group_weights_)
        for j in range(max(r - 2, 1), r) if case.road == "nested" else ():
            value, bound = float(found.nested_values_[j - 1]), float(found.nested_bounds_[j - 1])
            one = replace(proof, value=value, lower_bound=bound, gap=np.inf)
            yield Answer(j, one, basis[:, :j])


def check_answer(
    case: SimpleNamespace, answer: Answer, search: Search
) -> Iterator[tuple[str, str]]:
    """Yield the broken promises of one certificate."""
    proof, basis = answer.certificate, answer.basis
    if not np.isfinite([proof.value, proof.resolution]).all() or np.isnan(proof.lower_bound):
        yield "not finite", str(proof)
        return
    fine = proof.resolution + FLOOR * EPS * search.scale + search.dust
    if basis is not None:
        off = np.abs(basis.T @ basis - np.eye(basis.shape[1])).max()
        if not off <= 1e-12:
            yield "not orthonormal", f"by {off:.1e}"
            return
        true = search.values(basis)
        if abs(true.max() - proof.value) > fine:
            yield "wrong value", f"off by {true.max() - proof.value:.3g}, {proof!r}"
        elif answer.values is not None and np.abs(true - answer.values).max() > fine:
            yield "wrong group value", f"off by {true - answer.values}, {proof!r}"
    if case.max_harm is not None:
        yield from check_harm(case, answer, search, fine)
        return
    best = search.best(np.random.default_rng([case.seed, 3]), answer.weights, basis)
    two = len(search.S) == 2
    if two:
        best = min(best, search.dual() + 4 * EPS * np.sqrt(search.S.shape[1]) * search.scale)
    if proof.lower_bound > best + fine:
        yield "invalid bound", f"reached {best!r}, {proof!r}"
    # Value and bound are each known to the resolution.
    allowed = OPTIMAL_GAP * max(abs(proof.value), FLOOR * search.scale) + 2 * fine
    if proof.optimal and best < proof.value - allowed:
        yield "false optimal", f"reached {best!r}, {proof!r}"
    # Nested components, and a share that every group has to keep, may have their price.
    free = two and case.road != "nested"
    free = free and not isinstance(case.r, float)
    # Below that, gaps are measured against a floor, and rounding alone can be such a gap.
    free = free and abs(proof.value) > FLOOR * search.scale
    # Both are known to the resolution, and so are the slopes by which the weights are found.
    free = free and proof.value - proof.lower_bound > 4 * fine
    if free and not proof.optimal and proof.resolution < 1e-9 * search.scale:
        yield "two groups open", f"optimum {best!r}, {proof!r}"


def check_harm(
    case: SimpleNamespace, answer: Answer, search: Search, fine: float
) -> Iterator[tuple[str, str]]:
    """Yield the broken promises of a fit that harms nobody by more than a share of its variance.

    PCA is within the limits whatever they are, and so are mixtures of it with the answer.
    """
    X, w = case.X, np.ones(len(case.X)) if case.weight is None else case.weight
    centred = (X - w @ X / w.sum()) * np.sqrt(w / w.sum())[:, None]
    values, vectors = np.linalg.eigh(centred.T @ centred)
    n, r = len(values), answer.r
    if r < n and values[n - r] - values[n - r - 1] <= 1e-9 * values[-1]:
        # PCA is any of several projections, and the limits are those of another one.
        return
    pca, proof = vectors[:, n - r :], answer.certificate
    fine = max(fine, 4e-10 * search.scale)
    limits = search.values(pca) + case.max_harm * search.traces()
    candidates = [pca]
    if answer.basis is not None:
        if np.any(search.values(answer.basis) > limits + fine):
            yield "harmed", f"{search.values(answer.basis) - limits}, {proof!r}"
        candidates.append(answer.basis)
        for share in (0.25, 0.5, 0.75):
            mixed = share * pca @ pca.T + (1 - share) * answer.basis @ answer.basis.T
            candidates.append(np.linalg.eigh(mixed)[1][:, n - r :])
    best = min(
        float(search.values(one).max())
        for one in candidates
        if np.all(search.values(one) <= limits + fine)
    )
    if proof.lower_bound > best + 2 * fine:
        yield "invalid bound", f"reached {best!r}, {proof!r}"
    if len(search.S) == 2 and proof.gap > 1e-8 and proof.value - proof.lower_bound > 4 * fine:
        yield "two groups open", f"{proof!r}"


def check_model(
    case: SimpleNamespace, model: Any, truth: Truth, shown: Truth
) -> Iterator[tuple[str, str]]:
    """Yield the broken promises of a model's attributes; errors are measured with `shown`."""
    for name, value in vars(model).items():
        number = isinstance(value, np.ndarray | float) and np.asarray(value).dtype.kind == "f"
        if number and not np.all(np.isfinite(value)):
            yield "not finite", f"{name} = {value}"
    proof, basis = model.certificate_, polished(model.components_.T)
    r = model.n_components_
    kept, traces = truth.kept(basis), truth.traces.astype(float)
    unit = np.where(traces > 0, traces, 1) if case.criterion in ("relative", "share") else 1.0
    rounding = 16 * EPS * np.sqrt(case.X.shape[1]) * shown.traces.astype(float)
    losses = np.maximum((truth.tops(r) - kept).astype(float), 0.0)
    errors = np.maximum((shown.traces - shown.kept(basis)).astype(float), 0)
    # The distance between two means has their rounding: behind products, and where an error is
    # put together from a part about the group's mean and from that distance. The resolution holds
    # it elsewhere, but is that of the matrices that were solved, and these may be shrunk ones.
    far = 4 * np.sqrt(shown.traces * shown.dust).astype(float)
    of_rows = 0.0 if case.shrinkage is None else far
    apart = far if case.road in ("sparse", "operator") or case.center == "group" else of_rows
    for name, true, more in (("group_losses_", losses, of_rows), ("group_errors_", errors, apart)):
        off = getattr(model, name) - true
        if np.any(np.abs(off) > 2 * proof.resolution * unit + rounding + shown.dust + more):
            yield f"wrong {name}", f"off by {off}, true {true}, {proof!r}"
    if isinstance(case.r, float) and case.shrinkage is None and case.max_harm is None:
        if np.any(kept < case.r * truth.traces * (1 - 1e-9)):
            yield "share not kept", f"{kept / truth.traces} of {case.r}"
        fewer = Search(truth, "share", r - 1) if r > 1 else None
        best = fewer.best(np.random.default_rng(case.seed), None, None) if fewer else np.inf
        if best < 1 - case.r - 1e-9:
            yield "not the fewest", f"{r} kept; {r - 1} can leave {best:.6g} of {1 - case.r:.6g}"


def parts_are_dusty(case: SimpleNamespace, members: list[Any]) -> bool:
    """Whether a column counts as constant in some batches or cells though it is not in all rows.

    Then these have, by what is documented, less variance than the rows. Groups that overlap are
    made of cells.
    """
    seen = np.zeros(len(case.X), dtype=bool)
    if case.codes.shape[1] > 1:
        cells = [(case.codes == cell).all(axis=1) for cell in np.unique(case.codes, axis=0)]
        cells = [cell for cell in cells if weighs(case, cell)]
        if truth_of_rows(case, cells, "group")[0].dusty:
            return True
        members = cells
    for part in chunks_of(case) if case.road == "chunks" else ():
        alone = np.isin(np.arange(len(seen)), part)
        seen |= alone
        for rows in (alone, seen):
            inside = [member & rows for member in members if weighs(case, member & rows)]
            if inside and truth_of_rows(case, inside, "group")[0].dusty:
                return True
    return False


def weighs(case: SimpleNamespace, rows: Any) -> bool:
    """Whether some of the rows have a weight."""
    return bool(rows.any() and (case.weight is None or case.weight[rows].any()))


def too_long(signum: int, frame: Any) -> None:
    """Stop a fit."""
    raise TimeoutError("a fit took too long")


def timed_fit(case: SimpleNamespace) -> tuple[Any, list[Any]]:
    """Fit a case under the limit of processor time; return it and any unmeant warnings."""
    limit = SLOW if case.X.shape[1] <= NARROW else SLOW_WIDE
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = fitted(case)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return found, [w for w in caught if not issubclass(w.category, UserWarning)]


def check(case: SimpleNamespace) -> Iterator[tuple[str, str]]:
    """Yield every broken promise of one case, as its kind and what was seen."""
    fitted_model = case.road not in ("solve", "path")
    try:
        found, stray = timed_fit(case)
        again = timed_fit(case)[0] if case.repeat and fitted_model else found
    except ValueError as error:
        if not any(word in str(error).lower() for word in REMEDIES):
            yield "no remedy", f"{error}"
        elif case.wrong == "right":
            yield "refused", f"{error}"
        return
    except Exception as error:
        slow = isinstance(error, TimeoutError)
        yield "slow" if slow else f"exception {type(error).__name__}", f"{error}"
        return
    if case.wrong not in ("right", "square"):
        yield "accepted", f"wrong input: {case.wrong}"
        return
    if stray:
        yield "stray warning", f"{stray[0].category.__name__}: {stray[0].message}"
    if case.road == "solve":
        truth, members, weights = Truth(own_covariances(case).astype(LONG)), [], None
    else:
        members = members_of(case, found)
        truth, weights = truth_of_rows(case, members, case.center)
    shown = truth_of_rows(case, members, "global")[0] if fitted_model else truth
    if case.wrong == "square" and max(truth.traces.max(), shown.traces.max()) > 1e300:
        # It is right where its weight makes little enough of it.
        yield "accepted", "wrong input: square"
        return
    if truth.dusty or shown.dusty or parts_are_dusty(case, members):
        return
    for answer in answers(case, found):
        amount = shrinkage_of(case, found, answer.r)
        asked = truth if amount is None else truth.shrunk(amount, weights)
        search = Search(asked, case.criterion, answer.r)
        far_apart = amount is not None and asked.traces.max() > 1e12 * asked.traces.min() > 0
        if not far_apart:
            # Of matrices that are mixed, no more of the smallest is promised.
            yield from check_answer(case, answer, search)
    if fitted_model:
        yield from check_model(case, found, truth, shown)
        same = again.components_.tobytes() == found.components_.tobytes()
        if not same or again.certificate_ != found.certificate_:
            yield "not repeatable", f"{again.certificate_!r}, before {found.certificate_!r}"


def run_again(seed: int) -> int:
    """Run one case and print what was seen; return one if a promise was broken."""
    plan = draw_plan(seed)
    case = draw_case(plan)
    print(plan, f"X {case.X.shape}, r={case.r}", sep="\n")
    broken = list(check(case))
    print("\n".join(f"{kind}: {seen}" for kind, seen in broken) or "every promise kept")
    return int(bool(broken))


def main() -> int:
    """Run cases until the time or the number is used up; return one if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--cases", type=int, help="stop after this many, whatever the time")
    parser.add_argument("--seed", type=int, help="a fresh one by default; printed")
    parser.add_argument("--only", default="", help="words such as wide,far: cases with them all")
    parser.add_argument("--case", type=int, nargs="+", help="run these and say what was seen")
    options = parser.parse_args()
    signal.signal(signal.SIGPROF, too_long)
    if options.case is not None:
        return max(run_again(seed) for seed in options.case)
    seed = np.random.SeedSequence().entropy % 10**6 if options.seed is None else options.seed
    only = {word for word in options.only.split(",") if word}
    print(f"seed {seed}, {', '.join(sorted(only)) or 'every kind of case'}", flush=True)
    kinds: Counter[str] = Counter()
    start, done, drawn = time.perf_counter(), 0, 0
    limit = 60 * options.minutes if options.cases is None else np.inf
    while time.perf_counter() - start < limit and done != options.cases:
        plan = draw_plan(seed * 10**7 + drawn)
        drawn += 1
        if not only <= {str(word) for word in vars(plan).values()}:
            continue
        done += 1
        for kind, seen in check(draw_case(plan)):
            kinds[kind] += 1
            about = " ".join(str(word) for word in list(vars(plan).values())[2:-1])
            print(
                f"{kind}: python -m tools.fuzz --case {plan.seed}  # {about}: {seen}", flush=True
            )
    seconds = time.perf_counter() - start
    print(
        f"{done} cases in {seconds:.0f} s ({done / seconds:.1f} a second); broken: {dict(kinds)}"
    )
    return int(any(kind != "slow" for kind in kinds))


if __name__ == "__main__":
    sys.exit(main())
