"""Default of Credit Card Clients (Yeh and Lien, 2009).

30,000 credit card holders of a bank in Taiwan, October 2005: credit limit, sex, education, marital
status, age, six months of repayment status, bills and payments (New Taiwan dollars); the target is
default in the next month (6,636 did). I.-C. Yeh and C.-H. Lien, "The comparisons of data mining
techniques for the predictive accuracy of probability of default of credit card clients", Expert
Systems with Applications 36 (2009). UCI Machine Learning Repository, data set 350, CC BY 4.0.

Education: 1 graduate school (10,585), 2 university (14,030), 3 high school (4,917), 4 others
(123); the codes 0 (14), 5 (280) and 6 (51) are documented nowhere and are grouped
with "other" here.

What is questionable:

* The Fair PCA paper splits by EDUCATION <= 1, so 14 people of the undocumented code 0 count as
  graduates. A are the graduates (10,599); comments in the code call A "low education".
* Repayment codes -2 and 0 are undocumented; PAY_1 is called PAY_0 in the original file.
* SEX, MARRIAGE and PAY_* are codes that PCA reads as numbers.
* Everybody here was granted a card: those refused are not in the table.

variant="paper": the 22 other columns *and the target* (23 features), standardised over all rows,
groups A (EDUCATION <= 1) and B, as in the authors' scripts (which sort the rows; order does not
matter). The label is a feature there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._linalg import AnyArray
from fairpca.datasets.cache import Remote
from fairpca.datasets.loading import Source, Table, check_digest, expect, standardise

# The columns of the authors' file after its row number, in their order.
_NAMES = (
    "EDUCATION", "SEX", "LIMIT_BAL", "MARRIAGE", "AGE",
    *(f"PAY_{j}" for j in range(1, 7)),
    *(f"BILL_AMT{j}" for j in range(1, 7)),
    *(f"PAY_AMT{j}" for j in range(1, 7)),
    "default payment next month",
)  # fmt: skip
# Other names of the same columns, in UCI's spreadsheet and in copies of it.
_SAME = {"PAY_0": "PAY_1", "default.payment.next.month": _NAMES[-1], "Y": _NAMES[-1]}
# What the codes 1, 2, ... mean; every other code is "other".
_LEVELS = {
    "education": ("graduate school", "university", "high school"),
    "sex": ("male", "female"),
    "marriage": ("married", "single"),
}
# Rows of the whole table, as UCI documents it.
_ROWS = 30000
# SHA-256 of the values in the order of `_NAMES`, whichever file they are read from.
_DIGEST = "ce64e83dfa1d7e287f7252230d9cbbec53abb927da316ac58ea56b6f4d5a1939"


def _read(path: Path) -> Table:
    """Return the table with the authors' order of columns, found by name."""
    with open(path, encoding="utf-8-sig") as file:
        # The names are in the first or the second line, depending on the copy.
        for skip, line in enumerate(file, start=1):
            names = [name.strip().strip('"') for name in line.split(",")]
            if "EDUCATION" in names or skip == 3:
                break
    names = [_SAME.get(name, name) for name in names]
    missing = [name for name in _NAMES if name not in names]
    expect(not missing, path, f"it has no column {', '.join(missing)}")
    order = [names.index(name) for name in _NAMES]
    # Read as floats: some copies write whole numbers as 20000.0.
    values = np.loadtxt(path, delimiter=",", skiprows=skip, ndmin=2, encoding="utf-8-sig")
    expect(len(values) == _ROWS, path, f"{len(values)} rows instead of {_ROWS}")
    # `values[:, order]` would be in Fortran order, and sums over rows differ in the last digit.
    codes = np.take(values, order, axis=1).astype(np.int64)
    check_digest(_DIGEST, path, codes)
    groupings = {
        name: _label(codes[:, _NAMES.index(name.upper())], levels)
        for name, levels in _LEVELS.items()
    }
    data, target = codes[:, :-1].astype(float), codes[:, -1]
    return Table(data, _NAMES[:-1], groupings, target=target, target_name=_NAMES[-1])


def _label(codes: AnyArray, levels: tuple[str, ...]) -> AnyArray:
    """Return the names of the codes 1, 2, ...; every other code is "other"."""
    known = (codes >= 1) & (codes <= len(levels))
    return np.array(("other", *levels))[np.where(known, codes, 0)]


def _paper(table: Table) -> Table:
    """Return every column but the education, and the target, standardised."""
    data = standardise(np.column_stack([table.data[:, 1:], table.target]))  # type: ignore[list-item]
    graduate = table.data[:, 0] <= 1
    return table.as_in_paper(graduate, ("EDUCATION <= 1", "EDUCATION > 1"), data, _NAMES[1:])


_SOURCE = Source(
    "fetch_credit_default",
    __doc__,
    accepted=(
        "default_degree.csv",
        "default of credit card clients.csv",
        "default_of_credit_card_clients.csv",
        "UCI_Credit_Card.csv",
    ),
    remotes=(
        Remote(
            "default_degree.csv",
            "https://raw.githubusercontent.com/JunhuiShen/Fair-PCA-via-EigOpt/"
            "ea74a195001dc5491ea437b158daba0516d69f51/default_degree.csv",
            sha256="c58f7df737cb7953d9022cf9487cf8001c0417ae97bd308301ad733f20c88fc3",
        ),
    ),
    read=_read,
    paper=_paper,
)


def fetch_credit_default(
    *,
    variant: str = "default",
    sensitive: str | Sequence[str] | None = "education",
    data_home: str | Path | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load the credit card clients, grouped by education.

    Parameters
    ----------
    variant : {"default", "paper"}, default="default"
        "default" drops the target and the group column. "paper" is the standardised matrix of the
        Fair PCA paper, target included, with groups "A" (EDUCATION <= 1) and "B".
    sensitive : {"education", "sex", "marriage"}, several of them, or None, default="education"
        What makes the groups; education has four levels. None keeps all columns and makes no
        groups. Ignored by ``variant="paper"``.
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
        `data`, `target` (1 = default), `sensitive_features`, `sensitive_names`, `feature_names`,
        `frame`, `filename`, `DESCR`; with ``variant="paper"`` also `group_meaning`.

    Raises
    ------
    DataUnavailableError
        If the file is not there and cannot be downloaded.
    ValueError
        If the file that is there is not this table.

    Notes
    -----
    Accepted files: `default_degree.csv` as the Fair PCA authors publish it (downloaded, with a
    known SHA-256), or the UCI spreadsheet saved as CSV, found by its column names. The table's
    values are compared with a stored digest, and a difference warns.

    Examples
    --------
    >>> from fairpca.datasets import fetch_credit_default
    >>> clients = fetch_credit_default(sensitive=["education", "sex"])
    >>> clients.data.shape, clients.sensitive_features.shape
    ((30000, 21), (30000, 2))
    """
    return _SOURCE.load(sensitive, variant, data_home, download_if_missing, return_X_y, as_frame)
