"""Which columns of a table become which numbers, fitted once and applied to new rows.

Text becomes one column per level, numbers are standardised, missing values are refused, dropped or
filled. Everything fitted is plain data, so it travels inside a model file.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fairpca._checks import check_choice
from fairpca._linalg import AnyArray, FloatArray

#: What to do about missing values in features.
MISSING = ("error", "drop", "mean", "median")

# Text with more distinct values than this is a name or a note, not a category.
MAX_LEVELS = 50


@dataclass(frozen=True)
class Feature:
    """One column of the table and how it becomes numbers.

    Attributes
    ----------
    name : str
    levels : tuple of str
        Levels of a category, one indicator each; empty for a number.
    mean, scale : tuple of float
        Subtracted from and divided into each resulting column.
    fill : float or None
        Replaces a missing number.
    """

    name: str
    levels: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    fill: float | None = None

    @property
    def outputs(self) -> list[str]:
        """Names of the resulting columns."""
        return [f"{self.name}={level}" for level in self.levels] or [self.name]


@dataclass(frozen=True)
class Prepared:
    """Numbers ready for a reducer.

    Attributes
    ----------
    X : ndarray of shape (m, n)
    kept : ndarray of bool
        Which rows of the table they come from.
    notes : tuple of str
        What was done to the data.
    """

    X: FloatArray
    kept: AnyArray
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Preparation:
    """Columns to numbers, as fitted on one table.

    Attributes
    ----------
    features : tuple of Feature
    standardized : bool
    missing : str
    """

    features: tuple[Feature, ...]
    standardized: bool
    missing: str

    @property
    def feature_names(self) -> list[str]:
        """Names of the resulting columns."""
        return [name for feature in self.features for name in feature.outputs]

    def apply(self, frame: Any) -> Prepared:
        """Turn rows of a table into numbers."""
        lacking = [f.name for f in self.features if f.name not in frame.columns]
        if lacking:
            raise ValueError(
                f"the table lacks the column(s) {listed(lacking)}, which the model was fitted on."
            )
        blocks, notes, hole = [], [], np.zeros(len(frame), dtype=bool)
        for feature in self.features:
            raw, unknown = _encode(frame[feature.name], feature)
            if unknown:
                notes.append(
                    f"{feature.name}: level(s) {listed(unknown)} were not there when the model "
                    "was fitted and count as none of the known ones"
                )
            block = (raw - np.array(feature.mean)) / np.array(feature.scale)
            hole |= np.isnan(block).any(axis=1)
            blocks.append(block)
        X = np.hstack(blocks)
        if not hole.any():
            return Prepared(X, ~hole, tuple(notes))
        if self.missing != "drop":
            raise ValueError(_missing_message(frame, [f.name for f in self.features]))
        notes.append(f"{int(hole.sum())} row(s) with missing values dropped")
        if hole.all():
            raise ValueError("every row has a missing value; fill them in (mean, median) instead.")
        return Prepared(X[~hole], ~hole, tuple(notes))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; `from_dict` reads it back."""
        return {
            "features": [asdict(feature) for feature in self.features],
            "standardized": self.standardized,
            "missing": self.missing,
        }

    @classmethod
    def from_dict(cls, data: Any) -> Preparation:
        """Read what `to_dict` returned."""
        features = tuple(
            Feature(
                name=str(row["name"]),
                levels=tuple(str(level) for level in row["levels"]),
                mean=tuple(float(value) for value in row["mean"]),
                scale=tuple(float(value) for value in row["scale"]),
                fill=None if row["fill"] is None else float(row["fill"]),
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
    columns : sequence of str
        The features.
    categorical : iterable of str
        Columns of numbers that are codes: one indicator per level.
    standardize : bool, default=True
        Subtract the mean and divide by the standard deviation (divisor m - 1) of each resulting
        column; a constant column is only centred.
    missing : {"error", "drop", "mean", "median"}, default="error"
        Raise, drop the rows, or fill numbers in (a missing category is no category).
    """
    check_choice("missing", missing, MISSING)
    coded = set(categorical)
    features, blocks = [], []
    holes = np.zeros(len(frame), dtype=bool)
    usable, left_out = _usable(frame, columns, coded)
    if not usable:
        raise ValueError(
            f"no column is left as a feature ({'; '.join(left_out) or 'none given'})."
        )
    for name in usable:
        feature = _feature(frame[name], name, name in coded, missing)
        raw, _ = _encode(frame[name], feature)
        holes |= np.isnan(raw).any(axis=1)
        features.append(feature)
        blocks.append(raw)
    if holes.any() and missing != "drop":
        raise ValueError(_missing_message(frame, usable))
    if holes.all():
        raise ValueError("every row has a missing value; fill them in (mean, median) instead.")
    final = [
        _scaled(feature, block[~holes], standardize)
        for feature, block in zip(features, blocks, strict=True)
    ]
    preparation = Preparation(tuple(final), standardize, missing)
    found = preparation.apply(frame)
    notes = _account(final, standardize, left_out) + list(found.notes)
    if missing in ("mean", "median"):
        filled = int(sum(frame[f.name].isna().sum() for f in final if f.fill is not None))
        notes += [f"{filled:,} missing number(s) replaced by the {missing}"] if filled else []
    return preparation, Prepared(found.X, found.kept, tuple(notes))


def choose_columns(
    names: Sequence[str], wanted: Sequence[str], dropped: Sequence[str], outside: Iterable[str]
) -> list[str]:
    """Return the feature columns: those wanted (default all), less those dropped or outside.

    A name may be a pattern such as ``BILL_*``; an exact name wins over a pattern.
    """
    chosen = [name for entry in wanted for name in matching(entry, names)] if wanted else names
    gone = {name for entry in dropped for name in matching(entry, names)}
    gone |= set(outside) - (set(wanted) & set(names))
    return [name for name in dict.fromkeys(chosen) if name not in gone]


def matching(entry: str, names: Sequence[str]) -> list[str]:
    """Return the column of that name, or those that match the pattern; ValueError if none."""
    if entry in names:
        return [entry]
    found = [name for name in names if fnmatch.fnmatchcase(name, entry)]
    if not found:
        raise ValueError(f"there is no column {entry!r}; the table has {listed(names, 12)}.")
    return found


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return names in quotes, the first few of many."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _usable(frame: Any, columns: Sequence[str], coded: set[str]) -> tuple[list[str], list[str]]:
    """Split columns into those that can be features and reasons for the others."""
    usable, reasons = [], []
    for name in columns:
        column = frame[name]
        text = _is_text(column) or name in coded
        if text:
            n_levels = column.nunique()
            if n_levels > MAX_LEVELS and name not in coded:
                reasons.append(f"{name!r} (text, {n_levels:,} distinct values)")
                continue
        elif column.dtype.kind not in "biuf" and not _is_nullable_number(column):
            reasons.append(f"{name!r} ({column.dtype})")
            continue
        if column.isna().all():
            reasons.append(f"{name!r} (no values)")
            continue
        usable.append(name)
    return usable, reasons


def _is_text(column: Any) -> bool:
    return str(column.dtype) in ("object", "str", "string", "category") or str(
        column.dtype
    ).startswith("string")


def _is_nullable_number(column: Any) -> bool:
    return str(column.dtype).lower().startswith(("int", "uint", "float", "bool"))


def _numbers(column: Any) -> FloatArray:
    return np.asarray(column.to_numpy(dtype=float, na_value=np.nan))


def _feature(column: Any, name: str, coded: bool, missing: str) -> Feature:
    """Return the feature before scaling."""
    if coded or _is_text(column):
        levels = tuple(sorted({str(value) for value in column.dropna().unique()}))
        return Feature(name, levels, (0.0,) * len(levels), (1.0,) * len(levels))
    values = _numbers(column)
    if np.isinf(values).any():
        raise ValueError(f"column {name!r} has infinite values; replace them first.")
    fill = None
    if missing in ("mean", "median"):
        fill = float(np.nanmean(values) if missing == "mean" else np.nanmedian(values))
    return Feature(name, (), (0.0,), (1.0,), fill)


def _encode(column: Any, feature: Feature) -> tuple[FloatArray, list[str]]:
    """Return the unscaled block of a column, NaN where missing, and levels not known."""
    if not feature.levels:
        try:
            values = _numbers(column)
        except (TypeError, ValueError):
            raise ValueError(
                f"column {feature.name!r} holds text where numbers were fitted."
            ) from None
        if feature.fill is not None:
            values = np.where(np.isnan(values), feature.fill, values)
        return values[:, None], []
    present = column.notna().to_numpy()
    texts = np.array([str(value) for value in column.to_numpy(dtype=object)], dtype=object)
    block = np.zeros((len(texts), len(feature.levels)))
    for j, level in enumerate(feature.levels):
        block[:, j] = (texts == level) & present
    unknown = sorted(set(texts[present]) - set(feature.levels))
    return block, unknown


def _scaled(feature: Feature, block: FloatArray, standardize: bool) -> Feature:
    if not standardize:
        return feature
    mean = block.mean(axis=0)
    scale = block.std(axis=0, ddof=1) if len(block) > 1 else np.zeros(block.shape[1])
    # Rounding leaves a constant column a tiny spread; dividing by it would blow noise up.
    constant = scale <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    scale = np.where(constant, 1.0, scale)
    return Feature(
        feature.name, feature.levels, tuple(mean.tolist()), tuple(scale.tolist()), feature.fill
    )


def _missing_message(frame: Any, names: Sequence[str]) -> str:
    counts = {name: int(frame[name].isna().sum()) for name in names}
    holes = [f"{name!r} ({count})" for name, count in counts.items() if count]
    shown = ", ".join(holes[:6]) + (f" and {len(holes) - 6} more" if len(holes) > 6 else "")
    return (
        f"missing values in {shown}: choose what to do with --missing drop, --missing mean or "
        "--missing median."
    )


def _account(features: list[Feature], standardize: bool, left_out: list[str]) -> list[str]:
    outputs = sum(len(feature.outputs) for feature in features)
    text = f"{outputs} feature{'s' * (outputs != 1)}"
    categories = [feature for feature in features if feature.levels]
    if categories:
        levels = sum(len(feature.levels) for feature in categories)
        text += f" ({len(categories)} text column(s) became {levels} indicators)"
    text += ", standardised" if standardize else ", not standardised"
    notes = [text]
    if left_out:
        shown = ", ".join(left_out[:6]) + (
            f" and {len(left_out) - 6} more" if len(left_out) > 6 else ""
        )
        notes.append(f"left out: {shown}")
    return notes
