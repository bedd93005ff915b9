"""Which columns of a table become which numbers, fitted once and applied to new rows.

Text becomes one column per level, dates become days, numbers are standardised, missing values are
refused, dropped or filled. Everything fitted is plain data, so it travels inside a model file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fairpca._check import check_choice, did_you_mean, listed, require
from fairpca._arrays import AnyArray, FloatArray, constant_columns
from fairpca.io.columns import cell_among_numbers, column_numbers, compound, data_row, odd_cells

#: What to do about missing values in features.
MISSING = ("error", "drop", "mean", "median")
# Text with more distinct values than this is a name or a note, not a category: its indicators
# would outnumber the other features and hold a row or two each.
MAX_LEVELS = 50
#: A date, and perhaps a time, as ISO 8601 writes them. A year alone is a number.
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
# Nanoseconds end in the year 2262, and many a table writes 9999-12-31 for never.
_MICROSECONDS_A_DAY = 86_400 * 10**6


@dataclass(frozen=True)
class Feature:
    """One column of the table and how it becomes numbers.

    A category has one indicator for each of its `levels`; a number or a date, counted in days
    since 1970-01-01, has none. From each resulting column its mean is subtracted, and the
    difference is divided by its scale. `fill` replaces a missing number.
    """

    name: str
    levels: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    fill: float | None = None
    date: bool = False

    @property
    def outputs(self) -> list[str]:
        """Names of the resulting columns."""
        return [f"{self.name}={level}" for level in self.levels] or [self.name]


@dataclass(frozen=True)
class Prepared:
    """Numbers for a reducer, shape (m, n), which rows of the table they are, and what was done."""

    X: FloatArray
    kept: AnyArray
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Preparation:
    """Columns to numbers, as fitted on one table.

    The features are in the order of the resulting columns. `standardized` says whether means were
    subtracted and scales divided by, `missing` what was asked for about missing values.
    """

    features: tuple[Feature, ...]
    standardized: bool
    missing: str

    @property
    def feature_names(self) -> list[str]:
        """Names of the resulting columns."""
        return [name for feature in self.features for name in feature.outputs]

    def apply(self, frame: Any) -> Prepared:
        """Turn rows of a table into numbers; columns that were not fitted on are ignored.

        ValueError if a column is missing, holds text where numbers were, or has missing values
        that were to be an error.
        """
        lacking = [f.name for f in self.features if f.name not in frame.columns]
        if lacking:
            raise ValueError(
                f"the table lacks the column(s) {listed(lacking)} of the fit; it has "
                f"{listed(list(frame.columns), 12)}. Add or rename columns, or fit again without "
                f"those it lacks.{did_you_mean(lacking[0], frame.columns)}"
            )
        X, notes, filled = _numbers(frame, self.features)
        infinite = np.isinf(X).any(axis=0)
        if infinite.any():
            name = self.feature_names[int(infinite.argmax())]
            raise ValueError(f"column {name!r} has infinite values; replace them first.")
        if filled:
            notes.append(f"{filled:,} missing number(s) replaced by the {self.missing}")
        if self.standardized:
            # In place: a copy of a large table takes longer than the arithmetic.
            X -= [value for feature in self.features for value in feature.mean]
            X /= [value for feature in self.features for value in feature.scale]
        hole = np.asarray(np.isnan(X).any(axis=1))
        if not hole.any():
            return Prepared(X, ~hole, tuple(notes))
        if self.missing != "drop":
            # A missing category is no category, and no hole.
            numbers = [f.name for f in self.features if not f.levels]
            counts = {name: int(frame[name].isna().sum()) for name in numbers}
            holes = [f"{name!r} ({count})" for name, count in counts.items() if count]
            raise ValueError(
                f"missing values in {listed(holes, show=str)}: choose what to do with --missing "
                "drop, --missing mean or --missing median."
            )
        if hole.all():
            raise ValueError("every row has a missing value; fill them in with --missing mean.")
        notes.append(f"{int(hole.sum())} row(s) with missing values dropped")
        return Prepared(X[~hole], ~hole, tuple(notes))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; `from_dict` reads it back."""
        return {**vars(self), "features": [asdict(feature) for feature in self.features]}

    @classmethod
    def from_dict(cls, data: Any) -> Preparation:
        """Read what `to_dict` returned, with every field of the type it must have."""
        features = tuple(
            Feature(
                str(row["name"]),
                tuple(map(str, row["levels"])),
                tuple(map(float, row["mean"])),
                tuple(map(float, row["scale"])),
                None if row["fill"] is None else float(row["fill"]),
                # Models of version 0.1 know no dates.
                bool(row.get("date", False)),
            )
            for row in data["features"]
        )
        return cls(features, bool(data["standardized"]), str(data["missing"]))


def prepare(
    frame: Any,
    *,
    columns: Sequence[str],
    categorical: Iterable[str] = (),
    standardize: bool = True,
    missing: str = "error",
) -> tuple[Preparation, Prepared]:
    """Decide how columns become numbers and do it.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    columns : sequence of str
        The features. Those that cannot be numbers are left out with a note.
    categorical : iterable of str, default=()
        Columns of numbers that are codes: one indicator per level.
    standardize : bool, default=True
        Subtract the mean and divide by the standard deviation of each resulting column, with the
        number of rows as divisor, as scikit-learn's StandardScaler does. A constant column is only
        centred.
    missing : {"error", "drop", "mean", "median"}, default="error"
        Raise, drop the rows, or fill numbers in. A missing category is no category.

    Returns
    -------
    preparation, prepared : Preparation, Prepared
        What to apply to new rows, and the rows of `frame`.

    Raises
    ------
    ValueError
        If no column is left, values are missing or infinite, or a column is numbers but for a few
        cells.

    Examples
    --------
    >>> import pandas as pd
    >>> from fairpca.io.preparation import prepare
    >>> table = pd.DataFrame({"age": [20, 40, 30, 30], "plan": ["a", "b", "a", "a"]})
    >>> preparation, prepared = prepare(table, columns=["age", "plan"], standardize=False)
    >>> preparation.feature_names, prepared.X[1].tolist()
    (['age', 'plan=a', 'plan=b'], [40.0, 0.0, 1.0])
    """
    check_choice("missing", missing, MISSING)
    coded = set(categorical)
    gaps = frame[list(columns)].isna().sum()
    usable, left_out = _usable(frame, gaps, coded)
    # Who asks for codes knows that they are text.
    doubtful = [name for name, kind in usable.items() if kind == "text" and name not in coded]
    cells = {name: cell_among_numbers(frame[name]) for name in doubtful}
    if not usable:
        why = "; ".join(left_out) or "columns names none"
        raise ValueError(f"no column is left as a feature ({why}).")
    features = tuple(_feature(frame, name, kind, missing) for name, kind in usable.items())
    # Means and scales are 0 and 1 still, and these are the numbers before scaling.
    found = Preparation(features, False, missing).apply(frame)
    preparation, X = Preparation(features, standardize, missing), found.X
    with np.errstate(over="ignore", invalid="ignore"):
        mean = X.mean(axis=0)
        if standardize:
            # In place: a copy of a large table takes longer than the arithmetic.
            X -= mean
            scale = np.sqrt(np.einsum("ij,ij->j", X, X) / len(X))
        else:
            scale = X.std(axis=0)
    if not np.all(np.isfinite(scale)):
        name = preparation.feature_names[int((~np.isfinite(scale)).argmax())]
        raise ValueError(
            f"column {name!r} has values too large to square; replace or rescale them first."
        )
    same = constant_columns(mean, scale)
    constant = [name for name, flat in zip(preparation.feature_names, same, strict=True) if flat]
    if standardize:
        scale = np.where(same, 1.0, scale)
        X /= scale
        ends = np.cumsum([len(feature.outputs) for feature in features])[:-1]
        parts = zip(features, np.split(mean, ends), np.split(scale, ends), strict=True)
        scaled = [replace(f, mean=tuple(m.tolist()), scale=tuple(s.tolist())) for f, m, s in parts]
        preparation = replace(preparation, features=tuple(scaled))
    notes = [*_account(gaps, preparation, left_out, constant), *found.notes]
    notes += [
        f"{name!r} is text only because of cells such as {cell!r}: correct them, or say --decimal"
        for name, cell in cells.items()
        if cell is not None
    ]
    return preparation, replace(found, notes=tuple(notes))


def _usable(frame: Any, gaps: Any, coded: set[str]) -> tuple[dict[str, str], list[str]]:
    """Return the kinds of the columns that can be features, and why the others cannot.

    The columns are those of `gaps`, a series that says how many values each of them lacks. A kind
    is "number", "date" or "text", which codes count as.
    """
    usable, reasons, types = {}, [], frame.dtypes.to_dict()
    for name, count in gaps.items():
        kind = "text" if name in coded else "number"
        if count == len(frame):
            kind = "no values"
        # Looking at thousands of columns of numbers one by one would take seconds.
        elif name not in coded and types[name].kind not in "biuf":
            kind = _kind(frame[name])
            if kind == "text":
                _refuse_odd_cells(frame[name], name)
                distinct = frame[name].nunique()
                if distinct > MAX_LEVELS:
                    cell = cell_among_numbers(frame[name])
                    because = "" if cell is None else f", only because of cells such as {cell!r}"
                    kind = f"text{because}, {distinct:,} distinct values"
        if kind in ("number", "date", "text"):
            usable[name] = kind
        else:
            reasons.append(f"{name!r} ({kind})")
    return usable, reasons


def _refuse_odd_cells(column: Any, name: str) -> None:
    """Raise ValueError if a column of text is numbers but for a few cells."""
    # Which decimal sign the file has is no longer known here; numbers with the other one are odd.
    found = odd_cells(column, ".") or odd_cells(column, ",")
    if found is not None:
        n_odd, row, cell = found
        raise ValueError(
            f"column {name!r} is numbers except for {n_odd} of {int(column.notna().sum()):,} "
            f"cells, the first of them {cell!r} in {data_row(row)}; correct the cell(s), or "
            "say that the column is text (--categorical), or leave it out (--drop)."
        )


def _kind(column: Any) -> str:
    """Return whether a column with values holds dates, however stored, or text; else its type."""
    if column.dtype.kind == "M":
        return "date"
    if not str(column.dtype).startswith(("object", "str")):
        return "text" if str(column.dtype) == "category" else str(column.dtype)
    kind = "bytes" if isinstance(column.dropna().iloc[0], bytes) else compound(column)
    if kind:
        return kind
    texts = column.dropna().astype(str)
    dates = texts.str.fullmatch(ISO_DATE).all() and not np.isnan(_days(texts)).any()
    return "date" if dates else "text"


def _days(column: Any) -> FloatArray:
    """Return dates as days since 1970-01-01 in UTC, NaN where a cell is no date."""
    pandas = require("pandas", extra="data", purpose="reading dates")
    cells = column if column.dtype.kind == "M" else column.astype(str).where(column.notna())
    found = pandas.to_datetime(cells, format="ISO8601", utc=True, errors="coerce")
    days = found.to_numpy(dtype="datetime64[us]").astype(np.int64) / _MICROSECONDS_A_DAY
    return np.where(found.isna(), np.nan, days)


def _feature(frame: Any, name: str, kind: str, missing: str) -> Feature:
    """Return how a column of a kind that `_usable` found becomes numbers, before scaling."""
    if kind == "text":
        levels = tuple(sorted({_level(value) for value in frame[name].dropna().unique()}))
        return Feature(name, levels, (0.0,) * len(levels), (1.0,) * len(levels))
    fill = None
    if missing in ("mean", "median"):
        values = _days(frame[name]) if kind == "date" else column_numbers(frame[name])[0]
        # Infinite values are refused later, and have no mean.
        with np.errstate(invalid="ignore"):
            fill = float(np.nanmean(values) if missing == "mean" else np.nanmedian(values))
    return Feature(name, (), (0.0,), (1.0,), fill, kind == "date")


def _level(value: Any) -> str:
    """Return what a level is called: 7 and 7.0 alike, which a gap in the column makes of it."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _numbers(frame: Any, features: Sequence[Feature]) -> tuple[FloatArray, list[str], int]:
    """Return the columns of features as numbers before scaling.

    Beside them come notes on unknown levels, and how many missing numbers were filled in. NaN is
    what is missing and not filled. Columns that are numbers already are taken at once;
    one by one, thousands of them would take seconds.
    """
    kinds, notes, filled = frame.dtypes.to_dict(), [], 0
    numeric = {
        f.name for f in features if not (f.levels or f.date) and kinds[f.name].kind in "biuf"
    }
    ends = np.cumsum([len(feature.outputs) for feature in features])
    X = np.empty((len(frame), ends[-1]))
    places = [end - 1 for f, end in zip(features, ends, strict=True) if f.name in numeric]
    if places:
        chosen = frame[[f.name for f in features if f.name in numeric]]
        X[:, places] = chosen.to_numpy(dtype=float, na_value=np.nan)
    for feature, end in zip(features, ends, strict=True):
        block = X[:, end - len(feature.outputs) : end]
        if feature.name not in numeric:
            block[:], unknown = _encode(frame[feature.name], feature)
            if unknown:
                notes.append(
                    f"{feature.name}: level(s) {listed(unknown)} were not there when the model "
                    "was fitted and count as none of the known ones"
                )
        if feature.fill is not None:
            gaps = np.isnan(block)
            block[gaps] = feature.fill
            filled += int(np.count_nonzero(gaps))
    return X, notes, filled


def _encode(column: Any, feature: Feature) -> tuple[FloatArray, list[str]]:
    """Return the block of a column that holds no numbers yet, and the levels not known."""
    present = column.notna().to_numpy()
    if not feature.levels:
        numbers = column.dtype.kind in "biuf"
        values = column_numbers(column)[0]
        if feature.date:
            # 2022 and 20220209 are dates to pandas, and may be days since any other.
            values = np.full(len(column), np.nan) if numbers else _days(column)
        odd = np.flatnonzero(np.isnan(values) & present)
        if len(odd):
            what = "dates" if feature.date else "numbers"
            wrong = "numbers" if numbers else "text"
            cell = str(column.iloc[odd[0]]) if numbers else repr(column.iloc[odd[0]])
            raise ValueError(
                f"column {feature.name!r} holds {wrong} where {what} were fitted: {cell} in "
                f"{data_row(odd[0])}; write "
                f"{'dates such as 2022-02-09' if feature.date else 'a number'}."
            )
        return values[:, None], []
    texts = np.array([_level(value) for value in column.to_numpy(dtype=object)], dtype=object)
    block = (texts[:, None] == np.array(feature.levels, dtype=object)) & present[:, None]
    return block.astype(float), sorted(set(texts[present]) - set(feature.levels))


def _account(
    gaps: Any, preparation: Preparation, left_out: list[str], constant: list[str]
) -> list[str]:
    """Return what was done to the data, a sentence each; `gaps` are missing values by column."""
    features, outputs = preparation.features, preparation.feature_names
    text = f"{len(outputs)} feature{'s' * (len(outputs) != 1)}"
    categories = [feature for feature in features if feature.levels]
    if categories:
        levels = sum(len(feature.levels) for feature in categories)
        text += f" ({len(categories)} text column(s) became {levels} indicators)"
    notes = [text + (", standardised" if preparation.standardized else ", not standardised")]
    if left_out:
        notes.append(f"left out: {listed(left_out, show=str)}")
    dates = [feature.name for feature in features if feature.date]
    if dates:
        notes.append(f"{listed(dates)} became days since 1970-01-01")
    if constant:
        notes.append(f"constant column(s) {listed(constant)} kept; they contribute nothing")
    texts = [f.name for f in categories if gaps[f.name]]
    if texts:
        missing = sum(gaps[name] for name in texts)
        notes.append(f"{missing:,} missing text(s) in {listed(texts)} count as no category")
    return notes
