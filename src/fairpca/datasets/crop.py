"""Crop mapping by fused optical and radar data (Winnipeg, 2012)."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairpca._checks import check_choice
from fairpca._linalg import FloatArray
from fairpca.datasets.bunch import expect, make_bunch, standardise
from fairpca.datasets.cache import Remote, need, obtain

_DESCR = """\
Crop Mapping (fused optical and radar)
--------------------------------------
325,834 pixels of farmland near Winnipeg, Canada, seen by RapidEye (optical) and UAVSAR (radar) on
5 and 14 July 2012; 174 features: 49 radar and 38 optical ones for each date. The label is
the crop. UCI Machine Learning Repository, data set 525, CC BY 4.0.

Crops: 1 corn (39,162), 2 peas (3,598), 3 canola (75,673), 4 soybeans (74,067), 5 oats (47,117),
6 wheat (85,074), 7 broadleaf (1,143).

What is questionable
* There are no people in this table. "Corn" against "other crops" is a test of size, not of harm.
* Neighbouring pixels of one field are nearly copies of each other.
* Many features are linear combinations of others (ratios and sums of the same bands).

variant="paper": features 1-173, standardised over all rows, groups A (corn) and B. The authors'
script takes columns 2 to end-1 as if the last one were a label; it is the 174th feature.
"""

CROPS = ("corn", "peas", "canola", "soybeans", "oats", "wheat", "broadleaf")
_COUNTS = (39162, 3598, 75673, 74067, 47117, 85074, 1143)
_FEATURES = 174

_REMOTES = (
    Remote(
        "crop+mapping+using+fused+optical+radar+data+set.zip",
        "https://archive.ics.uci.edu/static/public/525/"
        "crop+mapping+using+fused+optical+radar+data+set.zip",
        check=lambda path: _check(_read(path, "crop.zip"), path),
    ),
)
_ACCEPTED = ("WinnipegDataset.txt", "WinnipegDataset.csv", "crop.csv", _REMOTES[0].name)


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
    return_X_y : bool, default=False
        Return ``(data, target)`` only.
    as_frame : bool, default=False
        Return pandas objects.

    Returns
    -------
    Bunch
        `data`, `target` (name of the crop), `sensitive_features`, `sensitive_names`,
        `feature_names`, `frame`, `filename`, `DESCR`.

    Notes
    -----
    Accepted files: `WinnipegDataset.txt` (or .csv), `crop.csv`, or the UCI archive. No checksum of
    the archive is known to us, so it is verified by structure: 325,834 rows, a label and 174
    features, and the number of pixels of every crop.
    """
    check_choice("variant", variant, ("default", "paper"))
    check_choice("sensitive", sensitive, ("corn", "crop", None))
    path = obtain(
        "fetch_crop_mapping",
        accepted=_ACCEPTED,
        remotes=_REMOTES,
        data_home=data_home,
        download_if_missing=download_if_missing,
    )
    table = _read(path, path.name)
    _check(table, path)
    label = table[:, 0].astype(int)
    target = np.array(CROPS)[label - 1]
    groupings: dict[str, Any] = {}
    data, n_kept, extras = table[:, 1:], _FEATURES, {}
    if variant == "paper":
        n_kept = _FEATURES - 1
        data = standardise(data[:, :n_kept])
        groupings["group"] = np.where(label == 1, "A", "B")
        extras = {"group_meaning": {"A": "corn", "B": "other crops"}}
    elif sensitive == "crop":
        groupings["crop"] = target
    elif sensitive == "corn":
        groupings["corn"] = np.where(label == 1, "corn", "other crop")
    return make_bunch(
        data,
        [f"f{j}" for j in range(1, n_kept + 1)],
        groupings,
        target=target,
        target_name="crop",
        descr=_DESCR,
        filename=path,
        as_frame=as_frame,
        return_X_y=return_X_y,
        extras=extras,
    )


def read_crop_rows(file: Path | IO[bytes]) -> FloatArray:
    """Read rows of ``label, f1, ..., f174``, with or without a header line."""
    pd = need("pandas")
    need("pyarrow")
    if isinstance(file, Path):
        with open(file, "rb") as opened:
            return read_crop_rows(opened)
    first = file.readline()
    file.seek(0)
    has_header = not first.split(b",")[0].strip().replace(b".", b"").isdigit()
    frame = pd.read_csv(file, header=0 if has_header else None, engine="pyarrow")
    return np.asarray(frame.to_numpy(dtype=np.float64))


def _read(path: Path, name: str) -> FloatArray:
    if not name.endswith(".zip"):
        return read_crop_rows(path)
    with zipfile.ZipFile(path) as archive:
        return _read_archive(archive, path)


def _read_archive(archive: zipfile.ZipFile, path: Path) -> FloatArray:
    for member in archive.namelist():
        if Path(member).name in ("WinnipegDataset.txt", "WinnipegDataset.csv"):
            return read_crop_rows(io.BytesIO(archive.read(member)))
    for member in archive.namelist():
        if member.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(archive.read(member))) as inner:
                return _read_archive(inner, path)
    raise ValueError(f"{path}: the archive has no WinnipegDataset.txt")


def _check(table: FloatArray, path: Path) -> None:
    expect(
        table.ndim == 2 and table.shape[1] == _FEATURES + 1,
        path,
        f"{table.shape[-1]} columns instead of a label and {_FEATURES} features",
    )
    rows = sum(_COUNTS)
    expect(len(table) == rows, path, f"{len(table)} rows instead of {rows}")
    counts = tuple(int(np.sum(table[:, 0] == code)) for code in range(1, len(CROPS) + 1))
    expect(counts == _COUNTS, path, f"pixels per crop are {counts} instead of {_COUNTS}")
    expect(bool(np.isfinite(table).all()), path, "it has missing values")
