"""Which columns of a table are features, labels and weights, and what counts as a number.

There is one rule for tables in memory, for files read in pieces and for rows on a cluster. Columns
are named exactly or by a pattern such as ``BILL_*``; without names, every column that is neither a
label nor a weight is a feature.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fairpca._check import check_choice, did_you_mean, listed, require
from fairpca._arrays import AnyArray, FloatArray
from fairpca.moments.groups import Threshold, check_folds

# A column is taken for numbers with typing errors, and refused, if at most this share of its cells
# are no numbers (one cell always may be) and they are at most this many different texts. A larger
# share would refuse columns that are text, such as house numbers; a smaller one would let a column
# of measurements disappear among the texts because of one cell.
_ODD_SHARE, _ODD_TEXTS = 0.01, 20
# Columns with fewer cells are never refused: one text among so few says nothing about the others.
_ODD_FROM_CELLS = 20
#: From here on floats are rounded to whole numbers that are further apart than 1.
INEXACT = 2**53
#: Fewer rows than this are no evidence that a column numbers them.
FEW_ROWS = 3
# Names of columns that hold identifiers, such as "id", "customer_id", "userID" and "key". A name
# is a guess, and counts only where a column has many values.
_ID_NAME = re.compile(
    r"(?i:(^|[_\W])(id|uid|uuid|guid|key|nr|no|ssn)$|^id[_\W])|[a-z]I[dD]$"
    r"|(?i:^(user|client|customer|patient|person|subject|student|employee|member|record|case)id$)"
)
# Share of distinct values from which a column may be an identifier; rows may be repeated.
_NEARLY_ALL = 0.95
# Levels from which a column that is called an id is one, however often they repeat: with fewer it
# is a label, such as the id of a hospital.
_MANY_LEVELS = 20
# A column of any other name is an identifier where its numbers nearly all differ although they
# lie in a range of at most this many times the rows. Of 50 ages or amounts drawn from such a range
# about 11 repeat; that so few do as above happens once in a thousand such columns.
_ID_SPAN, _ID_ROWS = 2, 50


@dataclass(frozen=True)
class LabelColumn:
    """A column of labels, or a column of numbers that the threshold `cut` divides into two groups.

    `name` is what the labels are called in ``GroupMoments.names``, `column` where they come from.
    """

    name: str
    column: str
    cut: Threshold | None = None


@dataclass(frozen=True)
class Wanted:
    """The columns that are read from a table, and how labels become groups.

    Features are in the order of the moments; without label columns all rows are one group. Rows
    fall into `n_folds` folds by their position, into none with None. `group_by` and `unlabelled`
    are those of `Groups.from_labels`.
    """

    features: tuple[str, ...]
    labels: tuple[LabelColumn, ...] = ()
    weight: str | None = None
    group_by: str = "intersection"
    unlabelled: str = "error"
    n_folds: int | None = None

    def __post_init__(self) -> None:
        check_choice("group_by", self.group_by, ("intersection", "marginal"))
        check_choice("unlabelled", self.unlabelled, ("error", "ignore"))
        # As Python's integer: a checkpoint writes it as JSON, which knows no others.
        object.__setattr__(self, "n_folds", check_folds(self.n_folds))

    @property
    def plain_labels(self) -> list[str]:
        """Columns whose values are labels."""
        return [label.column for label in self.labels if label.cut is None]

    @property
    def numbers(self) -> set[str]:
        """Columns whose values must be numbers: features, weights and what thresholds cut."""
        weight = () if self.weight is None else (self.weight,)
        cuts = (label.column for label in self.labels if label.cut is not None)
        return {*self.features, *weight, *cuts}

    @property
    def columns(self) -> list[str]:
        """Every column that has to be read, once."""
        weight = () if self.weight is None else (self.weight,)
        labels = (label.column for label in self.labels)
        return list(dict.fromkeys((*self.features, *labels, *weight)))


#: `choose` with everything filled in but the names of the columns.
Choose = Callable[..., Wanted]


def _names(given: Any, argument: str) -> list[str]:
    """Return a list of column names; numbers count the columns of .npy files from 0."""
    single = isinstance(given, str | int | os.PathLike)
    entries = [given] if single else [] if given is None else list(given)
    names = [f"column{entry + 1}" if isinstance(entry, int) else entry for entry in entries]
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"{argument}={given!r}: name columns of the files.")
    return names


def matching(entry: str, names: Sequence[str], where: str = "the table") -> list[str]:
    """Return the column of that name, else those that match it as a pattern.

    ValueError, which calls the table `where`, if there is no such column.
    """
    # A column may be called x[0]: an exact name wins over a pattern.
    if entry in names:
        return [entry]
    found = [name for name in names if fnmatch.fnmatchcase(str(name), str(entry))]
    return found or [known_column(entry, names, where)]


def known_column(name: str, names: Sequence[str], where: str = "the table") -> str:
    """Return the column of that name; "2" is the second one where that has no name.

    ValueError, with the columns that are spelled alike, if the table that is called `where` has no
    such column.
    """
    if name in names:
        return name
    if str(name).isdigit() and f"column{name}" in names:
        return f"column{name}"
    known = f"it has {listed(names, 12)}{no_header(names)}.{did_you_mean(str(name), names)}"
    if re.search(rf"[/\\]{re.escape(str(name))}=", where):
        known += f" The names of folders are not read: write {name!r} into the files as a column."
    raise ValueError(f"{where} has no column {name!r}; {known}")


def no_header(names: Sequence[str]) -> str:
    """Return what to do where most names of columns are numbers with decimals, or "".

    Years and codes, which are names now and then, have none.
    """
    decimals = [name for name in names if re.fullmatch(r"-?\d*[.,]\d+(e[-+]?\d+)?", str(name))]
    if 2 * len(decimals) <= len(names):
        return ""
    return f" (names such as {decimals[0]!r}: is the first row data? Then say a header of 0 rows)"


def choose_columns(
    names: Sequence[str],
    wanted: Sequence[str],
    dropped: Sequence[str],
    outside: Iterable[str],
    where: str = "the table",
) -> list[str]:
    """Return the feature columns: those wanted (default all), less those dropped or outside.

    `wanted` and `dropped` are names or patterns among `names`. Columns `outside` have another
    role, such as labels; they are features only if `wanted` names them exactly. Errors call the
    table `where`.
    """
    chosen = [name for entry in wanted for name in matching(entry, names, where)]
    gone = {name for entry in dropped for name in matching(entry, names, where)}
    gone |= set(outside) - (set(wanted) & set(names))
    return [name for name in dict.fromkeys(chosen if wanted else names) if name not in gone]


def choose(
    names: Sequence[str],
    *,
    where: str,
    labels: Any = (),
    features: Any = (),
    drop: Any = (),
    weight: Any = None,
    **grouping: Any,
) -> Wanted:
    """Choose features, labels and weights from the columns of a table.

    Parameters
    ----------
    names : sequence of str
        Columns of the table, which errors call `where`: the path of a file, or "X".
    labels : str or sequence of str, default=()
        Label columns, or thresholds such as ``age>=65``. A column of exactly that name wins.
    features, drop : str or sequence of str, optional
        As `wanted` and `dropped` of `choose_columns`.
    weight : str, optional
        Column of sample weights.
    **grouping
        What else `Wanted` takes: `group_by`, `unlabelled`, `n_folds`.

    Raises
    ------
    ValueError
        If a column is missing or occurs twice, or if no feature is left.
    """
    repeated = sorted(str(name) for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(f"{where} has several columns called {listed(repeated)}; rename them.")
    find = partial(known_column, names=names, where=f"sensitive_features: {where}")
    chosen_labels = label_columns(_names(labels, "sensitive_features"), names, find)
    if weight is not None and not isinstance(weight, str):
        raise ValueError(f"sample_weight={type(weight).__name__}: name the column of weights.")
    if weight is not None:
        weight = known_column(weight, names, f"sample_weight: {where}")
    outside = {label.column for label in chosen_labels} | ({weight} if weight else set())
    entries = _names(features, "features"), _names(drop, "drop")
    chosen = choose_columns(names, *entries, outside, where)
    if not chosen:
        raise ValueError(
            f"{where}: no column is left as a feature; name some with features, or drop fewer."
        )
    return Wanted(tuple(chosen), tuple(chosen_labels), weight, **grouping)


def all_columns(tables: Sequence[Sequence[str]]) -> list[str]:
    """Return the columns of tables that are read one after another, those of the first one first.

    A column that only a later table has would be left out in silence, were it not to choose from.
    """
    first, *others = tables
    later = dict.fromkeys(name for names in others for name in names)
    return [*first, *(name for name in later if name not in set(first))]


def label_columns(
    labels: Iterable[str], names: Sequence[str], find: Callable[[str], str]
) -> list[LabelColumn]:
    """Return the label columns; an entry that is no column may be a threshold of one.

    `find` returns the column that is meant by a name, or raises ValueError. The first threshold of
    a column is called like the column; further ones keep the text that was given, so that names
    stay distinct.
    """
    found: list[LabelColumn] = []
    for entry in labels:
        cut = None if entry in names else Threshold.parse(str(entry))
        column = find(entry if cut is None else cut.column)
        cut = None if cut is None else replace(cut, column=column)
        taken = column in [label.name for label in found]
        if taken and cut is None:
            raise ValueError(f"sensitive_features names the column {column!r} twice.")
        found.append(LabelColumn(entry if taken else column, column, cut))
    return found


def data_row(position: int) -> str:
    """Return how messages call the row at a position, which counts from 0.

    People count rows from 1, and a row of data is no line of a file: blank lines, header rows and
    cells of several lines come between.
    """
    return f"data row {position + 1:,} (the first is 1)"


def not_numbers(where: str, name: str, found: Any) -> ValueError:
    """Return the error about a feature column of the type `found` that holds no numbers."""
    return ValueError(
        f"{where}: column {name!r} has the type {found}, not numbers; reading in pieces takes "
        "numeric features only: leave the column out, or encode it as numbers first."
    )


def column_numbers(column: Any, decimal: str = ".") -> tuple[FloatArray, AnyArray]:
    """Return the cells of a pandas column as float64, and which of them are no numbers.

    Text is read as pandas reads it, with this decimal sign: ``1e3`` is a number and ``0x10`` is
    not. The values are NaN where a cell is missing or no number; a missing cell is not odd.
    """
    if getattr(column.dtype, "kind", "O") in "biuf":
        values = column.to_numpy(dtype=float, na_value=np.nan)
        return np.asarray(values), np.zeros(len(column), dtype=bool)
    pandas = require("pandas", extra="data", purpose="reading columns of tables")
    cells = column.astype(object)
    if decimal == ",":
        # Only texts have commas; a column of objects may hold numbers as well. A point beside
        # decimal commas sets thousands apart, and 1.052 is no number near 1.
        swapped = str.maketrans(",.", ".,")
        cells = cells.map(lambda cell: cell.translate(swapped) if isinstance(cell, str) else cell)
    numbers = pandas.to_numeric(cells, errors="coerce").astype(float).to_numpy()
    return numbers, np.isnan(numbers) & column.notna().to_numpy()


def compound(column: Any) -> str:
    """Return what the cells of a pandas column are where they cannot be compared, or "".

    Parquet has such columns, and all cells of one are alike.
    """
    known = column.dropna().iloc[:1] if column.dtype.kind == "O" else ()
    return "" if all(isinstance(cell, Hashable) for cell in known) else "lists or records"


def odd_cells(column: Any, decimal: str = ".") -> tuple[int, int, str] | None:
    """Return which cells keep a column of text from being numbers, if they are only a few.

    A single cell such as ``0x10`` makes a whole column text. Reading it as text would leave a
    column of measurements out of the features, so the cell has to be named instead. Returns how
    many cells are odd, the position of the first of them and what it holds; None if there is none,
    or so many that the column is text.
    """
    n_cells = int(column.notna().sum())
    if n_cells < _ODD_FROM_CELLS:
        return None
    _, odd = column_numbers(column, decimal)
    places = np.flatnonzero(odd)
    allowed = max(1, int(_ODD_SHARE * n_cells))
    if not 0 < len(places) <= allowed or column.iloc[places].nunique() > _ODD_TEXTS:
        return None
    return len(places), int(places[0]), str(column.iloc[places[0]])


def cell_among_numbers(column: Any) -> str | None:
    """Return a cell that makes a column text of which at least half of the cells are numbers.

    Such cells are ``?``, ``<0.6``, and numbers with another decimal sign or with signs between the
    thousands. None where the column is no such text.
    """
    known = column.dropna()
    if column.dtype.kind in "biufM" or len(known) < _ODD_FROM_CELLS:
        return None
    odd = [column_numbers(known, decimal)[1] for decimal in (".", ",")]
    if min(cells.mean() for cells in odd) > 0.5:
        return None
    places = np.flatnonzero(odd[0] if odd[0].any() else odd[1])
    return str(known.iloc[places[0]]) if len(places) else None


def counts_rows(values: AnyArray, before: int | None = None) -> bool:
    """Return whether a column only numbers the rows: whole numbers, each one more than the last.

    With `before`, the value above the first one, these are the rows of a later part.
    """
    if values.dtype.kind not in "iu" or not len(values):
        return False
    first, last = int(values[0]), int(values[-1])
    goes_on = before is None or first == before + 1
    # Differences of unsigned integers wrap around; the ends tell.
    return goes_on and last - first == len(values) - 1 and bool(np.all(np.diff(values) == 1))


def looks_like_id(name: str, values: AnyArray) -> bool:
    """Return whether a column seems to hold identifiers, which measure nothing about a row.

    Such a column is called one and has many values, or its values nearly all differ: texts without
    a space, or whole numbers that lie close together. Whole numbers that lie far apart, such as
    incomes, are measurements even where all of them differ. `values` are numbers, where NaN is a
    gap, or texts without the missing ones.
    """
    if values.dtype.kind == "f":
        values = values[~np.isnan(values)]
        with np.errstate(invalid="ignore"):
            if not np.all(values % 1 == 0):
                return False
    m, named = len(values), bool(_ID_NAME.search(str(name)))
    if m < FEW_ROWS or values.dtype.kind not in "iufOUT":
        return False
    if values.dtype.kind in "OUT":
        texts = [str(value) for value in values]
        # A remark has spaces, and repeats as rarely as an id.
        likely, distinct = m >= _ID_ROWS and not any(" " in t for t in texts), len(set(texts))
    else:
        span = float(values.max()) - float(values.min()) + 1
        likely = m >= _ID_ROWS and _NEARLY_ALL * m <= span <= _ID_SPAN * m
        # Counting takes longer than all of the above.
        distinct = len(np.unique(values)) if named or likely else 0
    nearly = distinct >= _NEARLY_ALL * m
    return (named and (nearly or distinct > _MANY_LEVELS)) or (likely and nearly)
