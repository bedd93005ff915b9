"""COMPAS recidivism scores (ProPublica, 2016), and the splits of Lee et al. (2022).

People scored by the COMPAS risk tool in Broward County, Florida, in 2013 and 2014, and whether
they were arrested again within two years; obtained and published by ProPublica (J. Angwin,
J. Larson, S. Mattu and L. Kirchner, "Machine Bias", 2016). ProPublica's terms apply; do not
redistribute.

variant="default": 6,172 of 7,214 rows after ProPublica's own filter (scored within 30 days of the
arrest, no missing outcome, no ordinary traffic offence, a score is given). Features: age, earlier
offences, degree of the charge, sex, race (0/1 columns). The score itself is no feature.

variant="splits": the ten train/test splits of J. Lee, G. Kim, M. Olfat, M. Hasegawa-Johnson and
C. D. Yoo, "Fast and Efficient MMD-based Fair PCA via Optimization over Stiefel Manifold" (2022),
made from 40 % of the rows and standardised by the training part; 11 features, of which one *is*
the group (race), as they used them.

What is questionable:

* The outcome is an arrest, not an offence: where and whom police arrest is part of the label.
* Race was written down by officers; "Caucasian" and "African-American" are their words.
* ProPublica's two-year window was applied to only some of the people who were arrested again,
  which makes the base rate too high (M. Barenstein, 2019).
* Fairness papers use this table for lack of another. M. Bao et al., "It's COMPASlicated" (2021),
  say why conclusions about justice should not be drawn from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._checks import check_choice
from fairpca.datasets.cache import Remote, need
from fairpca.datasets.loading import Source, Table, check_digest, expect, one_hot

# Columns of ProPublica's file that are features as they are.
_NUMERIC = ["age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
# Columns that become features, labels, or decide whether a row is kept.
_OTHERS = [
    "sex", "race", "c_charge_degree", "two_year_recid", "days_b_screening_arrest", "is_recid",
    "score_text",
]  # fmt: skip
# Rows of ProPublica's file before the filter.
_ROWS = 7214

# The features of the splits, in the order of their columns; the label and the group follow.
_SPLIT_NAMES = (
    "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count",
    "age_cat=25 - 45", "age_cat=Greater than 45", "age_cat=Less than 25", "c_charge_degree=F",
    "c_charge_degree=M",
)  # fmt: skip
# Rows of each part of a split: 70 % and 30 % of 2,468.
_SPLIT_ROWS = {"train": 1727, "test": 741}
# SHA-256 of the values of all twenty parts, in the order train_0, test_0, train_1, ...
_SPLIT_DIGEST = "c5f1ff16722acb46e398d58980ffa522ddb74806897fde428bb55030a4d073b2"
# Where the authors publish the parts as text, at a fixed commit.
_SPLIT_URL = (
    "https://raw.githubusercontent.com/nick-jhlee/fair-manifold-pca/"
    "888245a1e0c7d294bc8244164b79b6ddcb08ce72/datasets/COMPAS/"
)
# SHA-256 of the published text files, train and test of split 0 to 9.
_SPLIT_SHA256 = (
    ("a31668336c0f2b868b28bf049a11846db11538b09f7e242c662c69ce76e6725f",
     "f80253b7b07c1f50bfd2d871e0fdee8b81bb990969645304b6c5c0c45708a482"),
    ("f46a859ba4d4a1ae1a9c3273d7dacb8a761a7d1f7448d3be1b546c93478b1b97",
     "c1f7bc6de11466988933e931d86e0efa2b1301f235475d8726865335f41ca32e"),
    ("2b3da8cf37ea5416fb37ee14649622603b36ffa3660b0362f1d214cf0f0de5e6",
     "75dd462e70a65167e317efc4d484db1fbe99883f571846719cb09e23db52ea0e"),
    ("aa167e1d66a2a17a9985723ecb6282f177a78057644b8bd7b2edf905117b4071",
     "85c348f0f2ad7f79e3c2c4f9b677b40c379a4d7b1630254b1b5e630581b70c7b"),
    ("4a1b60eca14f1ee7b9e16431a2e0174ae22137b39b6242dd4f0b353277db7178",
     "8679aaacf36e1f4df67cb925f6b860643ee1596c4012824a35293cef89d42f93"),
    ("95afe84136d2bc5f3b04fb9b54e42efbcfe2e0f2b1dafff0f9d3c09994d89449",
     "0bba33fcd7c38448fe2b6474649428c90734afd00a77625959b6ed0d84bacf9d"),
    ("805d0730dcfec8c8a8bd46e36f2f5761d91a32306590cbc61f46db0fb816ca88",
     "61ad1d8aa522f8153f5358501114fc4ab33c67890a194a712377356a5f8096ee"),
    ("d2ac95684b2c3bc5b8210bdc01a29dd67ad41c42df34e6d0caa945cd59c469dd",
     "0ea5cb0011941287b87df71327bcd212c84224568aa3a9398e0b07b7d27f6f48"),
    ("63f946d6a221dc93ec1fbcc4add75d383ffd045a7e25826061aaa8fc609ce5a3",
     "b4674f63079dd47f4b2b07566bbad879755861bb4036f2fc2df3ca15b1d5aea5"),
    ("dcb28637d60dce4ae3ac62c7478ec7cadb376a862579693b9d3a042cc14f1b17",
     "d8db06c5753e1e5bbe3f8c76eed4066b775483dc617064e7b26afa35667df561"),
)  # fmt: skip


def _read(path: Path) -> Table:
    """Return ProPublica's table after ProPublica's filter."""
    frame = need("pandas").read_csv(path)
    missing = {*_NUMERIC, *_OTHERS} - set(frame.columns)
    expect(not missing, path, f"it has no column {', '.join(sorted(missing))}")
    expect(len(frame) == _ROWS, path, f"{len(frame)} rows instead of {_ROWS}")
    keep = (
        frame["days_b_screening_arrest"].between(-30, 30)
        & (frame["is_recid"] != -1)
        & (frame["c_charge_degree"] != "O")
        & frame["score_text"].notna()
        & (frame["score_text"] != "N/A")
    )
    frame = frame[keep].reset_index(drop=True)
    frame["felony"] = frame["c_charge_degree"] == "F"
    data, names = one_hot(frame[[*_NUMERIC, "felony", "sex", "race"]], ("sex", "race"))
    return Table(
        data,
        names,
        {name: frame[name].to_numpy().astype(str) for name in ("race", "sex")},
        target=frame["two_year_recid"].to_numpy().astype(np.int64),
        target_name="two_year_recid",
    )


_SOURCE = Source(
    "fetch_compas",
    __doc__,
    accepted=("compas-scores-two-years.csv",),
    remotes=(
        Remote(
            "compas-scores-two-years.csv",
            "https://raw.githubusercontent.com/propublica/compas-analysis/"
            "bafff5da3f2e45eca6c2d5055faad269defd135a/compas-scores-two-years.csv",
            # Recorded by several public projects that pin this file; not computed by us.
            sha256="c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
        ),
    ),
    read=_read,
)


def _split_source(split: int, subset: str) -> Source:
    """Return the source of one part of one split: one archive of all parts, or its text file."""
    name = f"{subset}_{split}"
    sha256 = _SPLIT_SHA256[split][list(_SPLIT_ROWS).index(subset)]

    def read(path: Path) -> Table:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                parts = {f"{s}_{i}": file[f"{s}_{i}"] for i in range(10) for s in _SPLIT_ROWS}
            check_digest(_SPLIT_DIGEST, path, *parts.values())
            values = parts[name]
        else:
            values = np.loadtxt(path, delimiter=",")
        wanted = (_SPLIT_ROWS[subset], len(_SPLIT_NAMES) + 2)
        expect(values.shape == wanted, path, f"{name} has shape {values.shape}, not {wanted}")
        return Table(
            values[:, :-2],
            _SPLIT_NAMES,
            {"race": np.where(values[:, -1] == 1, "Caucasian", "other")},
            target=values[:, -2].astype(np.int64),
            target_name="two_year_recid",
            keep_groups=True,
        )

    text = f"compas_splits/{name}.csv"
    return Source(
        'fetch_compas(variant="splits")',
        __doc__,
        accepted=("compas_splits.npz", text),
        remotes=(Remote(text, f"{_SPLIT_URL}{name}.csv", sha256=sha256),),
        read=read,
    )


def fetch_compas(
    *,
    variant: str = "default",
    sensitive: str | Sequence[str] | None = "race",
    split: int = 0,
    subset: str = "train",
    data_home: str | Path | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load the COMPAS records, grouped by race.

    Parameters
    ----------
    variant : {"default", "splits"}, default="default"
        "default" is ProPublica's table after ProPublica's filter, without the group column.
        "splits" are the standardised matrices of Lee et al. (2022), race kept as a feature. (The
        paper of Shen et al. does not use this table.)
    sensitive : {"race", "sex"}, both, or None, default="race"
        What makes the groups. None keeps all columns and makes no groups. Ignored by
        ``variant="splits"``, whose groups are "Caucasian" and "other".
    split : int, default=0
        Which of the ten splits, 0 to 9. Used by ``variant="splits"`` only.
    subset : {"train", "test"}, default="train"
        Which part of the split. Used by ``variant="splits"`` only.
    data_home : path, optional
        Directory of data files; default FAIRPCA_DATA, then the user's cache directory.
    download_if_missing : bool, default=True
        Whether to download the file if it is not there; otherwise that is an error.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.
    as_frame : bool, default=False
        Return pandas objects instead of arrays.

    Returns
    -------
    Bunch
        `data`, `target` (1 = arrested again), `sensitive_features`, `sensitive_names`,
        `feature_names`, `frame`, `filename`, `DESCR`.

    Raises
    ------
    DataUnavailableError
        If the file is not there and cannot be downloaded.
    ValueError
        If the file that is there is not this table.

    Notes
    -----
    Accepted files: `compas-scores-two-years.csv` (downloaded; its SHA-256 is the one several
    public projects record), and for the splits `compas_splits.npz` or the published text files
    under `compas_splits/` (downloaded, with known SHA-256).

    Examples
    --------
    >>> from fairpca.datasets import fetch_compas
    >>> records = fetch_compas(variant="splits", split=3, subset="test")
    >>> records.data.shape, sorted(set(records.sensitive_features))
    ((741, 11), ['Caucasian', 'other'])
    """
    check_choice("variant", variant, ("default", "splits"))
    source = _SOURCE
    if variant == "splits":
        check_choice("split", split, tuple(range(10)))
        check_choice("subset", subset, tuple(_SPLIT_ROWS))
        source, sensitive = _split_source(split, subset), "race"
    return source.load(sensitive, "default", data_home, download_if_missing, return_X_y, as_frame)
