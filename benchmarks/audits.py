"""Processor time of `audit` and `cross_fit`, default settings, tables of up to 2,000 x 30."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from benchmarks.race import say
from fairpca import audit, cross_fit


def _unlike(k: int, seed: int = 0) -> tuple[Any, Any]:
    """Return rows whose groups spread along columns of their own."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, k, 2000)
    return rng.normal(size=(2000, 30)) * np.exp(0.5 * rng.normal(size=(k, 30)))[groups], groups


def _digits() -> tuple[Any, Any]:
    X, digit = load_digits(return_X_y=True)
    return X[:, np.argsort(-X.var(axis=0))[:30]], digit


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Time every table: the least processor time of three calls each."""
    tables = {
        "wine": load_wine(return_X_y=True),
        "tumours": load_breast_cancer(return_X_y=True),
        "digits, widest columns": _digits(),
        **{f"{k} unlike groups": _unlike(k) for k in ((2, 5) if quick else (2, 3, 5, 10, 20, 40))},
    }
    lines = []
    for name, (X, groups) in tables.items():
        say(f"timing {name} ...")
        k = len(np.unique(groups))
        line: dict[str, Any] = {"table": name, "rows": f"{X.shape[0]} x {X.shape[1]}", "groups": k}
        for call in (audit, cross_fit):
            taken = []
            for _ in range(3):
                began = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    call(X, groups)
                taken.append(time.process_time() - began)
            line[f"{call.__name__} s"] = min(taken)
        lines.append(line)
    return lines
