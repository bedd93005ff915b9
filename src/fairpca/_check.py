"""Errors about arguments and about missing libraries: each names what is wrong and the remedy."""

from __future__ import annotations

import difflib
import importlib
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from numbers import Integral
from typing import Any, TypeGuard

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils import assert_all_finite, check_array

from fairpca._arrays import FloatArray, array_namespace, fetched, is_foreign, symmetric

# What lies between a user's line and a warning of ours: wrappers of methods and pipelines, and
# decorators.
_BETWEEN = ("fairpca", "sklearn", "joblib", "numpy", "contextlib")
# How much alike two names must be, from 0 to 1, for one to be a slip of the other: "ctiy" and
# "city" are 0.75 alike, "zero" and "error", which nobody means by it, 0.67.
_ALIKE = 0.7


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
    """Return " Did you mean 'x'?" for the known name that is spelled almost alike, or ""."""
    spelled = {str(entry).lower(): str(entry) for entry in known}
    near = difflib.get_close_matches(name.lower(), spelled, 1, _ALIKE)
    return f" Did you mean {spelled[near[0]]!r}?" if near else ""


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
    matrices = check_array(
        covariances, dtype=np.float64, ensure_2d=False, allow_nd=True, input_name="covariances"
    )
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2]:
        raise ValueError(
            f"covariances has shape {matrices.shape}; pass one square matrix per group, "
            "shape (n_groups, n_features, n_features)."
        )
    asymmetry = np.abs(matrices - np.swapaxes(matrices, 1, 2)).max()
    if asymmetry > 1e-8 * np.abs(matrices).max():
        raise ValueError(
            f"covariances is not symmetric (largest difference {asymmetry:.3g}); "
            "pass (S + S.T) / 2 if that is what you mean."
        )
    return symmetric(matrices)


def is_share(n_components: Any) -> TypeGuard[float]:
    """Whether a number of components is a share of variance, of Python or of NumPy."""
    return isinstance(n_components, float | np.floating)


def check_rank(n_components: Any, n_features: int) -> None:
    """Raise ValueError unless 1 <= n_components <= n_features and it is an integer."""
    if not isinstance(n_components, int | np.integer):
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
    """Return arrays of other libraries as NumPy arrays; refuse what would be read wrongly.

    That are masked values, dates, and columns of a frame that hold no numbers. From another device
    rows are brought here only where scikit-learn was told to follow arrays: else nobody expects
    the copy.
    """
    if is_foreign(X):
        return np.asarray(X) if array_namespace(X) is None else fetched(X)
    if np.ma.isMA(X) and np.ma.getmaskarray(X).any():
        raise ValueError("X is a masked array with masked values; fill or drop them first.")
    if getattr(getattr(X, "dtype", None), "kind", "f") in "mM":
        # A date would be its distance from 1970 in some unit, larger than anything else in X.
        raise ValueError(
            f"X has dtype {X.dtype}; pass numbers, for example days since a date of your own."
        )
    frame = X if isinstance(X, np.ndarray) else framed(X, "X")
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(
            f"X is a {type(X).__name__}, a query whose rows have not been computed; pass "
            "X.collect() of Polars, or count rows of Spark by fairpca.distributed.spark.moments."
        )
    whole: dict[Any, Any] = {}
    if isinstance(X, np.ndarray) and X.dtype in (np.int64, np.uint64) and X.ndim == 2:
        whole = dict(enumerate(X.T))
    if isinstance(frame, nw.DataFrame):
        kinds = frame.schema.items()
        whole = {n: frame.get_column(n) for n, kind in kinds if kind in (nw.Int64, nw.UInt64)}
        others = [n for n, kind in kinds if not kind.is_numeric()]
        wrong = [n for n in others if _no_numbers(frame.get_column(n).drop_nulls().to_numpy())]
        if wrong:
            raise ValueError(
                f"X has no numbers in the column(s) {listed(wrong)}; encode text, for example "
                "with sklearn.preprocessing.OneHotEncoder, or leave such columns out. Labels of "
                "groups belong in sensitive_features alone."
            )
    long = [n for n, v in whole.items() if len(v) and max(-int(v.min()), int(v.max())) > 2**53]
    if long:
        warn(
            f"X has whole numbers past 2^53 in column(s) {listed(long)}; they are rounded to "
            "float64, and the proof is about the rounded rows. Subtract one number first."
        )
    return X


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


def _no_numbers(values: Any) -> bool:
    """Whether these are dates, or text and other objects that do not read as numbers."""
    try:
        values.astype(float)
    except (TypeError, ValueError):
        return True
    return values.dtype.kind in "mM"


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a frame; None where X is none, or has other names."""
    frame: Any = X if isinstance(X, np.ndarray) else framed(X, "X", eager_only=True)
    known = isinstance(frame, nw.DataFrame) and {*map(type, frame.columns)} == {str}
    return tuple(frame.columns) if known else None


def check_names(reducer: Any, X: Any) -> None:
    """Raise ValueError where X is a frame with other columns than those a reducer was fitted to.

    The same columns in another order are others: numbers of them would be wrong without a word.
    Nothing is said where either has no names, or where the number of columns differs.
    """
    known: Any = getattr(reducer, "feature_names_in_", None)
    names = None if known is None else column_names(X)
    if names is None or len(names) != len(known) or names == tuple(known):
        return
    j = next(j for j, name in enumerate(names) if name != known[j])
    raise ValueError(
        f"column {j + 1} of X is {names[j]!r}, and of the table that {type(reducer).__name__} was "
        f"fitted to is {known[j]!r}; pass those columns, in the same order."
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
        X = check_array(X, ensure_all_finite=False, ensure_min_samples=0, ensure_2d=False)
    if len(X.shape) != 2:
        raise ValueError(f"X has {len(X.shape)} dimension(s); pass rows and columns, (m, n).")
    if getattr(X.dtype, "kind", "f") not in "biufO":
        raise ValueError(f"X has dtype {X.dtype}; pass real numbers.")
    return X


def check_counted(*given: Any) -> None:
    """Raise ValueError where labels, weights or blocks come beside moments of rows."""
    if any(part is not None for part in given):
        raise ValueError(
            "sensitive_features, sample_weight and blocks are counted in the moments already; "
            "leave them out."
        )


def check_square(*sums: Any, rows: Any = None) -> None:
    """Raise ValueError unless sums of squares of X are numbers; of rows it says what is wrong."""
    if all(np.all(np.isfinite(part)) for part in sums):
        return
    if rows is not None:
        check_finite(rows)
    raise ValueError(
        "X contains NaN or infinity, or values too large to square; impute, drop or rescale them "
        "first."
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
    given = fetched(sample_weight) if is_foreign(sample_weight) else sample_weight
    how: Any = {"ensure_2d": False, "ensure_min_samples": 0, "input_name": "sample_weight"}
    weights: FloatArray = check_array(given, dtype=np.float64, **how)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape} but X has {n_rows} rows; pass one weight "
            "per row."
        )
    if (weights < 0).any():
        raise ValueError(
            f"sample_weight has a negative value, {weights.min():g}; weights count rows and must "
            "be zero or more."
        )
    if n_rows and not all_zero and not weights.any():
        raise ValueError("sample_weight is zero for every row; give some row a positive weight.")
    return weights


def check_groups(labels: Sequence[Any], weight: FloatArray, n_rows: int = 2) -> None:
    """Raise ValueError where there is no group, one without weight, or a single row."""
    if n_rows < 2:
        raise ValueError(
            f"X has {n_rows} sample(s), and a fit needs at least 2: a single row has no variance. "
            "Pass more rows."
        )
    empty = [label for label, w in zip(labels, weight, strict=True) if w <= 0]
    if empty:
        raise ValueError(
            f"sensitive_features: group(s) {listed(empty)} have no row with positive "
            "sample_weight; drop those rows or give them weight."
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
