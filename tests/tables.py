"""The paper's matrices as rows and labels, built as the reference numbers describe."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from fairpca import FairPCA

from data_dir import data_path


def standardised(columns, ddof=1):
    return (columns - columns.mean(axis=0)) / columns.std(axis=0, ddof=ddof)


@cache
def bank():
    table = np.loadtxt(data_path("bank.csv"), delimiter=",")
    return standardised(table[:, 1:]), np.where(table[:, 0] >= 65, "A", "B")


@cache
def credit():
    table = np.loadtxt(data_path("default_degree.csv"), delimiter=",", skiprows=2)
    return standardised(np.delete(table[:, 1:], 0, axis=1)), np.where(table[:, 1] <= 1, "A", "B")


@cache
def faces():
    with np.load(data_path("lfw.npz")) as file:
        return file["x3"] / 765.0, np.where(file["sex"] == 0, "A", "B")


TABLES = {"BM": bank, "DCC": credit, "LFW": faces}


def _of_sklearn(load):
    X, labels = load(return_X_y=True)
    return standardised(X, ddof=0), labels


# Tables whose groups have different means, for the reference about the mean of all rows.
COMMON = {
    "iris": partial(_of_sklearn, load_iris),
    "wine": partial(_of_sklearn, load_wine),
    "cancer": partial(_of_sklearn, load_breast_cancer),
}


@cache
def credit_codes():
    """Return the 21 standardised features of the many-group reference, education and sex."""
    table = np.loadtxt(data_path("default_degree.csv"), delimiter=",", skiprows=2)
    return standardised(table[:, 3:24], ddof=0), table[:, 1].astype(int), table[:, 2].astype(int)


def education(k):
    """Return the k = 2, 3 or 4 education groups of the reference: 1 | 2 | 3 | rest, cut at k."""
    codes = credit_codes()[1]
    return np.where((codes >= 1) & (codes < k), codes, k)


def about_own_means(n_components=None, **options):
    """Return FairPCA with each group about its own mean, as published numbers have it."""
    return FairPCA(n_components, center="group", **options)
