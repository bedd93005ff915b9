"""Crop mapping by fused optical and radar data (Winnipeg, 2012).

325,834 pixels of farmland near Winnipeg, Canada, seen by RapidEye (optical) and UAVSAR (radar) on
5 and 14 July 2012; 174 features: 49 radar and 38 optical ones for each date. The label is
the crop. UCI Machine Learning Repository, data set 525, CC BY 4.0.

Crops: 1 corn (39,162), 2 peas (3,598), 3 canola (75,673), 4 soybeans (74,067), 5 oats (47,117),
6 wheat (85,074), 7 broadleaf (1,143).

What is questionable:

* There are no people in this table. "Corn" against "other crops" is a test of size, not of harm.
* Neighbouring pixels of one field are nearly copies of each other.
* Many features are linear combinations of others (ratios and sums of the same bands).

variant="paper": features 1-173, standardised over all rows, groups A (corn) and B. The authors'
script takes columns 2 to end-1 as if the last one were a label; it is the 174th feature.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.datasets.cache import Remote, need
from fairpca.datasets.loading import Source, Table, expect, open_member, standardise

# What the labels 1 to 7 mean, as UCI documents them.
CROPS = ("corn", "peas", "canola", "soybeans", "oats", "wheat", "broadleaf")
# Pixels of each crop. No checksum of the file is known to us; these numbers take its place.
_COUNTS = (39162, 3598, 75673, 74067, 47117, 85074, 1143)
# Features of every form of the file, after the label.
_FEATURES = 174
# How UCI calls its archive, and under which name it is kept.
_ARCHIVE = "crop+mapping+using+fused+optical+radar+data+set.zip"


def read_crop_rows(path: Path) -> FloatArray:
    """Read rows of ``label, f1, ..., f174``, with or without a header line.

    Parameters
    ----------
    path : Path
        The text file, or UCI's archive.

    Returns
    -------
    ndarray of shape (m, 175)
    """
    # pyarrow uses all cores and rounds every number correctly; the default reader of pandas may
    # miss the last digit.
    need("pyarrow")
    with open_member(path, "WinnipegDataset.txt", "WinnipegDataset.csv") as file:
        first = file.readline()
        file.seek(0)
        has_header = not first.split(b",")[0].strip().replace(b".", b"").isdigit()
        frame = need("pandas").read_csv(file, header=0 if has_header else None, engine="pyarrow")
    return np.asarray(frame.to_numpy(dtype=np.float64))


def _read(path: Path) -> Table:
    """Return the table, or raise ValueError unless it is the published one."""
    rows = read_crop_rows(path)
    m, n = rows.shape
    expect(n == _FEATURES + 1, path, f"{n} columns instead of a label and {_FEATURES} features")
    expect(m == sum(_COUNTS), path, f"{m} rows instead of {sum(_COUNTS)}")
    counts = tuple(int(np.sum(rows[:, 0] == code)) for code in range(1, len(CROPS) + 1))
    expect(counts == _COUNTS, path, f"pixels per crop are {counts} instead of {_COUNTS}")
    expect(np.isfinite(rows).all(), path, "it has missing values")
    crop = np.array(CROPS)[rows[:, 0].astype(int) - 1]
    groupings = {"corn": np.where(crop == "corn", "corn", "other crop"), "crop": crop}
    names = [f"f{j}" for j in range(1, _FEATURES + 1)]
    return Table(rows[:, 1:], names, groupings, target=crop, target_name="crop")


def _paper(table: Table) -> Table:
    """Return all features but the last, standardised."""
    data, corn = standardise(table.data[:, :-1]), table.groupings["corn"] == "corn"
    return table.as_in_paper(corn, ("corn", "other crops"), data, table.feature_names[:-1])


_SOURCE = Source(
    "fetch_crop_mapping",
    __doc__,
    accepted=("WinnipegDataset.txt", "WinnipegDataset.csv", "crop.csv", _ARCHIVE),
    remotes=(
        Remote(_ARCHIVE, f"https://archive.ics.uci.edu/static/public/525/{_ARCHIVE}", check=_read),
    ),
    read=_read,
    paper=_paper,
)


def fetch_crop_mapping(
    *,
    variant: str = "default",
    sensitive: str | None = "corn",
    data_home: str | Path | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load the crop pixels, grouped by crop.

    Parameters
    ----------
    variant : {"default", "paper"}, default="default"
        "default" has all 174 features as they are. "paper" is the standardised matrix of the Fair
        PCA paper, 173 features, with groups "A" (corn) and "B".
    sensitive : {"corn", "crop"} or None, default="corn"
        Groups: corn against other crops, or all seven crops. Ignored by ``variant="paper"``.
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
        `data`, `target` (name of the crop), `sensitive_features`, `sensitive_names`,
        `feature_names`, `frame`, `filename`, `DESCR`; with ``variant="paper"`` also
        `group_meaning`.

    Raises
    ------
    DataUnavailableError
        If the file is not there and cannot be downloaded.
    ValueError
        If the file that is there is not this table.

    Notes
    -----
    Accepted files: `WinnipegDataset.txt` (or .csv), `crop.csv`, or the UCI archive. No checksum of
    the archive is known to us, so it is verified by structure: 325,834 rows, a label and 174
    features, and the number of pixels of every crop.

    Examples
    --------
    >>> from fairpca.datasets import fetch_crop_mapping
    >>> pixels = fetch_crop_mapping(sensitive="crop")  # doctest: +SKIP
    >>> pixels.data.shape  # doctest: +SKIP
    (325834, 174)
    """
    return _SOURCE.load(sensitive, variant, data_home, download_if_missing, return_X_y, as_frame)
