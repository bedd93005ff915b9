"""Hundreds and thousands of groups: processor time, and the gap that is left."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import fairpca
from fairpca import FairPCA, GroupMoments


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Solve covariances of rows, by `fairpca.solve` and by `FairPCA`."""
    rows = []
    # Groups of eight rows in eight columns differ so much that a gap is left.
    for k, n, r, each, spread in (
        (220, 100, 5, 20, 0.5),
        (1000, 8, 2, 8, 0.0),
        (1000, 8, 4, 8, 0.0),
        *(() if quick else ((5000, 8, 2, 8, 0.0), (5000, 8, 4, 8, 0.0))),
    ):
        rng = np.random.default_rng(0)
        labels = np.repeat(np.arange(k), each)
        X = rng.normal(size=(len(labels), n)) * np.exp(spread * rng.normal(size=(k, n)))[labels]
        moments = GroupMoments.from_array(X, labels)
        line: dict[str, Any] = {"groups": f"{k} x {n}, r={r}"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            begin = time.process_time()
            line["FairPCA gap"] = FairPCA(r).fit_moments(moments).certificate_.gap
            line["FairPCA s"] = time.process_time() - begin
            begin = time.process_time()
            matrices = moments.second_moments(moments.pooled().mean)
            line["solve gap"] = fairpca.solve(matrices, r).certificate.gap
            line["solve s"] = time.process_time() - begin
        rows.append(line)
    return rows
