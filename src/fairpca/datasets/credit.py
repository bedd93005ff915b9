"""Default of Credit Card Clients (Yeh and Lien, 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._checks import check_choice
from fairpca._linalg import AnyArray, IntArray
from fairpca.datasets.bunch import Table, check_digest, expect, make_bunch, standardise
from fairpca.datasets.cache import Remote, obtain

_DESCR = """\
Default of Credit Card Clients
------------------------------
30,000 credit card holders of a bank in Taiwan, October 2005: credit limit, sex, education, marital
status, age, six months of repayment status, bills and payments (New Taiwan dollars); the target is
default in the next month (6,636 did). I.-C. Yeh and C.-H. Lien, "The comparisons of data mining
techniques for the predictive accuracy of probability of default of credit card clients", Expert
Systems with Applications 36 (2009). UCI Machine Learning Repository, data set 350, CC BY 4.0.

Education: 1 graduate school (10,585), 2 university (14,030), 3 high school (4,917), 4 others
(123); the codes 0 (14), 5 (280) and 6 (51) are documented nowhere and are grouped
with "other" here.

What is questionable
* The Fair PCA paper splits by EDUCATION <= 1, so 14 people of the undocumented code 0 count as
  graduates. A are the graduates (10,599); comments in the code call A "low education".
* Repayment codes -2 and 0 are undocumented; PAY_1 is called PAY_0 in the original file.
* SEX, MARRIAGE and PAY_* are codes that PCA reads as numbers.
* Everybody here was granted a card: those refused are not in the table.

variant="paper": the 22 other columns *and the target* (23 features), standardised over all rows,
groups A (EDUCATION <= 1) and B, as in the authors' scripts (which sort the rows; order does not
matter). The label is a feature there.
"""

_NAMES = (
    "EDUCATION", "SEX", "LIMIT_BAL", "MARRIAGE", "AGE",
    *(f"PAY_{j}" for j in range(1, 7)),
    *(f"BILL_AMT{j}" for j in range(1, 7)),
    *(f"PAY_AMT{j}" for j in range(1, 7)),
    "default payment next month",
)  # fmt: skip
_ROWS = 30000
_DIGEST = "ce64e83dfa1d7e287f7252230d9cbbec53abb927da316ac58ea56b6f4d5a1939"
_SAME = {"PAY_0": "PAY_1", "default.payment.next.month": _NAMES[-1], "Y": _NAMES[-1]}

_REMOTES = (
    Remote(
        "default_degree.csv",
        "https://raw.githubusercontent.com/JunhuiShen/Fair-PCA-via-EigOpt/"
        "ea74a195001dc5491ea437b158daba0516d69f51/default_degree.csv",
        sha256="c58f7df737cb7953d9022cf9487cf8001c0417ae97bd308301ad733f20c88fc3",
    ),
)
_ACCEPTED = (
    "default_degree.csv",
    "default of credit card clients.csv",
    "default_of_credit_card_clients.csv",
    "UCI_Credit_Card.csv",
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
    return_X_y : bool, default=False
        Return ``(data, target)`` only.
    as_frame : bool, default=False
        Return pandas objects.

    Returns
    -------
    Bunch
        `data`, `target` (1 = default), `sensitive_features`, `sensitive_names`, `feature_names`,
        `frame`, `filename`, `DESCR`.

    Notes
    -----
    Accepted files: `default_degree.csv` as the Fair PCA authors publish it (downloaded, with a
    known SHA-256), or the UCI spreadsheet saved as CSV, found by its column names. The table's
    values are compared with a stored digest, and a difference warns.
    """
    check_choice("variant", variant, ("default", "paper"))
    path = obtain(
        "fetch_credit_default",
        accepted=_ACCEPTED,
        remotes=_REMOTES,
        data_home=data_home,
        download_if_missing=download_if_missing,
    )
    codes = _read(path)
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
        {"group": np.where(codes[:, 0] <= 1, "A", "B")},
        target=table.target,
        target_name=_NAMES[-1],
        extras={"group_meaning": {"A": "EDUCATION <= 1", "B": "EDUCATION > 1"}},
        **shape,
    )


def _table(codes: IntArray) -> Table:
    columns = {name: codes[:, j] for j, name in enumerate(_NAMES)}
    target = columns.pop(_NAMES[-1])
    levels = ("graduate school", "university", "high school")
    groupings: dict[str, AnyArray] = {
        "education": _label(columns["EDUCATION"], levels),
        "sex": _label(columns["SEX"], ("male", "female")),
        "marriage": _label(columns["MARRIAGE"], ("married", "single")),
    }
    restates = {name: (name.upper(),) for name in groupings}
    return Table(columns, groupings, restates, target, _NAMES[-1])


def _label(codes: AnyArray, levels: tuple[str, ...]) -> AnyArray:
    """Name the codes 1, 2, ...; every other code is "other"."""
    known = (codes >= 1) & (codes <= len(levels))
    return np.array(("other", *levels))[np.where(known, codes, 0)]


def _read(path: Path) -> IntArray:
    """Return the table with the authors' order of columns, found by name."""
    with open(path, encoding="utf-8-sig") as file:
        for skip, line in enumerate(file, start=1):
            names = [name.strip().strip('"') for name in line.split(",")]
            if "EDUCATION" in names or skip == 3:
                break
    names = [_SAME.get(name, name) for name in names]
    missing = [name for name in _NAMES if name not in names]
    expect(not missing, path, f"it has no column {', '.join(missing)}")
    order = [names.index(name) for name in _NAMES]
    # Some copies write whole numbers as 20000.0.
    values = np.loadtxt(path, delimiter=",", skiprows=skip, ndmin=2, encoding="utf-8-sig")
    expect(len(values) == _ROWS, path, f"{len(values)} rows instead of {_ROWS}")
    return values[:, order].astype(np.int64)
