"""Errors about arguments and about missing libraries: each names what is wrong and the remedy."""

from __future__ import annotations

import difflib
import importlib
import math
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, TypeGuard

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils import assert_all_finite, check_array

from fairpca._arrays import (
    TINY,
    FloatArray,
    array_namespace,
    fetched,
    is_foreign,
    is_sparse,
    symmetric,
)

# What lies between a user's line and a warning of ours: wrappers of methods and pipelines, and
# decorators.
_BETWEEN = ("fairpca", "sklearn", "joblib", "numpy", "contextlib")
# How much alike two names must be, from 0 to 1, for one to be a slip of the other: "ctiy" and
# "city" are 0.75 alike, "zero" and "error", which nobody means by it, 0.67.
_ALIKE = 0.7
# The largest whole number up to which float64 has all of them.
_WHOLE = 2**53


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user, however many calls of this package lie above it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_choice(argument: str, value: Any, allowed: Collection[Any]) -> None:
    """Raise ValueError naming the argument, its value and what is allowed."""
    if value not in allowed:
        raise ValueError(
            f"{argument}={value!r} is not known; choose one of {', '.join(map(repr, allowed))}."
        )


def check_at_least(argument: str, value: Any, least: int) -> None:
    """Raise ValueError unless the value of an argument is an integer, and not too small."""
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{argument}={value!r} must be at least {least}, and an integer.")


def did_you_mean(name: str, known: Iterable[Any]) -> str:
    """Return " Did you mean 'x'?" for known names that are spelled almost alike, or ""."""
    spelled = {str(entry).lower(): str(entry) for entry in known}
    near = difflib.get_close_matches(name.lower(), spelled, cutoff=_ALIKE)
    # Another case is no other name, whatever else is spelled alike.
    close = [name.lower()] if name.lower() in spelled else near
    return f" Did you mean {' or '.join(repr(spelled[word]) for word in close)}?" if close else ""


def listed(names: Sequence[Any], most: int = 6, show: Callable[[Any], str] = repr) -> str:
    """Return names for a message, in quotes by default: the first `most`, and how many more."""
    shown = ", ".join(show(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def distinct(names: Sequence[str]) -> list[str]:
    """Return names that differ: those that repeat are numbered, such as "age", "age (2)"."""
    found: dict[str, None] = {}
    for name in names:
        new, number = name, 2
        # A new name must not be that of another one either.
        while new in found or (new != name and new in names):
            new, number = f"{name} ({number})", number + 1
        found[new] = None
    return list(found)


def check_covariances(covariances: Any) -> FloatArray:
    """Return a (k, n, n) float64 array of symmetric matrices, or raise ValueError."""
    try:
        matrices = np.asarray(covariances)
        if np.iscomplexobj(matrices):
            raise ValueError("complex numbers")
        matrices = np.asarray(matrices, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"covariances is no array of real numbers ({error}); pass one square matrix per "
            "group, all of the same size."
        ) from None
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or matrices.shape[0] == 0:
        raise ValueError(
            f"covariances has shape {matrices.shape}; pass one square matrix per group, "
            "shape (n_groups, n_features, n_features)."
        )
    if not np.all(np.isfinite(matrices)):
        raise ValueError("covariances contains NaN or infinity; remove or impute them first.")
    largest = np.abs(matrices).max(initial=0.0)
    if largest > np.finfo(float).max / (4.0 * max(matrices.shape[1], 1)):
        raise ValueError(
            f"covariances reaches {largest:.3g}, too large to add up; divide all of them by one "
            "number, which changes no component."
        )
    asymmetry = np.abs(matrices - np.swapaxes(matrices, 1, 2)).max()
    if asymmetry > 1e-8 * max(largest, TINY):
        raise ValueError(
            f"covariances is not symmetric (largest difference {asymmetry:.3g}); "
            "pass (S + S.T) / 2 if that is what you mean."
        )
    # What is smaller than the smallest normal number has lost its digits, and no reciprocal.
    gone = np.abs(matrices).max(axis=(1, 2)) < TINY
    return symmetric(np.where(gone[:, None, None], 0.0, matrices))


def is_share(n_components: Any) -> TypeGuard[float]:
    """Whether a number of components is a share of variance, of Python or of NumPy."""
    return isinstance(n_components, float | np.floating)


def check_rank(n_components: Any, n_features: int) -> None:
    """Raise ValueError unless 1 <= n_components <= n_features and it is an integer."""
    if isinstance(n_components, bool) or not isinstance(n_components, int | np.integer):
        raise ValueError(
            f"n_components={n_components!r} must be an integer such as 5; FairPCA also takes a "
            "share of variance, a float such as 0.9."
        )
    if not 1 <= n_components <= n_features:
        raise ValueError(
            f"n_components={n_components} must be between 1 and the number of features, "
            f"{n_features}."
        )


def as_numpy(X: Any) -> Any:
    """Return arrays of other libraries as NumPy arrays; refuse hidden values, text and dates.

    From another device they are brought here only where scikit-learn was told to follow arrays:
    else nobody expects the copy.
    """
    if np.ma.isMA(X) and np.ma.getmaskarray(X).any():
        raise ValueError(
            "X is a masked array with masked values, which would be read as if they were there; "
            "fill or drop them first."
        )
    if isinstance(X, str | Path):
        raise ValueError(
            f"X={str(X)!r} is a name; read the file first, for example with pandas.read_csv, or "
            "count it with fairpca.io.read_moments and pass what that returns to fit_moments."
        )
    if not is_foreign(X):
        _check_columns(X)
        return X
    if array_namespace(X) is not None:
        return fetched(X)
    try:
        return np.asarray(X)
    except (TypeError, RuntimeError) as error:
        raise ValueError(
            f"X lives on the device {getattr(X, 'device', 'of its library')}; fit FairPCA there, "
            "within sklearn.config_context(array_api_dispatch=True), or pass a copy in the "
            "memory of the processor: X.cpu() of PyTorch, X.get() of CuPy."
        ) from error


def framed(values: Any, argument: str, **options: Any) -> Any:
    """Return a table of any library as one of narwhals, and everything else as it is.

    Columns of one name could not be told apart: a ValueError says so of the argument.
    """
    try:
        return nw.from_native(values, pass_through=True, **options)
    except nw.exceptions.DuplicateError:
        raise ValueError(
            f"{argument} has several columns of one name; rename them, or drop those that repeat "
            "others, so that every column has a name of its own."
        ) from None


def _check_columns(X: Any) -> None:
    """Raise ValueError for dates and for columns of a frame that hold no numbers.

    Text that reads as numbers is taken for them, as scikit-learn does. A date would be its
    distance from 1970 in some unit, larger than anything else in X.
    """
    if isinstance(X, np.ndarray):
        if X.dtype.kind in "mM":
            raise ValueError(
                f"X has dtype {X.dtype}; pass numbers, for example days since a date of your own."
            )
        if X.dtype.kind in "iu" and X.dtype.itemsize == 8:
            _warn_of_whole_numbers(X, range(X.shape[-1] if X.ndim else 0))
        return
    frame = X if isinstance(X, list | tuple) else framed(X, "X")
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(
            f"X is a {type(X).__name__}, a query whose rows have not been computed; pass "
            "X.collect() of Polars, or count rows of Spark by fairpca.distributed.spark.moments."
        )
    if not isinstance(frame, nw.DataFrame):
        return
    if not frame.columns:
        raise ValueError("X has no columns; pass at least one feature.")
    kinds = frame.schema.items()
    wrong = [
        name
        for name, dtype in kinds
        if not (dtype.is_numeric() or dtype == nw.Boolean) and _no_numbers(frame[name].to_numpy())
    ]
    if wrong:
        raise ValueError(
            f"X has no numbers in the column(s) {listed(wrong)}; encode text, for example with "
            "sklearn.preprocessing.OneHotEncoder, or leave such columns out. Labels of groups "
            "belong in sensitive_features alone."
        )
    whole = [name for name, dtype in kinds if dtype in (nw.Int64, nw.UInt64)]
    if whole and all(isinstance(name, str) for name in whole):
        _warn_of_whole_numbers(frame.select(whole).to_numpy(), whole)


def _warn_of_whole_numbers(columns: Any, names: Sequence[Any]) -> None:
    """Warn where whole numbers are too large for float64, which would round them."""
    if columns.ndim != 2 or not columns.size or columns.dtype.kind not in "iu":
        return
    large = (columns.max(axis=0) > _WHOLE) | (columns.min(axis=0) < -_WHOLE)
    if large.any():
        which = listed([names[j] for j in np.flatnonzero(large)])
        warn(
            f"X has whole numbers past 2**53 in column(s) {which}; they are rounded to float64. "
            "Identifiers are no features; subtract a constant from times."
        )


def _no_numbers(values: Any) -> bool:
    """Whether these are dates, or text and other objects that do not read as numbers."""
    if values.dtype.kind in "biufc":
        return False
    try:
        values.astype(float)
    except (TypeError, ValueError):
        return True
    return values.dtype.kind in "mM"


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a frame; None where X is none, or has other names."""
    frame = None if isinstance(X, np.ndarray) else framed(X, "X", eager_only=True)
    if not isinstance(frame, nw.DataFrame) or not all(isinstance(n, str) for n in frame.columns):
        return None
    return tuple(frame.columns)


def check_names(reducer: Any, X: Any) -> None:
    """Raise ValueError where X is a frame with other columns than those a reducer was fitted to.

    The same columns in another order are others: numbers of them would be wrong without a word.
    Nothing is said where either has no names, or where the number of columns differs.
    """
    known: Any = getattr(reducer, "feature_names_in_", None)
    names = None if known is None else column_names(X)
    if names is None or len(names) != len(known):
        return
    for j, (name, fitted) in enumerate(zip(names, known, strict=True), 1):
        if name != fitted:
            raise ValueError(
                f"column {j} of X is {name!r}, and of the table that {type(reducer).__name__} was "
                f"fitted to is {fitted!r}; pass those columns, in the same order."
            )


def check_table(X: Any) -> Any:
    """Return rows as something that slices like NumPy, or raise ValueError.

    Arrays of other libraries become NumPy arrays unless they are to be followed. Sparse rows,
    memory maps and whatever else has a shape, a dtype and slices (HDF5, Zarr) stay as they are
    and are read in blocks.
    """
    xp = array_namespace(X)
    if xp is not None:
        if len(X.shape) != 2 or not xp.isdtype(X.dtype, ("bool", "integral", "real floating")):
            raise ValueError(
                f"X has shape {tuple(X.shape)} and dtype {X.dtype}; pass rows and columns, "
                "(m, n), of real numbers."
            )
        return X
    X = as_numpy(X)
    if not all(hasattr(X, name) for name in ("dtype", "shape", "__getitem__")):
        given, X = X, np.asarray(X)
        if X.dtype == object:
            # Columns that know gaps become objects, and pandas' own NA no number.
            X = check_array(given, ensure_all_finite=False, ensure_min_samples=0, ensure_2d=False)
    if not is_sparse(X) and len(X.shape) != 2:
        raise ValueError(f"X has {len(X.shape)} dimension(s); pass rows and columns, (m, n).")
    # Dask writes NaN for a number of rows that it does not know.
    if math.isnan(X.shape[0]):
        raise ValueError(
            "X has an unknown number of rows; call X.compute_chunk_sizes() first, or count "
            "it with fairpca.distributed.dask.moments."
        )
    if getattr(X.dtype, "kind", "f") not in "biufO":
        raise ValueError(f"X has dtype {X.dtype}; pass real numbers.")
    return X


def check_counted(sensitive_features: Any, sample_weight: Any) -> None:
    """Raise ValueError where labels or weights come beside moments, which have their own."""
    if sensitive_features is not None or sample_weight is not None:
        raise ValueError(
            "sensitive_features and sample_weight are counted in the moments already; leave them "
            "out."
        )


def check_square(*sums: Any) -> None:
    """Raise ValueError unless sums of squares of X are numbers."""
    if not all(np.all(np.isfinite(part)) for part in sums):
        raise ValueError(
            "X contains NaN or infinity, or values too large to square; impute, drop or rescale "
            "them first."
        )


def check_finite(X: Any) -> None:
    """Raise ValueError, in the words of scikit-learn, where rows have NaN or infinity."""
    assert_all_finite(X, input_name="X")


def check_weights(sample_weight: Any, n_rows: int, *, all_zero: bool = False) -> FloatArray | None:
    """Return float64 weights, or raise ValueError naming what is wrong with them.

    All of them may be zero only in a part of the rows (`all_zero`).
    """
    if sample_weight is None:
        return None
    if np.ma.isMA(sample_weight) and np.ma.getmaskarray(sample_weight).any():
        raise ValueError(
            "sample_weight is a masked array with masked values; fill them, with 0 for rows that "
            "do not count."
        )
    try:
        found = fetched(sample_weight)
        if found.dtype.kind == "c":
            raise ValueError("complex numbers")
        weights = np.asarray(found, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"sample_weight is no array of real numbers ({error}); pass one number per row."
        ) from None
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape} but X has {n_rows} rows; pass one weight "
            "per row."
        )
    if not np.isfinite(weights.sum()):
        raise ValueError(
            "sample_weight contains NaN or infinity, or adds up to it; drop those rows, or divide "
            "all weights by one number, which changes no component."
        )
    if (weights < 0).any():
        raise ValueError(
            f"sample_weight has a negative value, {weights.min():g}; weights count rows and must "
            "be zero or more."
        )
    if n_rows and not all_zero and not weights.any():
        raise ValueError("sample_weight is zero for every row; give some row a positive weight.")
    return weights


def check_rows(n_rows: int, estimator: str) -> None:
    """Raise ValueError unless there are two rows."""
    if n_rows < 2:
        raise ValueError(
            f"X has {n_rows} sample(s) and {estimator} needs at least 2: a single row has no "
            "variance. Pass more rows."
        )


def check_groups(labels: Sequence[Any], weight: FloatArray) -> None:
    """Raise ValueError where there is no group, or one without weight."""
    empty = [label for label, w in zip(labels, weight, strict=True) if w <= 0]
    if empty:
        raise ValueError(
            f"sensitive_features: group(s) {', '.join(map(repr, empty))} have no row with "
            "positive sample_weight; drop those rows or give them weight."
        )
    if not labels:
        raise ValueError(
            "sensitive_features has no labelled row; label at least one row, or pass None for "
            "ordinary PCA."
        )


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional module, or say what needs it and which extra of fairpca brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        root = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != root:
            raise
        raise ImportError(
            f'{purpose} needs {root}, which is not installed: run pip install "fairpca[{extra}]", '
            f'or pip install ".[{extra}]" in the folder of the source',
            name=root,
        ) from None
