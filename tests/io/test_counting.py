"""Columns become numbers, in memory and counted in batches: the same to rounding."""

import functools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from fairpca import FairPCA, GroupMoments
from fairpca.io import read_moments, stream
from fairpca.io.stream import count_prepared
from fairpca.io.tables import Columns, Roles, open_files, prepare
from fairpca.moments.groups import row_folds


def same(found, expected, rtol=1e-12):
    """Check that moments agree relative to the scatter of every column."""
    assert found.labels == expected.labels
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.weight, expected.weight, rtol=rtol)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=rtol, atol=rtol)
    largest = np.abs(expected.scatter).max()
    np.testing.assert_allclose(found.scatter, expected.scatter, atol=rtol * largest)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(stream, "_batch_rows", lambda roles: 17)


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
def test_files_are_counted_as_the_rows_in_memory(frame, tmp_path, kind, small_batches):
    path = tmp_path / f"t.{kind}"
    getattr(frame, f"to_{kind}")(path, **({"index": False} if kind == "csv" else {}))
    names = ["v0", "v1", "v2", "v3"]
    counted = read_moments(
        path, sensitive_features=["sex", "city"], columns="v*", sample_weight="paid"
    )
    live = frame[frame["paid"] > 0]
    expected = GroupMoments.from_array(live[names], live[["sex", "city"]])
    same(counted, expected)
    assert counted.feature_names == tuple(names)


def test_folds_are_counted_in_one_pass(frame, tmp_path, small_batches):
    frame.to_parquet(tmp_path / "t.parquet")
    options = {"sensitive_features": "sex", "columns": "v*"}
    whole = read_moments(tmp_path / "t.parquet", **options)
    folds = read_moments(tmp_path / "t.parquet", n_folds=4, **options)
    assert len(folds) == 4
    same(functools.reduce(GroupMoments.merge, folds), whole)
    by_city = read_moments(tmp_path / "t.parquet", n_folds=4, blocks="city", **options)
    # Rows of one city have one fold.
    assert sum(fold.count.sum() > 0 for fold in by_city) <= 2


def test_groups_without_end_and_gaps_are_refused(tmp_path):
    pd.DataFrame({"g": np.arange(3000) / 7, "x": 1.0}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="too many to be groups"):
        read_moments(tmp_path / "t.csv", sensitive_features="g")
    pd.DataFrame({"g": ["a", "b"] * 3, "x": [1, 2, None, 3, 4, 5]}).to_csv(
        tmp_path / "u.csv", index=False
    )
    with pytest.raises(ValueError, match=r"missing values in 'x' \(1\)"):
        read_moments(tmp_path / "u.csv", sensitive_features="g")
    found = read_moments(tmp_path / "u.csv", sensitive_features="g", missing="drop")
    assert found.count.tolist() == [2, 3]
    pd.DataFrame({"g": ["a", "b"], "x": [None, None]}).to_parquet(tmp_path / "v.parquet")
    with pytest.raises(ValueError, match=r"missing values in 'x' \(2\)"):
        read_moments(tmp_path / "v.parquet", sensitive_features="g")


def test_whole_numbers_that_are_rounded_are_named(tmp_path):
    pd.DataFrame({"g": ["a", "b"], "x": 2**60 + np.arange(2)}).to_parquet(tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match=r"past 2\^53 in column\(s\) 'x'"):
        read_moments(tmp_path / "t.parquet", sensitive_features="g")


def people(seed, m=90):
    """Return rows with gaps, categories with gaps, weights of which some are zero, and groups."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(m, 3)) * [5, 1, 2] + [100, 0, 3], columns=[*"xyz"])
    frame["kind"] = rng.choice(["a", "b", "c"], m)
    frame["g"] = np.where(np.arange(m) % 3, "many", "few")
    frame["w"] = rng.integers(0, 3, m).astype(float)
    frame.loc[rng.choice(m, 9, replace=False), "y"] = np.nan
    frame.loc[rng.choice(m, 9, replace=False), "kind"] = None
    # A batch of which nothing is left, and a level that comes late, after a gap in the first row.
    frame.loc[17:33, ["y", "w"]] = np.nan, 0.0
    frame.loc[[0, 80], "kind"] = None, "late"
    return frame


@settings(max_examples=12)
@given(
    seed=st.integers(0, 99),
    missing=st.sampled_from(["drop", "mean"]),
    standardize=st.booleans(),
    weighted=st.booleans(),
)
def test_streaming_prepares_as_in_memory(tmp_path_factory, seed, missing, standardize, weighted):
    path, frame = tmp_path_factory.mktemp("t") / "t.parquet", people(seed)
    if missing == "drop":
        frame.loc[40, "g"] = None
    frame.to_parquet(path)
    files = open_files(path)
    weight = "w" if weighted else None
    roles = Roles.choose(
        files.names, sensitive_features="g", sample_weight=weight, drop=[] if weighted else "w"
    )
    live = frame[(frame["w"] > 0) | (not weighted)].dropna(subset="g")
    weights = live["w"].to_numpy() if weighted else None
    made = prepare(
        live, roles.features, missing=missing, standardize=standardize, sample_weight=weights
    )
    expected = GroupMoments.from_array(
        made.X,
        live["g"].to_numpy()[made.kept],
        sample_weight=None if weights is None else weights[made.kept],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "_batch_rows", lambda roles: 17)
        how = {"missing": missing, "standardize": standardize, "n_folds": 3}
        folds, steps, _ = count_prepared(files, roles, **how)
    expected_folds = np.bincount(row_folds(0, len(made.X), 3)).tolist()
    assert [fold.count.sum() for fold in folds] == expected_folds
    moments = functools.reduce(GroupMoments.merge, folds)
    np.testing.assert_array_equal(moments.count, expected.count)
    np.testing.assert_allclose(moments.mean, expected.mean, rtol=1e-11, atol=1e-11)
    largest = np.abs(expected.scatter).max()
    np.testing.assert_allclose(moments.scatter, expected.scatter, atol=1e-12 * largest)
    rows = Columns.stored(Pipeline([*steps]))[0].take(live, missing)[0]
    np.testing.assert_allclose(Pipeline([*steps]).transform(rows), made.X, rtol=1e-11, atol=1e-11)


def test_columns_are_prepared_by_scikit_learn(frame):
    made = prepare(frame, ["id", "v0", "v1", "plan", "sex"], standardize=False)
    assert isinstance(dict(made.steps)["columns"], ColumnTransformer)
    np.testing.assert_array_equal(made.X[:, :2], frame[["v0", "v1"]])
    np.testing.assert_array_equal(made.X[:, 2:5], pd.get_dummies(frame["plan"]))
    assert "'id' (row number)" in made.notes[0]


def test_new_rows_are_prepared_as_those_of_the_fit(frame):
    made = prepare(frame, ["v0", "v1", "plan"], missing="mean")
    model = FairPCA(2).fit(made.X, sensitive_features=frame["sex"])
    pipeline = Pipeline([*made.steps, ("reducer", model)])
    columns, missing = Columns.stored(pipeline)
    assert missing == "mean"
    rows = columns.take(frame[["plan", "v1", "paid", "v0"]], missing)[0]
    np.testing.assert_allclose(pipeline.transform(rows), model.transform(made.X))
    # A category that the fit has not seen is none of those it has.
    odd = frame[:1].assign(plan="other", v0=np.nan)
    rows = columns.take(odd, missing)[0]
    new = pipeline[:-1].transform(rows)[0]
    assert new[0] == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match=r"lacks the column\(s\) 'v1'.*Did you mean"):
        columns.take(frame.rename(columns={"v1": "V1"}), missing)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1", "2", "3", "n/k"], "numbers and text, the first 'n/k' in data row 4"),
        (["01", "1", "02", "2"], "numbers and text, the first '01' in data row 1"),
        (["1,5", "2,5", "3,5", "4,5"], "decimal commas: say decimal=','"),
        ([1.0, np.inf, 2.0, 3.0], "infinite, or too large for a number, in data row 2"),
        ([1.0, np.nan, 2.5, 3.0], r"missing values in 'x' \(1\)"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"] * 2), "no column is left.*timestamp"),
        ([f"{i} of many" for i in range(60)], "no column is left.*60 distinct texts"),
        (["9" * 400, "1", "2", "3"], "too large for a number, in data row 1"),
    ],
)
def test_a_column_that_is_no_feature_is_named_with_its_cell(cells, said, tmp_path):
    frame = pd.DataFrame({"x": cells})
    if cells[0] == "9" * 400:
        frame.to_csv(tmp_path / "t.csv", index=False)
        frame = open_files(tmp_path / "t.csv").frame()
    with pytest.raises(ValueError, match=said):
        prepare(frame, ["x"])
