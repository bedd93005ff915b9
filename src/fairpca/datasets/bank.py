"""Bank Marketing (Moro, Cortez and Rita, 2014)."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairpca._checks import check_choice
from fairpca._linalg import IntArray
from fairpca.datasets.bunch import Table, check_digest, expect, make_bunch, standardise
from fairpca.datasets.cache import Remote, need, obtain

_DESCR = """\
Bank Marketing
--------------
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

What is questionable
* The groups of the Fair PCA literature are "65 or older" (810 calls, 1.8 %) and "under 65". The
  paper's text calls the 810 "younger"; its code takes age >= 65. Earlier versions of that code had
  A and B the other way round.
* Codes of job, contact, month and poutcome have no order; PCA reads them as if they had.
* `duration`, the length of the call, is known only once the outcome is: it leaks the target.
* Age is the group and is dropped; retirement shows in `job` all the same.

variant="paper": the 15 other columns *and the target* (16 features), standardised over all rows,
groups A (age >= 65) and B, as in the authors' scripts. The label is a feature there.
"""

_NAMES = (
    "age", "job", "marital", "education", "default", "balance", "housing", "loan", "contact",
    "day", "month", "duration", "campaign", "pdays", "previous", "poutcome", "y",
)  # fmt: skip
_JOBS = (
    "management", "technician", "entrepreneur", "blue-collar", "unknown", "retired", "admin.",
    "services", "self-employed", "unemployed", "housemaid", "student",
)  # fmt: skip
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LEVELS: dict[str, tuple[str, ...]] = {
    "job": _JOBS,
    "marital": ("married", "single", "divorced"),
    "education": ("primary", "secondary", "tertiary", "unknown"),
    "contact": ("cellular", "telephone", "unknown"),
    "month": _MONTHS,
    "poutcome": ("success", "failure", "other", "unknown"),
}
_YES_NO = ("default", "housing", "loan", "y")
_ROWS = 45211
# The values of the authors' table, whichever file they are read from.
_DIGEST = "f345b000488de23609911b89e287684e55dcc62741b390def9672e0143b8d514"

_REMOTES = (
    Remote(
        "bank.csv",
        "https://raw.githubusercontent.com/JunhuiShen/Fair-PCA-via-EigOpt/"
        "ea74a195001dc5491ea437b158daba0516d69f51/bank.csv",
        sha256="bde995d7cb02f5c72b7d5782437c8e2c2cde443fba21d7513cdfa0556adb5440",
    ),
    Remote(
        "bank+marketing.zip",
        "https://archive.ics.uci.edu/static/public/222/bank+marketing.zip",
        check=lambda path: _check(_read(path, "bank+marketing.zip"), path),
    ),
)
_ACCEPTED = ("bank.csv", "bank-full.csv", "bank+marketing.zip", "bank.zip")


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
    return_X_y : bool, default=False
        Return ``(data, target)`` only.
    as_frame : bool, default=False
        Return pandas objects.

    Returns
    -------
    Bunch
        `data`, `target` (1 = subscribed), `sensitive_features`, `sensitive_names`,
        `feature_names`, `frame`, `filename`, `DESCR`.

    Notes
    -----
    Accepted files: `bank.csv` as the Fair PCA authors publish it, or `bank-full.csv`,
    `bank.zip` or `bank+marketing.zip` of the UCI repository. The first is downloaded and has a
    known SHA-256; the UCI archive is the second choice and is verified by its structure (45,211
    rows, 17 columns). Either way the table's values are compared with a stored digest, and a
    difference warns.
    """
    check_choice("variant", variant, ("default", "paper"))
    path = obtain(
        "fetch_bank_marketing",
        accepted=_ACCEPTED,
        remotes=_REMOTES,
        data_home=data_home,
        download_if_missing=download_if_missing,
    )
    codes = _read(path, path.name)
    _check(codes, path)
    check_digest(_DIGEST, path, codes)
    table = _table(codes)
    shape: dict[str, Any] = {
        "as_frame": as_frame,
        "return_X_y": return_X_y,
        "descr": _DESCR,
        "filename": path,
    }
    if variant == "default":
        return table.bunch(sensitive, **shape)
    columns, names = table.matrix(with_target=True)
    return make_bunch(
        standardise(columns[:, 1:]),
        names[1:],
        {"group": np.where(codes[:, 0] >= 65, "A", "B")},
        target=table.target,
        target_name="y",
        extras={"group_meaning": {"A": "age >= 65", "B": "age < 65"}},
        **shape,
    )


def _table(codes: IntArray) -> Table:
    columns = {name: codes[:, j] for j, name in enumerate(_NAMES)}
    target = columns.pop("y")
    groupings = {"age": np.where(columns["age"] >= 65, "65 or older", "under 65")}
    for name in ("marital", "education", "job"):
        groupings[name] = np.array(_LEVELS[name])[columns[name] - 1]
    return Table(columns, groupings, {name: (name,) for name in groupings}, target, "y")


def _read(path: Path, name: str) -> IntArray:
    """Return the coded table, 17 integer columns, from any of the accepted files."""
    if not name.endswith(".zip"):
        with open(path, "rb") as file:
            return _read_csv(file, path)
    with zipfile.ZipFile(path) as archive:
        members = {Path(member).name: member for member in archive.namelist()}
        if "bank-full.csv" in members:
            return _read_csv(io.BytesIO(archive.read(members["bank-full.csv"])), path)
        expect("bank.zip" in members, path, "the archive has no bank-full.csv and no bank.zip")
        with zipfile.ZipFile(io.BytesIO(archive.read(members["bank.zip"]))) as inner:
            return _read_csv(io.BytesIO(inner.read("bank-full.csv")), path)


def _read_csv(file: IO[bytes], path: Path) -> IntArray:
    start = file.read(6)
    file.seek(0)
    if not start.startswith((b'"age"', b"age;")):
        return np.loadtxt(file, delimiter=",", dtype=np.int64, ndmin=2)
    frame = need("pandas").read_csv(file, sep=";")
    expect(tuple(frame.columns) == _NAMES, path, f"its columns are {list(frame.columns)}")
    expect(
        len(frame) != 4521, path, "this is the 10 % sample that UCI also calls bank.csv; "
        "use bank-full.csv",
    )  # fmt: skip
    codes = np.empty((len(frame), len(_NAMES)), dtype=np.int64)
    for j, name in enumerate(_NAMES):
        levels = ("no", "yes") if name in _YES_NO else _LEVELS.get(name)
        if levels is None:
            codes[:, j] = frame[name]
            continue
        first = 0 if name in _YES_NO else 1
        number = {level: i for i, level in enumerate(levels, start=first)}
        unknown = set(frame[name]) - set(number)
        expect(not unknown, path, f"column {name!r} has the unknown value(s) {sorted(unknown)}")
        codes[:, j] = frame[name].map(number)
    return codes


def _check(codes: IntArray, path: Path) -> None:
    expect(
        codes.shape == (_ROWS, len(_NAMES)),
        path,
        f"{codes.shape[0]} rows and {codes.shape[1]} columns instead of {_ROWS} and {len(_NAMES)}",
    )
