"""Cases in which `python -m tools.fuzz` once found a promise broken stay mended."""

import subprocess
import sys
from pathlib import Path

import pytest

FOUND = [
    # A subspace that grew for ever by directions without variance.
    92010000758,
    # Components after the first, where nothing but rounding is left.
    71020001955,
    # A step of the interior-point method whose system is singular.
    71020002136,
    # A step that left no group any weight.
    71030000311,
    # Tiny weights refused, for the sake of directions in which rows have rounding only.
    510010000929,
    # Rough pairs in single precision, of a matrix beyond its range.
    510010003265,
    # A Krylov method that returned a direction more than it has values.
    520010002578,
    # A component too many for a share, where the published algorithm stops short.
    610010001797,
    # One row with all the weight, and shares of no variance.
    610010005183,
    # Distances between the means of small cells, lost beside a mean eleven orders larger.
    720010003998,
    # Equal wide rows, whose rounding was taken for variance.
    710010006731,
    # Rows that came one by one, and whose weights made nothing of the distance between them.
    3000020001297,
    # All weight on groups without variance, where distances of eigenvalues are nothing.
    3000040002569,
    # Eigenvalues of 1e-39, which ARPACK takes for zero and its first vectors for eigenvectors.
    3000040001901,
    # One row near the mean of all, whose distance from it has the rounding of that mean.
    3000040004441,
    # PCA's basis in place of one without a loss, though it loses half of a group.
    3100010000712,
    # Heavy rows that are equal, and whose light neighbours were taken for a distance.
    3100030000294,
    # A missing value in rows that count nowhere.
    3100160001477,
    # Many equal rows, whose squares are rounded the same way every time.
    3200020001307,
    # A step between groups whose slopes are next to nothing.
    3300050002075,
    # A gap below a resolution that is larger than all numbers: nothing to search.
    4400110002215,
    4400120004105,
    4400130003020,
    # A direction that ARPACK had missed, taken in roughly: its residual raised a loss.
    4400100001198,
    # Rows of more columns than rows, whose products were rounded over all columns.
    5500080000482,
    # A search whose descents knew the matrices by products only: slow.
    6600110003482,
    # Slopes so small that a second step is no number.
    7700040002340,
    # Wide rows far from zero: the mean of all rows was rounded more than a group lies from it.
    8800020002130,
    8800090000997,
    # Groups so far apart in size that the system of a step was infinite.
    9901090005393,
    # Cuts that nearly cancel: their sum was symmetric to the rounding of the cuts only.
    9901110000207,
    # A row whose share of the weight vanishes, times a square that does not.
    1201030002585,
    # Products of many groups, one vector at a time, where all columns at once are few: slow.
    1201100001625,
    # One minus the share of the heavier batch, of which few digits are left.
    1402050002448,
    # Coordinates of wide rows from a Cholesky factor of their inner products, which takes a third
    # of the time of a QR decomposition: a basis of large and tiny directions lost half its digits.
    7710005327,
    7710008854,
    # A group of one cell whose mean was rounded, and whose dust was taken for variance.
    8130040000293,
    # Limits that do not bind, and proofs that no longer move: slow.
    8110010000098,
    8120010000196,
]


@pytest.mark.slow
def test_cases_of_the_fuzzer_stay_mended():
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "tools.fuzz", "--case", *map(str, FOUND)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.count("every promise kept") == len(FOUND), done.stdout + done.stderr
