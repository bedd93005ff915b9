"""The paper's matrices as rows and labels, built as the reference numbers describe."""

from __future__ import annotations

from functools import cache

import numpy as np
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
