"""Labels in, codes out."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpca import FairPCA, GroupMoments, Groups
from fairpca.moments.groups import warn_of_measurements


def rebuilt(groups):
    """Return what every row's label says."""
    return [groups.labels[code] if code >= 0 else None for code in groups.codes]


def _objects(*labels):
    """Return labels as a one-dimensional array, tuples included."""
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


@pytest.mark.parametrize(
    "labels,expected",
    [
        (np.array([3, 1, 3, 2]), (1, 2, 3)),
        (np.array([True, False, True]), (False, True)),
        (np.array([-(2**40), 2**40, 0]), (-(2**40), 0, 2**40)),
        (np.array([250, 3], dtype=np.uint8), (3, 250)),
        (np.array([-128, 127], dtype=np.int8), (-128, 127)),
        (np.array([1.5, 0.5, 1.5]), (0.5, 1.5)),
        (["b", "a", "b"], ("a", "b")),
        (["é", "<b>", "🙂"], ("<b>", "é", "🙂")),
        (["a", 1, "a"], (1, "a")),
        ([("x", 1), ("x", 2)], (("x", 1), ("x", 2))),
        # Types that do not compare: numbers, then text, then tuples.
        (_objects(("x", 1), "a", 2), (2, "a", ("x", 1))),
    ],
)
def test_labels_come_back_as_written(labels, expected):
    groups = Groups.from_labels(labels)
    assert groups.labels == expected
    assert all(not isinstance(label, np.generic) for label in groups.labels)
    assert rebuilt(groups) == [
        tuple(v) if isinstance(v, tuple) else v
        for v in (labels.tolist() if isinstance(labels, np.ndarray) else labels)
    ]


@given(st.lists(st.one_of(st.integers(-5, 5), st.text(max_size=3)), min_size=1, max_size=40))
def test_coding_loses_nothing(labels):
    groups = Groups.from_labels(labels)
    assert rebuilt(groups) == labels
    assert groups.counts.sum() == len(labels)
    assert groups.counts.min() >= 1


@given(
    dtype=st.sampled_from(["i1", "u1", "i4", "i8", "u8"]),
    low=st.integers(0, 3),
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=30),
    at=st.sampled_from(["lowest", "zero", "highest"]),
)
def test_columns_of_integers_are_crossed_as_they_are(dtype, low, rows, at):
    limits = np.iinfo(dtype)
    first = {"lowest": limits.min, "zero": 0, "highest": limits.max - 7}[at] + low
    table = np.array([(first + a, limits.max - b) for a, b in rows], dtype=dtype)
    groups = Groups.from_labels(table)
    assert rebuilt(groups) == [tuple(row) for row in table.tolist()]
    assert groups.counts.tolist() == np.bincount(groups.codes).tolist()
    assert list(groups.labels) == sorted(set(groups.labels))


def test_integers_are_not_the_callers_own():
    labels = np.array([0, 1, 2, 1])
    groups = Groups.from_labels(labels)
    labels[:] = 0
    assert groups.codes.tolist() == [0, 1, 2, 1]


CONTAINERS = {
    "pandas object": lambda labels: pd.Series(labels, dtype=object),
    "pandas string": lambda labels: pd.Series(labels, dtype="string"),
    "pandas category": lambda labels: pd.Series(labels, dtype="category"),
    "polars string": lambda labels: pl.Series(labels, dtype=pl.String),
    "polars category": lambda labels: pl.Series(labels, dtype=pl.Categorical),
    "arrow string": lambda labels: pa.chunked_array([pa.array(labels, pa.string())]),
    "arrow dictionary": lambda labels: pa.chunked_array(
        [pa.array(labels, pa.string())]
    ).dictionary_encode(),
}


# Before version 3 pandas itself takes "" and a NUL for one category.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=2)


@pytest.mark.parametrize("container", CONTAINERS)
@given(st.lists(st.one_of(st.none(), TEXTS), min_size=1, max_size=30))
def test_a_column_of_any_library_is_coded_as_a_list(container, labels):
    expected = Groups.from_labels(labels, unlabelled="ignore")
    found = Groups.from_labels(CONTAINERS[container](labels), unlabelled="ignore")
    assert found.labels == expected.labels
    assert found.codes.tolist() == expected.codes.tolist()


@given(st.lists(st.one_of(st.integers(-3, 3), st.booleans(), TEXTS), min_size=1))
def test_mixed_objects_in_pandas_are_coded_as_a_list(labels):
    expected = Groups.from_labels(labels)
    found = Groups.from_labels(pd.Series(labels, dtype=object))
    assert found.labels == expected.labels
    assert found.codes.tolist() == expected.codes.tolist()


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab")), min_size=1, max_size=40))
def test_crossing_two_columns(rows):
    groups = Groups.from_labels({"n": [r[0] for r in rows], "s": [r[1] for r in rows]})
    assert groups.names == ("n", "s")
    assert rebuilt(groups) == rows
    assert groups.labels == tuple(sorted(set(rows)))


MISSING = {
    "None": ["a", None, "b"],
    "NaN": ["a", float("nan"), "b"],
    "pandas NA": pd.Series(["a", pd.NA, "b"]),
    "pandas string": pd.Series(["a", None, "b"], dtype="string"),
    "nullable integer": pd.Series([1, pd.NA, 2], dtype="Int64"),
    "polars": pl.Series(["a", None, "b"]),
    "float": np.array([1.0, np.nan, 2.0]),
    "NaT": np.array(["2020-01-01", "NaT", "2020-01-02"], dtype="M8[D]"),
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_labels(kind):
    with pytest.raises(ValueError, match=r"1 missing label.*first in row 2, counting from 1"):
        Groups.from_labels(MISSING[kind])
    groups = Groups.from_labels(MISSING[kind], unlabelled="ignore")
    assert groups.codes.tolist() == [0, -1, 1]
    assert groups.n_groups == 2


def test_partly_missing_rows_stay_only_for_marginal_groups():
    table = {"sex": ["f", "m", None], "race": ["x", None, None]}
    crossed = Groups.from_labels(table, unlabelled="ignore")
    assert crossed.labels == (("f", "x"),)
    assert crossed.codes.tolist() == [0, -1, -1]
    marginal = Groups.from_labels(table, unlabelled="ignore", group_by="marginal")
    assert set(marginal.labels) == {("f", "x"), ("m", None)}
    assert marginal.codes[2] == -1


def test_one_column_frames_are_one_dimensional():
    assert Groups.from_labels(np.array([["a"], ["b"]])).labels == ("a", "b")
    assert Groups.from_labels(pd.DataFrame({"sex": ["a", "b"]})).names == ("sex",)


@pytest.mark.parametrize(
    "labels",
    [
        pl.Series(["a", "b"], dtype=pl.Enum(["a", "b", "c"])),
        pd.Series(["a", "b"], dtype=pd.CategoricalDtype(["c", "a", "b"])),
        pd.Categorical(["a", "b"], ["c", "a", "b"]),
    ],
    ids=["polars", "pandas", "values"],
)
def test_levels_without_rows_are_no_groups(labels):
    """Every selection of rows keeps all levels, so a cross-validation ended in an error."""
    groups = Groups.from_labels(labels)
    assert groups.labels == ("a", "b")
    assert groups.codes.tolist() == [0, 1]


@pytest.mark.parametrize(
    "labels,match",
    [({}, "no columns"), ({"a": [1, 2], "b": [1]}, "has 1 rows in column 'b' but X has 2")],
)
def test_bad_tables(labels, match):
    with pytest.raises(ValueError, match=match):
        Groups.from_labels(labels)


@pytest.mark.parametrize("dtype", ["U1", "U3", "S2", "U8"])
def test_text_arrays_are_sorted_whatever_comes_first(dtype):
    """A NumPy text array takes a road of its own, without sorting the rows."""
    labels = np.array(["b", "c", "a", "c", "b"], dtype=dtype)
    groups = Groups.from_labels(labels)
    assert groups.labels == tuple(np.unique(labels).tolist())
    assert groups.codes.tolist() == [1, 2, 0, 2, 1]
    assert groups.counts.tolist() == [1, 2, 2]


def test_table_of_text_of_the_wrong_length():
    with pytest.raises(ValueError, match=r"has 3 rows in column .* but X has 4"):
        Groups.from_labels(np.array([["a", "b"]] * 3), n_rows=4)


def coded_by_hand(rows):
    """Return sorted labels and codes of rows, -1 where any part of a row is None."""
    whole = [row for row in rows if None not in (row if isinstance(row, tuple) else (row,))]
    labels = sorted(set(whole))
    return labels, [labels.index(row) if row in labels else -1 for row in rows]


@pytest.mark.parametrize("n_columns", [1, 2, 3])
@pytest.mark.parametrize("shared", [True, False])
def test_objects_are_coded_by_what_they_say(n_columns, shared):
    """The same few objects in every row, copies of them, rare ones, missing ones."""
    rng = np.random.default_rng(7)
    for case in range(60):
        texts = ["".join(rng.choice(list("abc"), size=3)) for _ in range(int(rng.integers(1, 6)))]
        if case % 5 == 4:
            texts += [f"{i}" for i in range(20)]
        kinds = np.array(texts, dtype=object)
        table = kinds[rng.integers(len(kinds), size=(int(rng.integers(120, 500)), n_columns))]
        if not shared:
            for i in range(0, len(table), 1 + case % 3):
                table[i] = ["".join(list(text)) for text in table[i]]
        if case % 3 == 0:
            table[int(rng.integers(len(table))), -1] = "a rare one"
        if case % 7 == 0:
            table[int(rng.integers(len(table))), 0] = None
        if case % 4 == 0:
            table = np.asfortranarray(table)
        elif case % 4 == 1:
            table = np.repeat(table, 2, axis=0)[::2]
        given_as = table[:, 0] if n_columns == 1 else table
        found = Groups.from_labels(given_as, unlabelled="ignore")
        rows = table[:, 0].tolist() if n_columns == 1 else list(map(tuple, table.tolist()))
        labels, codes = coded_by_hand(rows)
        assert list(found.labels) == labels
        assert found.codes.tolist() == codes
        assert found.counts.tolist() == [codes.count(i) for i in range(len(labels))]


@pytest.mark.parametrize("n_columns", [1, 2])
def test_a_label_that_cannot_be_compared_is_named(n_columns):
    rows = np.empty((300, n_columns), dtype=object)
    rows[:] = "a"
    rows[200, 0] = ["b"]
    with pytest.raises(ValueError, match="unhashable type: 'list'"):
        Groups.from_labels(rows if n_columns > 1 else rows[:, 0])


class TestMeasurements:
    """A column of measurements as labels: groups of a row each serve nobody."""

    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4)) * [3, 2, 1, 1]
    income = pd.Series(rng.lognormal(10, 1, size=120), name="income")
    # What the warning advises, in its own words.
    remedy = r"pandas\.qcut\(values, 4\)"

    def test_fractions_names_and_very_many_codes(self):
        codes = np.arange(10_000)
        for labels in (codes % 51 + 0.5, codes % 1001, codes[:100] % 51):
            with pytest.raises(UserWarning, match="not like groups"):
                warn_of_measurements(Groups.from_labels(labels))
        for labels in (codes % 51 + 0.0, codes[:50] % 50 + 0.5, codes % 1000):
            warn_of_measurements(Groups.from_labels(labels))

    def test_a_warning_says_what_to_do(self):
        said = rf"60 distinct labels in column 'income' of 60 rows.*{self.remedy}"
        # In tests a warning is an error, and the rest of the call is spared.
        with pytest.raises(UserWarning, match=said):
            FairPCA(1).fit(self.X[:60, :2], sensitive_features=self.income[:60])

    def test_of_several_columns_the_one_is_named(self):
        labels = {"sex": ["f", "m"] * 30, "income": self.income[:60]}
        with pytest.raises(UserWarning, match="labels in column 'income' of 60"):
            FairPCA(1).fit(self.X[:60, :2], sensitive_features=labels)

    def test_the_advice_is_heeded_in_silence(self):
        quarters = pd.qcut(self.income, 4)
        assert len(FairPCA(2).fit(self.X, sensitive_features=quarters).groups_) == 4

    def test_a_piece_of_a_table_is_not_judged(self):
        sites = np.arange(60)
        model = FairPCA(1).partial_fit(self.X[:60, :2], sensitive_features=sites)
        model.partial_fit(self.X[60:, :2], sensitive_features=sites)
        assert GroupMoments.from_array(self.X[:60], sites).labels == tuple(range(60))


def test_columns_without_a_header_are_called_by_their_numbers():
    table = pd.DataFrame([["f", "old"], ["m", "old"], ["f", "young"]])
    assert Groups.from_labels(table).names == ("0", "1")
    expected = (("f", "old"), ("f", "young"), ("m", "old"))
    assert Groups.from_labels(table).labels == expected
    assert Groups.from_labels(table[0]).names == ("0",)
    assert Groups.from_labels(table[0].rename(None)).names == ("sensitive_feature",)
