"""The credit table as each paper's authors cut it: columns, scaling, groups.

Comments of these tests cite the specification of the methods as `methods.md section N`; [P] marks
numbers that authors published, [R] published and computed again, [C] computed only.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from data_dir import data_path
from tables import standardised

# Columns of the file: ID, EDUCATION, SEX, LIMIT_BAL, MARRIAGE, AGE, 6 PAY, 6 BILL_AMT, 6 PAY_AMT,
# default.
EDUCATION, SEX, LIMIT_BAL, MARRIAGE, AGE, PAY, BILL, PAY_AMT, LABEL = 1, 2, 3, 4, 5, 6, 12, 18, 24


@cache
def raw():
    return np.loadtxt(data_path("default_degree.csv"), delimiter=",", skiprows=2)


def education():
    return raw()[:, EDUCATION]


def low_education():
    """Codes other than 1 and 2 (5385 rows) against 1 and 2 (24615)."""
    return np.where(np.isin(education(), (1, 2)), "high", "low")


@cache
def tantipongpipat():
    """All columns but ID and label; the repeated ones share one scale; three groups."""
    X = raw()[:, EDUCATION:LABEL].copy()
    X[:, : PAY - 1] /= X[:, : PAY - 1].std(axis=0, ddof=1)
    for first in (PAY - 1, BILL - 1, PAY_AMT - 1):
        X[:, first : first + 6] /= X[:, first : first + 6].std(ddof=1)
    code = education()
    return X, np.where(code <= 2, "1-2", np.where(code == 3, "3", "4+"))


@cache
def pelegrina():
    """Twenty columns without EDUCATION, SEX, MARRIAGE and label."""
    columns = [LIMIT_BAL, AGE, *range(PAY, LABEL)]
    return standardised(raw()[:, columns], ddof=1), low_education()


@cache
def olfat():
    """SEX to PAY_AMT6, population standard deviation."""
    return standardised(raw()[:, SEX:LABEL], ddof=0), low_education()
