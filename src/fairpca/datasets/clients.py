"""Bank Marketing and Default of Credit Card Clients: clients of two banks, coded as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairpca._linalg import AnyArray, IntArray
from fairpca.datasets.cache import Remote, need
from fairpca.datasets.loading import AUTHORS, UCI, Source, Table, check_digest, expect, open_member

# The columns of every form of the bank's file, in their order.
_BANK_NAMES = (
    "age job marital education default balance housing loan contact day month duration campaign "
    "pdays previous poutcome y"
).split()
# The texts of UCI's file; the number of a text is its position, from 1, as the authors have it.
_BANK_LEVELS = {
    "job": "management technician entrepreneur blue-collar unknown retired admin. services "
    "self-employed unemployed housemaid student".split(),
    "marital": ["married", "single", "divorced"],
    "education": ["primary", "secondary", "tertiary", "unknown"],
    "contact": ["cellular", "telephone", "unknown"],
    "month": "jan feb mar apr may jun jul aug sep oct nov dec".split(),
    "poutcome": ["success", "failure", "other", "unknown"],
}
# The columns with "no" and "yes", coded 0 and 1.
_YES_NO = ("default", "housing", "loan", "y")
# Rows of the whole table, as UCI documents it, and of a sample that UCI calls bank.csv, too.
_BANK_ROWS, _SAMPLE_ROWS = 45211, 4521
# SHA-256 of the authors' file, and of its values, whichever file they are read from.
_BANK_SHA256 = "bde995d7cb02f5c72b7d5782437c8e2c2cde443fba21d7513cdfa0556adb5440"
_BANK_DIGEST = "f345b000488de23609911b89e287684e55dcc62741b390def9672e0143b8d514"

# The columns of the authors' credit file after its row number, in their order.
_CREDIT_NAMES = (
    "EDUCATION", "SEX", "LIMIT_BAL", "MARRIAGE", "AGE",
    *(f"{name}{j}" for name in ("PAY_", "BILL_AMT", "PAY_AMT") for j in range(1, 7)),
    "default payment next month",
)  # fmt: skip
# Other names of the same columns, in UCI's spreadsheet and in copies of it.
_SAME = dict.fromkeys(("default.payment.next.month", "Y"), _CREDIT_NAMES[-1]) | {"PAY_0": "PAY_1"}
# What the codes 1, 2, ... mean; every other code is "other".
_CREDIT_LEVELS = {
    "education": ("graduate school", "university", "high school"),
    "sex": ("male", "female"),
    "marriage": ("married", "single"),
}
# Rows as UCI documents them; SHA-256 of the authors' file, and of its values in this order.
_CREDIT_ROWS = 30000
_CREDIT_SHA256 = "c58f7df737cb7953d9022cf9487cf8001c0417ae97bd308301ad733f20c88fc3"
_CREDIT_DIGEST = "ce64e83dfa1d7e287f7252230d9cbbec53abb927da316ac58ea56b6f4d5a1939"


def _paper(table: Table, in_a: AnyArray, meaning: tuple[str, str]) -> Table:
    """Return every column but the first, which makes the groups, and the target, standardised."""
    data = np.column_stack([table.data[:, 1:], table.target])  # type: ignore[list-item]
    names = [*table.feature_names[1:], table.target_name]
    return table.as_in_paper(in_a, meaning, data, names).standardised()


def _read_bank(path: Path) -> Table:
    """Return the table from any of the accepted files."""
    with open_member(path, "bank-full.csv") as file:
        codes = _read_codes(file, path)
    rows, columns = codes.shape
    right = (rows, columns) == (_BANK_ROWS, len(_BANK_NAMES))
    expect(right, path, f"{rows} rows and {columns} columns instead of {_BANK_ROWS} and 17")
    check_digest(_BANK_DIGEST, path, codes)
    groupings = {"age": np.where(codes[:, 0] >= 65, "65 or older", "under 65")}
    for name in ("marital", "education", "job"):
        groupings[name] = np.array(_BANK_LEVELS[name])[codes[:, _BANK_NAMES.index(name)] - 1]
    data = codes[:, :-1].astype(float)
    return Table(data, _BANK_NAMES[:-1], groupings, target=codes[:, -1], target_name="y")


def _read_codes(file: IO[bytes], path: Path) -> IntArray:
    """Return 17 integer columns, from the authors' numbers or from UCI's texts."""
    start = file.read(6)
    file.seek(0)
    if not start.startswith((b'"age"', b"age;")):
        return np.loadtxt(file, delimiter=",", dtype=np.int64, ndmin=2)
    frame = need("pandas").read_csv(file, sep=";")
    expect(list(frame.columns) == _BANK_NAMES, path, f"its columns are {list(frame.columns)}")
    sample = "this is the 10 % sample that UCI also calls bank.csv; use bank-full.csv"
    expect(len(frame) != _SAMPLE_ROWS, path, sample)
    for name, levels in {**_BANK_LEVELS, **{key: ["no", "yes"] for key in _YES_NO}}.items():
        unknown = set(frame[name]) - set(levels)
        expect(not unknown, path, f"column {name!r} has the unknown value(s) {sorted(unknown)}")
        first = 0 if name in _YES_NO else 1
        frame[name] = frame[name].map({level: i for i, level in enumerate(levels, first)})
    # pandas stores columns. Sums over rows in another order would differ in the last digit.
    return np.ascontiguousarray(frame.to_numpy(dtype=np.int64))


_BANK = Source(
    accepted=("bank.csv", "bank-full.csv", "bank+marketing.zip", "bank.zip"),
    remotes=(
        Remote("bank.csv", f"{AUTHORS}bank.csv", sha256=_BANK_SHA256),
        Remote("bank+marketing.zip", f"{UCI}222/bank+marketing.zip", check=_read_bank),
    ),
    read=_read_bank,
    paper=lambda table: _paper(table, table.data[:, 0] >= 65, ("age >= 65", "age < 65")),
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

    45,211 phone calls of direct-marketing campaigns of a Portuguese bank, May 2008 to November
    2010, in order of date; the target is whether the client then subscribed to a term deposit
    (5,289 did). S. Moro, P. Cortez and P. Rita, "A data-driven approach to predict the success of
    bank telemarketing", Decision Support Systems 62 (2014). UCI Machine Learning Repository, data
    set 222, CC BY 4.0. Rows are calls, not people: a client called in two campaigns appears twice.

    The text columns are numbers here, as in the file of the Fair PCA authors: job 1-12 in order of
    first appearance, marital 1 married 2 single 3 divorced, education 1-3 (4 unknown), contact
    1 cellular 2 telephone 3 unknown, month 1-12, poutcome 1 success 2 failure 3 other 4 unknown,
    yes/no 1/0. `pdays` is -1 for clients never contacted before.

    variant="paper": the 15 columns beside the age *and the target* (16 features), standardised
    over all rows, groups A (age >= 65) and B, as in the authors' scripts.

    Accepted files: `bank.csv` as the Fair PCA authors publish it, or `bank-full.csv`, `bank.zip`
    or `bank+marketing.zip` of the UCI repository. Values that differ from the authors' warn.

    What is questionable:

    * The groups of the Fair PCA literature are "65 or older" (810 calls, 1.8 %) and "under 65".
      The paper's text calls the 810 "younger"; its code takes age >= 65. Earlier versions of that
      code had A and B the other way round.
    * Codes of job, contact, month and poutcome have no order; PCA reads them as if they had.
    * `duration`, the length of the call, is known only once the outcome is: it leaks the target.
    * Age is the group and is dropped; retirement shows in `job` all the same.

    Parameters
    ----------
    variant : {"default", "paper"}, default="default"
        "default" drops the target and the group column, "paper" is described above.
    sensitive : {"age", "marital", "education", "job"}, several of them, or None, default="age"
        What makes the groups. None keeps all columns and makes no groups. Ignored by "paper".
    data_home, download_if_missing, return_X_y, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_bank_marketing
    >>> calls = fetch_bank_marketing()
    >>> calls.data.shape, int((calls.sensitive_features == "65 or older").sum())
    ((45211, 15), 810)
    """
    options = (data_home, download_if_missing, return_X_y, as_frame)
    return _BANK.load(fetch_bank_marketing, sensitive, variant, *options)


def _read_credit(path: Path) -> Table:
    """Return the table with the authors' order of columns, found by name."""
    with open(path, encoding="utf-8-sig") as file:
        # The names are in the first or the second line, depending on the copy.
        for skip, line in enumerate(file, start=1):
            names = [name.strip().strip('"') for name in line.split(",")]
            if "EDUCATION" in names or skip == 3:
                break
    names = [_SAME.get(name, name) for name in names]
    missing = [name for name in _CREDIT_NAMES if name not in names]
    expect(not missing, path, f"it has no column {', '.join(missing)}")
    order = [names.index(name) for name in _CREDIT_NAMES]
    # Read as floats: some copies write whole numbers as 20000.0.
    values = np.loadtxt(path, delimiter=",", skiprows=skip, ndmin=2, encoding="utf-8-sig")
    expect(len(values) == _CREDIT_ROWS, path, f"{len(values)} rows instead of {_CREDIT_ROWS}")
    # `values[:, order]` would be in Fortran order, and sums over rows differ in the last digit.
    codes = np.take(values, order, axis=1).astype(np.int64)
    check_digest(_CREDIT_DIGEST, path, codes)
    groupings = {}
    for name, levels in _CREDIT_LEVELS.items():
        column = codes[:, _CREDIT_NAMES.index(name.upper())]
        known = (column >= 1) & (column <= len(levels))
        groupings[name] = np.array(("other", *levels))[np.where(known, column, 0)]
    *features, target = _CREDIT_NAMES
    data = codes[:, :-1].astype(float)
    return Table(data, features, groupings, target=codes[:, -1], target_name=target)


_CREDIT = Source(
    accepted=(
        "default_degree.csv",
        "default of credit card clients.csv",
        "default_of_credit_card_clients.csv",
        "UCI_Credit_Card.csv",
    ),
    remotes=(Remote("default_degree.csv", f"{AUTHORS}default_degree.csv", sha256=_CREDIT_SHA256),),
    read=_read_credit,
    paper=lambda table: _paper(table, table.data[:, 0] <= 1, ("EDUCATION <= 1", "EDUCATION > 1")),
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

    30,000 credit card holders of a bank in Taiwan, October 2005: credit limit, sex, education,
    marital status, age, six months of repayment status, bills and payments (New Taiwan dollars);
    the target is default in the next month (6,636 did). I.-C. Yeh and C.-H. Lien, "The comparisons
    of data mining techniques for the predictive accuracy of probability of default of credit card
    clients", Expert Systems with Applications 36 (2009). UCI Machine Learning Repository, data set
    350, CC BY 4.0.

    Education: 1 graduate school (10,585), 2 university (14,030), 3 high school (4,917), 4 others
    (123); the codes 0 (14), 5 (280) and 6 (51) are documented nowhere and are "other" here.

    variant="paper": the 22 columns beside the education *and the target* (23 features),
    standardised over all rows, groups A (EDUCATION <= 1) and B, as in the authors' scripts.

    Accepted files: `default_degree.csv` of the Fair PCA authors, or UCI's spreadsheet as CSV.

    What is questionable:

    * The Fair PCA paper splits by EDUCATION <= 1, so 14 people of the undocumented code 0 count as
      graduates. A are the graduates (10,599); comments in the code call A "low education".
    * Repayment codes -2 and 0 are undocumented; PAY_1 is called PAY_0 in the original file.
    * SEX, MARRIAGE and PAY_* are codes that PCA reads as numbers.
    * Everybody here was granted a card: those refused are not in the table.

    Parameters
    ----------
    variant : {"default", "paper"}, default="default"
        "default" drops the target and the group column, "paper" is described above.
    sensitive : {"education", "sex", "marriage"}, several of them, or None, default="education"
        What makes the groups. None keeps all columns and makes no groups. Ignored by "paper".
    data_home, download_if_missing, return_X_y, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_credit_default
    >>> clients = fetch_credit_default(sensitive=["education", "sex"])
    >>> clients.data.shape, clients.sensitive_features.shape
    ((30000, 21), (30000, 2))
    """
    options = (data_home, download_if_missing, return_X_y, as_frame)
    return _CREDIT.load(fetch_credit_default, sensitive, variant, *options)
