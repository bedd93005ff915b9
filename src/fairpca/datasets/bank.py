"""Bank Marketing (Moro, Cortez and Rita, 2014).

45,211 phone calls of direct-marketing campaigns of a Portuguese bank, May 2008 to November 2010,
in order of date; the target is whether the client then subscribed to a term deposit (5,289 did).
S. Moro, P. Cortez and P. Rita, "A data-driven approach to predict the success of bank
telemarketing", Decision Support Systems 62 (2014). UCI Machine Learning Repository, data set 222,
CC BY 4.0.

Rows are calls, not people: a client called in two campaigns appears twice.

Codes. The text columns are numbers here, as in the file of the Fair PCA authors: job 1-12 in order
of first appearance, marital 1 married 2 single 3 divorced, education 1-3 (4 unknown), contact
1 cellular 2 telephone 3 unknown, month 1-12, poutcome 1 success 2 failure 3 other 4 unknown,
yes/no 1/0. `pdays` is -1 for clients never contacted before.

What is questionable:

* The groups of the Fair PCA literature are "65 or older" (810 calls, 1.8 %) and "under 65". The
  paper's text calls the 810 "younger"; its code takes age >= 65. Earlier versions of that code had
  A and B the other way round.
* Codes of job, contact, month and poutcome have no order; PCA reads them as if they had.
* `duration`, the length of the call, is known only once the outcome is: it leaks the target.
* Age is the group and is dropped; retirement shows in `job` all the same.

variant="paper": the 15 other columns *and the target* (16 features), standardised over all rows,
groups A (age >= 65) and B, as in the authors' scripts. The label is a feature there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairpca._linalg import IntArray
from fairpca.datasets.cache import Remote, need
from fairpca.datasets.loading import Source, Table, check_digest, expect, open_member, standardise

# The columns of every form of the file, in their order.
_NAMES = (
    "age", "job", "marital", "education", "default", "balance", "housing", "loan", "contact",
    "day", "month", "duration", "campaign", "pdays", "previous", "poutcome", "y",
)  # fmt: skip
# The texts of UCI's file; the number of a text is its position, from 1. Another order would give
# other numbers than the authors' table has, and `_DIGEST` would tell.
_LEVELS: dict[str, tuple[str, ...]] = {
    "job": (
        "management", "technician", "entrepreneur", "blue-collar", "unknown", "retired", "admin.",
        "services", "self-employed", "unemployed", "housemaid", "student",
    ),
    "marital": ("married", "single", "divorced"),
    "education": ("primary", "secondary", "tertiary", "unknown"),
    "contact": ("cellular", "telephone", "unknown"),
    "month": (
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ),
    "poutcome": ("success", "failure", "other", "unknown"),
}  # fmt: skip
# The columns with the texts "no" and "yes", coded 0 and 1.
_YES_NO = ("default", "housing", "loan", "y")
# Rows of the whole table, as UCI documents it.
_ROWS = 45211
# Rows of the 10 % sample, which UCI gives the name the authors use for the whole table.
_SAMPLE_ROWS = 4521
# SHA-256 of the values of the authors' table, whichever file they are read from.
_DIGEST = "f345b000488de23609911b89e287684e55dcc62741b390def9672e0143b8d514"


def _read(path: Path) -> Table:
    """Return the table from any of the accepted files."""
    with open_member(path, "bank-full.csv") as file:
        codes = _read_codes(file, path)
    expect(
        codes.shape == (_ROWS, len(_NAMES)),
        path,
        f"{codes.shape[0]} rows and {codes.shape[1]} columns instead of {_ROWS} and {len(_NAMES)}",
    )
    check_digest(_DIGEST, path, codes)
    columns = dict(zip(_NAMES, codes.T, strict=True))
    groupings = {"age": np.where(columns["age"] >= 65, "65 or older", "under 65")}
    for name in ("marital", "education", "job"):
        groupings[name] = np.array(_LEVELS[name])[columns[name] - 1]
    data = codes[:, :-1].astype(float)
    return Table(data, _NAMES[:-1], groupings, target=columns["y"], target_name="y")


def _read_codes(file: IO[bytes], path: Path) -> IntArray:
    """Return 17 integer columns, from the authors' numbers or from UCI's texts."""
    start = file.read(6)
    file.seek(0)
    if not start.startswith((b'"age"', b"age;")):
        return np.loadtxt(file, delimiter=",", dtype=np.int64, ndmin=2)
    frame = need("pandas").read_csv(file, sep=";")
    expect(tuple(frame.columns) == _NAMES, path, f"its columns are {list(frame.columns)}")
    sample = "this is the 10 % sample that UCI also calls bank.csv; use bank-full.csv"
    expect(len(frame) != _SAMPLE_ROWS, path, sample)
    for name, levels in {**_LEVELS, **dict.fromkeys(_YES_NO, ("no", "yes"))}.items():
        unknown = set(frame[name]) - set(levels)
        expect(not unknown, path, f"column {name!r} has the unknown value(s) {sorted(unknown)}")
        first = 0 if name in _YES_NO else 1
        frame[name] = frame[name].map({level: i for i, level in enumerate(levels, first)})
    # pandas stores columns. Sums over rows in another order would differ in the last digit.
    return np.ascontiguousarray(frame.to_numpy(dtype=np.int64))


def _paper(table: Table) -> Table:
    """Return every column but the age, and the target, standardised."""
    data = standardise(np.column_stack([table.data[:, 1:], table.target]))  # type: ignore[list-item]
    old = table.data[:, 0] >= 65
    return table.as_in_paper(old, ("age >= 65", "age < 65"), data, _NAMES[1:])


_SOURCE = Source(
    "fetch_bank_marketing",
    __doc__,
    accepted=("bank.csv", "bank-full.csv", "bank+marketing.zip", "bank.zip"),
    remotes=(
        Remote(
            "bank.csv",
            "https://raw.githubusercontent.com/JunhuiShen/Fair-PCA-via-EigOpt/"
            "ea74a195001dc5491ea437b158daba0516d69f51/bank.csv",
            sha256="bde995d7cb02f5c72b7d5782437c8e2c2cde443fba21d7513cdfa0556adb5440",
        ),
        Remote(
            "bank+marketing.zip",
            "https://archive.ics.uci.edu/static/public/222/bank+marketing.zip",
            check=_read,
        ),
    ),
    read=_read,
    paper=_paper,
)


def fetch_bank_marketing(
    *,
    variant: str = "default",
    sensitive: str | Sequence[str] | None = "age",
    data_home: str | Path | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load the Bank Marketing calls, grouped by age.

    Parameters
    ----------
    variant : {"default", "paper"}, default="default"
        "default" drops the target and the group column. "paper" is the standardised matrix of the
        Fair PCA paper, target included, with groups "A" (65 or older) and "B".
    sensitive : {"age", "marital", "education", "job"}, several of them, or None, default="age"
        What makes the groups. Age means "65 or older" against "under 65". None keeps all columns
        and makes no groups. Ignored by ``variant="paper"``.
    data_home : path, optional
        Directory of data files; default FAIRPCA_DATA, then the user's cache directory.
    download_if_missing : bool, default=True
        Whether to download the file if it is not there; otherwise that is an error.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.
    as_frame : bool, default=False
        Return pandas objects instead of arrays.

    Returns
    -------
    Bunch
        `data`, `target` (1 = subscribed), `sensitive_features`, `sensitive_names`,
        `feature_names`, `frame`, `filename`, `DESCR`; with ``variant="paper"`` also
        `group_meaning`.

    Raises
    ------
    DataUnavailableError
        If the file is not there and cannot be downloaded.
    ValueError
        If the file that is there is not this table.

    Notes
    -----
    Accepted files: `bank.csv` as the Fair PCA authors publish it, or `bank-full.csv`,
    `bank.zip` or `bank+marketing.zip` of the UCI repository. The first is downloaded and has a
    known SHA-256; the UCI archive is the second choice and is verified by its structure (45,211
    rows, 17 columns). Either way the table's values are compared with a stored digest, and a
    difference warns.

    Examples
    --------
    >>> from fairpca.datasets import fetch_bank_marketing
    >>> calls = fetch_bank_marketing()
    >>> calls.data.shape, int((calls.sensitive_features == "65 or older").sum())
    ((45211, 15), 810)
    """
    return _SOURCE.load(sensitive, variant, data_home, download_if_missing, return_X_y, as_frame)
