"""Wrong input is named."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import fairpca
from fairpca import FairPCA, GroupMoments

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
G = np.arange(30) % 2


BAD = {
    "masked rows": (lambda: FairPCA(2).fit(masked(), sensitive_features=G), "masked value"),
    "masked moments": (lambda: GroupMoments.from_array(masked(), G), "masked value"),
    "complex moments": (lambda: GroupMoments.from_array(X * 1j, G), "dtype complex128; pass real"),
    "dates": (lambda: GroupMoments.from_array(X.astype("M8[s]"), G), "dtype datetime64"),
    "text": (lambda: GroupMoments.from_array(X.astype(str), G), "pass real numbers"),
    "tol as text": (lambda: fit(tol="small"), "tol='small' must be between 0 and 1"),
    "tol NaN": (lambda: fit(tol=float("nan")), "tol=nan must be between 0 and 1"),
    "max_iter as text": (lambda: fit(max_iter="many"), "max_iter='many' must be at least 1"),
    "max_iter as float": (lambda: fit(max_iter=2.5), "max_iter=2.5 must be at least 1"),
    "rows as moments": (lambda: FairPCA(2).fit_moments(X), "moments is a ndarray; pass Group"),
    "rows as moments of a method": (
        lambda: fairpca.methods.BalancedPCA(2).fit_moments(X),
        "moments is a ndarray; pass Group",
    ),
    "labels beside moments": (
        lambda: fairpca.audit(GroupMoments.from_array(X, G), G[::-1], 2),
        "counted in the moments already",
    ),
    "a name for labels": (lambda: fit(labels="sex"), "sensitive_features='sex': pass the labels"),
    "no labels": (
        lambda: fairpca.compare(X, None, [FairPCA(2)]),
        "sensitive_features=None: pass the labels",
    ),
    "weights as text": (
        lambda: FairPCA(2).fit(X, sensitive_features=G, sample_weight=["a"] * 30),
        "could not convert string to float",
    ),
    "one fold": (
        lambda: fairpca.cross_fit(GroupMoments.from_array(X, G), None, 2),
        r"1 fold\(s\) leave nothing to fit to",
    ),
    "no ranks": (lambda: fairpca.cross_fit(X, G, []), r"n_components=\[\] must be an integer"),
    "solve tol": (lambda: fairpca.solve([np.eye(3)] * 2, 1, tol=-1), "tol=-1 must be between"),
    "solve max_iter": (lambda: fairpca.solve([np.eye(3)] * 2, 1, max_iter=0), "max_iter=0 must"),
    "solve ragged": (lambda: fairpca.solve([np.eye(3), np.eye(2)], 1), "inhomogeneous shape"),
    "solve text": (lambda: fairpca.solve([[["a"]]], 1), "could not convert string to float"),
    "solve complex": (
        lambda: fairpca.solve([np.eye(2) * 1j] * 2, 1),
        "Complex data not supported",
    ),
    "cross_fit rank": (
        lambda: fairpca.cross_fit(X, G, None),
        "n_components=None must be an integer",
    ),
    "compare class": (lambda: fairpca.compare(X, G, {"a": FairPCA}), "estimators: 'a' is <class"),
    "negative seed": (lambda: fit(random_state=-1), "random_state=-1 must be at least 0"),
    "huge wide rows": (lambda: fit(np.tile(X[:10], 80) * 1e200, G[:10]), "too large to square"),
    "huge sparse rows": (lambda: fit(sparse() * 1e200, np.arange(60) % 2), "too large to square"),
}


def fit(rows=X, labels=G, **params):
    return FairPCA(2, **params).fit(rows, sensitive_features=labels)


def masked():
    return np.ma.masked_greater(X, 1)


def sparse():
    return scipy.sparse.random(60, 600, density=0.05, format="csr", random_state=0)


@pytest.mark.parametrize("case", BAD)
def test_wrong_input_is_named(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()


def table(*, text=None):
    """Return a frame of numbers, and of text or dates in two columns where `text` names it."""
    frame = pd.DataFrame(X, columns=list("abcd"))
    if text is None:
        return frame
    odd = {
        "text": "north",
        "category": pd.Categorical(["x"] * 30),
        "date": pd.Timestamp("2026-01-01"),
    }
    return frame.assign(city=odd[text], b=odd[text])


@pytest.mark.parametrize("library", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize("text", ["text", "category", "date"])
def test_columns_that_hold_no_numbers_are_named(library, text):
    rows, wrong = library(table()), library(table(text=text))
    model = FairPCA(2).fit(rows, sensitive_features=G)
    for call in (
        lambda: fit(wrong),
        lambda: model.transform(wrong),
        lambda: model.score(wrong),
        lambda: GroupMoments.from_array(wrong, G),
        lambda: fairpca.cross_fit(wrong, G, 2),
        lambda: fairpca.audit(wrong, G, 2),
        lambda: fairpca.metrics.group_errors(model, wrong, sensitive_features=G),
        lambda: fairpca.methods.BalancedPCA(2).fit(wrong, sensitive_features=G),
    ):
        with pytest.raises(ValueError, match=r"no numbers in the column\(s\) 'b', 'city'; encode"):
            call()


def test_columns_of_objects_that_are_numbers_are_read():
    rows = table()
    odd = rows.assign(a=rows["a"].astype(object), b=rows["b"].map(repr), c=rows["c"] > 0)
    plain = rows.assign(c=(rows["c"] > 0).astype(float))
    np.testing.assert_array_equal(fit(odd).components_, fit(plain).components_)


def test_columns_of_one_name_are_named():
    """The error was another library's, and said neither which table nor what to do."""
    twice = pd.DataFrame(np.eye(4), columns=["age", "age", "pay", "sex"])
    calls = (
        lambda: FairPCA(1).fit(twice, sensitive_features=[0, 1, 0, 1]),
        lambda: fairpca.audit(twice, [0, 1, 0, 1], 1),
        lambda: fairpca.GroupMoments.from_array(twice, [0, 1, 0, 1]),
        lambda: FairPCA(1).fit(twice.to_numpy(), sensitive_features=twice),
    )
    for call, argument in zip(calls, ("X", "X", "X", "sensitive_features"), strict=True):
        with pytest.raises(ValueError, match=f"^{argument} has several columns of one name"):
            call()


def test_components_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="all of them finite"):
        fairpca.metrics.group_losses(np.full((2, 4), np.nan), X, sensitive_features=G)


def test_a_label_that_numpy_made_of_a_missing_one():
    with pytest.warns(UserWarning, match="label 'nan'"):
        GroupMoments.from_array(X, np.array(["a", np.nan] * 15))


@pytest.mark.parametrize("table", [np.asarray, pd.DataFrame])
def test_whole_numbers_past_float64_are_named(table):
    """Columns of nanoseconds were rounded without a word."""
    late = (np.random.default_rng(0).normal(size=(30, 4)) * 1e6).astype(np.int64)
    late[:, 2] += 1_700_000_000_000_000_000
    with pytest.warns(UserWarning, match=r"past 2\^53 in column\(s\) 2; they"):
        FairPCA(2).fit(table(late), sensitive_features=np.arange(30) % 2)
