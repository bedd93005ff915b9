"""Crop mapping by fused optical and radar data: a large table without people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.datasets.cache import Remote, need
from fairpca.datasets.loading import UCI, Source, Table, expect, open_member

# What the labels 1 to 7 mean, as UCI documents them.
CROPS = ("corn", "peas", "canola", "soybeans", "oats", "wheat", "broadleaf")
# Pixels of each crop, and features after the label. No checksum of the file is known to us; these
# numbers take its place.
_COUNTS, _FEATURES = (39162, 3598, 75673, 74067, 47117, 85074, 1143), 174
# How UCI calls its archive.
_ARCHIVE = "crop+mapping+using+fused+optical+radar+data+set.zip"


def read_crop_rows(path: Path) -> FloatArray:
    """Read (m, 175) rows of ``label, f1, ..., f174``, with or without a header line."""
    # pyarrow rounds every number correctly; the default reader of pandas may miss the last digit.
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


_SOURCE = Source(
    accepted=("WinnipegDataset.txt", "WinnipegDataset.csv", "crop.csv", _ARCHIVE),
    remotes=(Remote(_ARCHIVE, f"{UCI}525/{_ARCHIVE}", check=_read),),
    read=_read,
    paper=lambda table: table.as_in_paper(
        table.groupings["corn"] == "corn",
        ("corn", "other crops"),
        table.data[:, :-1],
        table.feature_names[:-1],
    ).standardised(),
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

    325,834 pixels of farmland near Winnipeg, Canada, seen by RapidEye (optical) and UAVSAR (radar)
    on 5 and 14 July 2012; 174 features: 49 radar and 38 optical ones for each date. The label is
    the crop: 1 corn (39,162), 2 peas (3,598), 3 canola (75,673), 4 soybeans (74,067), 5 oats
    (47,117), 6 wheat (85,074), 7 broadleaf (1,143). UCI Machine Learning Repository, data set 525,
    CC BY 4.0.

    variant="paper": features 1-173, standardised over all rows, groups A (corn) and B. The
    authors' script takes the 174th feature for a label.

    Accepted files: `WinnipegDataset.txt` (or .csv), `crop.csv`, or the UCI archive, all verified
    by structure: rows, features, pixels of every crop.

    What is questionable:

    * There are no people in this table. Corn against other crops tests size, not harm.
    * Neighbouring pixels of one field are nearly copies of each other.
    * Many features are linear combinations of others (ratios and sums of the same bands).

    Parameters
    ----------
    variant : {"default", "paper"}, default="default"
        All 174 features as they are, or the matrix described above.
    sensitive : {"corn", "crop"} or None, default="corn"
        Groups: corn against other crops, or all seven crops. Ignored by ``variant="paper"``.
    data_home, download_if_missing, return_X_y, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_crop_mapping
    >>> fetch_crop_mapping(sensitive="crop").data.shape  # doctest: +SKIP
    (325834, 174)
    """
    options = (data_home, download_if_missing, return_X_y, as_frame)
    return _SOURCE.load(fetch_crop_mapping, sensitive, variant, *options)
