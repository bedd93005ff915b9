"""The reference numbers: two groups from the authors' matrices, 56 cases of many groups."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import fairpca
from fairpca import GroupMoments

from data_dir import data_path, reference
from tables import TABLES

RANKS = {"BM": (1, 2, 4, 8, 10, 15), "DCC": (1, 4, 5, 10, 15), "LFW": (1, 50, 100, 200)}


@cache
def two_groups(name):
    return GroupMoments.from_array(*TABLES[name]()).covariances


@pytest.mark.parametrize("name", ["BM", "DCC", pytest.param("LFW", marks=pytest.mark.slow)])
def test_two_groups(name):
    for r in RANKS[name]:
        want = reference("two_groups.json")[name]["r"][str(r)]
        found = fairpca.solve(two_groups(name), r)
        u = found.components
        assert found.certificate.value == pytest.approx(want["phi_star"], rel=1e-9), r
        assert abs(found.losses[0] / found.losses[1] - 1) <= 1e-10, r
        assert found.certificate.gap <= 1e-10, r
        assert np.abs(u @ u.T - np.eye(r)).max() <= 1e-12
        assert found.weights[0] == pytest.approx(want["t_star"], abs=1e-6)
        # The two decompositions for the groups' own sums are counted.
        assert found.n_eigen <= 12


@cache
def credit():
    """Return the names and the columns of the credit table, label included."""
    path = data_path("default_degree.csv")
    names = path.read_text().splitlines()[1].split(",")[1:]
    return names, np.loadtxt(path, delimiter=",", skiprows=2)[:, 1:]


def per_group(rows, codes):
    return GroupMoments.from_array(rows, codes).covariances


def credit_covariances(grouping, features):
    """Build the matrices as the reference file says."""
    names, table = credit()
    education, sex = (table[:, names.index(name)].astype(int) for name in ("EDUCATION", "SEX"))
    columns = [
        i
        for i, name in enumerate(names[:-1])
        if features == 23 or name not in ("EDUCATION", "SEX")
    ]
    rows = table[:, columns]
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    plain = grouping.removeprefix("sex_")
    # Codes 1, 2, ... on their own, everything else together and last.
    k = int(plain.removeprefix("edu"))
    codes = np.where((education >= 1) & (education < k), education, k) if k < 7 else education
    return per_group(rows, codes if plain == grouping else 10 * sex + codes)


@pytest.mark.parametrize("features", [21, 23])
@pytest.mark.parametrize(
    "grouping", ["edu2", "edu3", "edu4", "edu7", "sex_edu2", "sex_edu3", "sex_edu4"]
)
def test_many_groups(grouping, features):
    covariances = credit_covariances(grouping, features)
    for r, known in reference("many_groups.json")[grouping][str(features)].items():
        found = fairpca.solve(covariances, int(r)).certificate
        # A search may prove more than the dual, and a smaller value is welcome.
        assert found.lower_bound >= known["phi"] * (1 - 1e-8), r
        assert found.value <= known["value"] * (1 + 1e-9), r
        assert found.lower_bound <= found.value
        if known["gap"] < 1e-10:
            assert found.lower_bound == pytest.approx(known["phi"], rel=1e-8), r
            assert found.gap <= 1e-10, r


def test_the_open_gap_of_four_levels_at_rank_six():
    certificate = fairpca.solve(credit_covariances("edu4", 21), 6).certificate
    assert certificate.lower_bound >= 0.61604943 - 5e-9
    assert certificate.value <= 0.61850470 + 5e-9
    assert certificate.gap <= 1e-3


@cache
def tantipongpipat():
    """The three-group credit matrices of Tantipongpipat et al. 2019."""
    names, table = credit()
    rows = table[:, :-1].copy()

    def kind(name):
        return next((p for p in ("PAY_AMT", "BILL_AMT", "PAY_") if name.startswith(p)), name)

    for one in {kind(name) for name in names[:-1]}:
        block = [i for i, name in enumerate(names[:-1]) if kind(name) == one]
        rows[:, block] /= rows[:, block].std(ddof=1)
    education = table[:, names.index("EDUCATION")]
    return per_group(rows, np.where(education <= 2, 0, np.where(education == 3, 1, 2)))


@pytest.mark.parametrize(
    "r, value", [(1, 0.2081496461), (2, 0.1908603989), (5, 0.5093941501), (10, 0.3821848905)]
)
def test_published_three_group_losses(r, value):
    certificate = fairpca.solve(tantipongpipat(), r).certificate
    assert certificate.value == pytest.approx(value, abs=1e-7)
    assert certificate.gap <= 1e-10


def test_published_max_min_variance():
    certificate = fairpca.solve(tantipongpipat(), 5, criterion="variance").certificate
    assert -certificate.value == pytest.approx(13.06532739, abs=1e-7)
    assert certificate.gap <= 1e-10
