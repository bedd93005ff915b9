"""What a linear model makes of projected rows, by group, on rows it has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairpca._linalg import AnyArray, IntArray


def held_out_scores(
    projected: Mapping[str, AnyArray], y: Any, members: Sequence[IntArray], *, seed: int = 0
) -> dict[str, Any]:
    """Fit a linear model on half of the rows and score it on the other half.

    Parameters
    ----------
    projected : mapping of str to ndarray of shape (m, r)
        Rows as each reducer projects them.
    y : array-like of shape (m,)
        Classes (logistic regression, accuracy) or numbers (ridge regression, R squared).
    members : sequence of ndarray of int
        Rows of every group.
    seed : int
        Of the split.

    Returns
    -------
    dict
        "score" names the score; "reducers" maps each name to {"all": float, "groups": list}; a
        group without enough held-out rows has None.
    """
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.multiclass import type_of_target

    target = np.asarray(y)
    classes = type_of_target(target) in ("binary", "multiclass")
    _, counts = np.unique(target, return_counts=True) if classes else (None, np.array([2]))
    if classes and len(counts) < 2:
        raise ValueError("y has one class only; pass a target that varies.")
    fit, test = train_test_split(
        np.arange(len(target)),
        test_size=0.5,
        random_state=seed,
        stratify=target if classes and counts.min() >= 2 else None,
    )
    held_out = np.zeros(len(target), dtype=bool)
    held_out[test] = True
    found: dict[str, Any] = {}
    for name, Z in projected.items():
        model = LogisticRegression(max_iter=1000) if classes else Ridge()
        fitted = make_pipeline(StandardScaler(), model).fit(Z[fit], target[fit])

        def score(rows: IntArray, Z: AnyArray = Z, fitted: Any = fitted) -> float | None:
            rows = rows[held_out[rows]]
            if len(rows) < 2 or (not classes and np.ptp(target[rows]) == 0):
                return None
            return float(fitted.score(Z[rows], target[rows]))

        found[name] = {"all": score(test), "groups": [score(rows) for rows in members]}
    return {"score": "accuracy" if classes else "R squared", "reducers": found}
