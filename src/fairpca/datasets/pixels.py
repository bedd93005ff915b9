"""Crop mapping and Labeled Faces in the Wild: many rows, and many columns, of pixels."""

from __future__ import annotations

import contextlib
import io
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._arrays import AnyArray, FloatArray
from fairpca.datasets.cache import Remote, need
from fairpca.datasets.loading import UCI, Source, Table, check_digest, expect, open_member
from fairpca.moments.storage import atomic_write

# What the labels 1 to 7 mean, as UCI documents them.
CROPS = ("corn", "peas", "canola", "soybeans", "oats", "wheat", "broadleaf")
# Pixels of each crop, and features after the label. No checksum of the file is known to us; these
# numbers take its place.
_COUNTS, _FEATURES = (39162, 3598, 75673, 74067, 47117, 85074, 1143), 174
# How UCI calls its archive.
_ARCHIVE = "crop+mapping+using+fused+optical+radar+data+set.zip"

# Rows and columns of a picture: with 42 x 42, as papers say, neighbouring pixels do not match.
# Pictures, and pixels of each, in the archive of Samadi et al.
IMAGE_SHAPE, _PICTURES, _PIXELS = (49, 36), 13232, 1764
# SHA-256 of the arrays `x3` (uint16) and `sex` (int8), as used for the published numbers.
_DIGEST = "f27d1fe054ac8ef21b26940a96a906407fe5e7b9318299befe4c816a9cf9f809"
# What the labels 0 and 1 mean. The archive has the sex; `lfw.npz` may have all four.
_LABELS = {"sex": ("female", "male")} | {n: (f"not {n}", n) for n in ("white", "black", "asian")}


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


def _read_crop(path: Path) -> Table:
    """Return the table, or raise ValueError unless it is the published one."""
    rows = read_crop_rows(path)
    m, n = rows.shape
    expect(n == _FEATURES + 1, path, f"{n} columns instead of a label and {_FEATURES} features")
    expect(m == sum(_COUNTS), path, f"{m} rows instead of {sum(_COUNTS)}")
    counts = tuple(int(np.sum(rows[:, 0] == code)) for code in range(1, len(CROPS) + 1))
    expect(counts == _COUNTS, path, f"pixels per crop are {counts} instead of {_COUNTS}")
    crop = np.array(CROPS)[rows[:, 0].astype(int) - 1]
    groupings = {"corn": np.where(crop == "corn", "corn", "other crop"), "crop": crop}
    names = [f"f{j}" for j in range(1, _FEATURES + 1)]
    return Table(rows[:, 1:], names, groupings, target=crop, target_name="crop")


_CROP = Source(
    accepted=("WinnipegDataset.txt", "WinnipegDataset.csv", "crop.csv", _ARCHIVE),
    remotes=(Remote(_ARCHIVE, f"{UCI}525/{_ARCHIVE}", check=_read_crop),),
    read=_read_crop,
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
    return _CROP.load(fetch_crop_mapping, sensitive, variant, *options)


def _read_faces(path: Path) -> Table:
    """Return the pictures and every label the file has."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    else:
        arrays = _read_archive(path)
        # A faster next time; where nothing can be written, the archive is simply read again.
        with contextlib.suppress(OSError), atomic_write(path.with_name("lfw.npz")) as small:
            np.savez_compressed(small, **arrays)  # type: ignore[arg-type]
    expect({"x3", "sex"} <= set(arrays), path, f"it has only the arrays {sorted(arrays)}")
    expect(arrays["x3"].shape == (_PICTURES, _PIXELS), path, f"its x3 is {arrays['x3'].shape}")
    for name, values in arrays.items():
        rows = f"{name} has {len(values)} rows instead of {_PICTURES}"
        expect(len(values) == _PICTURES, path, rows)
    check_digest(_DIGEST, path, arrays["x3"], arrays["sex"].astype(np.int8))
    pixels = arrays["x3"] / 765.0
    return Table(
        pixels,
        [f"pixel_{i}_{j}" for i in range(IMAGE_SHAPE[0]) for j in range(IMAGE_SHAPE[1])],
        {name: np.array(_LABELS[name])[arrays[name]] for name in _LABELS if name in arrays},
        extras={"images": pixels.reshape(-1, *IMAGE_SHAPE)},
    )


def _read_archive(path: Path) -> dict[str, AnyArray]:
    """Return the arrays of ``img0.txt ... img13231.txt`` and ``sex.txt``, wherever they lie."""
    x3 = np.zeros((_PICTURES, _PIXELS), dtype=np.uint16)
    seen = np.zeros(_PICTURES, dtype=bool)
    labels: dict[str, AnyArray] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            name = Path(member).name
            picture = re.fullmatch(r"img(\d+)\.txt", name)
            if picture and int(picture[1]) < _PICTURES:
                values = np.loadtxt(io.BytesIO(archive.read(member)), ndmin=1).ravel()
                expect(values.size == _PIXELS, path, f"{name} has {values.size} pixels")
                # Grey is the mean of three colours, so three times it is a whole number.
                x3[int(picture[1])] = np.rint(3 * values)
                seen[int(picture[1])] = True
            elif name == "sex.txt":
                labels["sex"] = np.loadtxt(io.BytesIO(archive.read(member))).astype(np.int8)
    expect("sex" in labels, path, "the archive has no sex.txt")
    expect(seen.all(), path, f"the archive has {int(seen.sum())} of {_PICTURES} pictures")
    return {"x3": x3, **labels}


_FACES = Source(
    accepted=("lfw.npz", "fair-pca-data.zip"),
    remotes=(
        Remote(
            "fair-pca-data.zip",
            "https://drive.usercontent.google.com/download?"
            "id=1oj6BwlPHZap4qYPGdGKObBzEXcPiuY9Y&export=download&confirm=t",
            check=_read_archive,
        ),
    ),
    read=_read_faces,
    paper=lambda table: table.as_in_paper(
        table.groupings["sex"] == "female", ("female", "male"), table.data, table.feature_names
    ),
)


def fetch_lfw_faces(
    *,
    variant: str = "default",
    sensitive: str | Sequence[str] | None = "sex",
    data_home: str | Path | None = None,
    download_if_missing: bool = True,
    as_frame: bool = False,
) -> Any:
    """Load the faces, grouped by sex.

    13,232 photographs of faces found on news pages, cropped, reduced to 1764 grey pixels in [0, 1]
    and labelled female (2,962) or male (10,270) by S. Samadi, U. Tantipongpipat, J. Morgenstern,
    M. Singh and S. Vempala, "The Price of Fair PCA" (2018). Photographs: G. B. Huang, M. Ramesh,
    T. Berg and E. Learned-Miller, University of Massachusetts, Technical Report 07-49 (2007).
    There is no target.

    Papers call them 42 x 42. The pixels form faces only as 49 x 36, the shape of `images`.

    variant="paper": the same pixels, groups A (female) and B (male). The authors centre their M on
    the overall mean here, and the groups of the other tables one by one.

    Accepted files: `lfw.npz` (arrays `x3`, three times the grey value 0-255, and `sex`), or the
    archive of Samadi et al. with one text file a picture, read once and kept as `lfw.npz`.

    What is questionable:

    * Nobody in these pictures was asked. Their use for face recognition has been criticised for
      good reasons; use them to study harm.
    * The collection's own authors warn that it represents neither women, nor children, nor the
      old, nor most ethnicities well. Some people appear hundreds of times. Two sexes, assigned by
      others from a picture.
    * `white`, `black` and `asian` are 0/1 labels that overlap (3,632 pictures have two or three of
      them, 28 none) and look like the output of a classifier; we do not know who made them. A
      method that serves these groups serves a guess.

    Parameters
    ----------
    variant : {"default", "paper"}, default="default"
        Only the names of the groups differ.
    sensitive : {"sex", "white", "black", "asian"}, several of them, or None, default="sex"
        What makes the groups. The last three overlap: pass them together with
        ``FairPCA(group_by="marginal")``. Ignored by ``variant="paper"``.
    data_home, download_if_missing, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_lfw_faces
    >>> faces = fetch_lfw_faces()
    >>> faces.images.shape, int((faces.sensitive_features == "female").sum())
    ((13232, 49, 36), 2962)
    """
    options = (data_home, download_if_missing, False, as_frame)
    return _FACES.load(fetch_lfw_faces, sensitive, variant, *options)
