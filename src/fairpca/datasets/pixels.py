"""Crop mapping and Labeled Faces in the Wild: many rows, and many columns, of pixels."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path
from typing import Unpack

import numpy as np
from sklearn.utils import Bunch

from fairpca._arrays import AnyArray
from fairpca._check import check_choice
from fairpca.datasets.loading import Names, Options, Table, check_shape, need, obtain, reading
from fairpca.moments.storage import atomic_write

# What the labels 1 to 7 mean, as UCI documents them.
CROPS = ("corn", "peas", "canola", "soybeans", "oats", "wheat", "broadleaf")
# Rows, and the label with the features.
_CROP_SHAPE = (325834, 175)
_CROP_ARCHIVE = "crop+mapping+using+fused+optical+radar+data+set.zip"

# Rows and columns of a picture: with 42 x 42, as papers say, neighbouring pixels do not match.
IMAGE_SHAPE, _PICTURES = (49, 36), 13232
# What the labels 0 and 1 mean. The archive has the sex; `lfw.npz` may have all four.
_LABELS = {"sex": ("female", "male")} | {n: (f"not {n}", n) for n in ("white", "black", "asian")}


def _open_member(path: Path, name: str) -> io.BytesIO:
    """Return a member of a zip archive, or of an archive inside it, as UCI packs some tables."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if Path(member).name == name:
                return io.BytesIO(archive.read(member))
            if member.endswith(".zip"):
                with contextlib.suppress(KeyError), archive.open(member) as inner:
                    return io.BytesIO(zipfile.ZipFile(inner).read(name))
    raise ValueError(f"the archive has no {name}")


def fetch_crop_mapping(
    *, variant: str = "default", sensitive: str | None = "corn", **options: Unpack[Options]
) -> Bunch:
    """Load the crop pixels, grouped by crop.

    325,834 pixels of farmland near Winnipeg, Canada, seen by RapidEye (optical) and UAVSAR (radar)
    on 5 and 14 July 2012; 174 features: 49 radar and 38 optical ones for each date. The label is
    the crop: 1 corn (39,162), 2 peas (3,598), 3 canola (75,673), 4 soybeans (74,067), 5 oats
    (47,117), 6 wheat (85,074), 7 broadleaf (1,143). UCI Machine Learning Repository, data set 525,
    CC BY 4.0.

    variant="paper": features 1-173, standardised over all rows, groups A (corn) and B. The
    authors' script takes the 174th feature for a label.

    Accepted files: `WinnipegDataset.txt`, or the UCI archive, which is 91 MB.

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
    data_home, download_if_missing, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_crop_mapping
    >>> fetch_crop_mapping(sensitive="crop").data.shape  # doctest: +SKIP
    (325834, 174)
    """
    check_choice("variant", variant, ("default", "paper"))
    url = f"https://archive.ics.uci.edu/static/public/525/{_CROP_ARCHIVE}"
    names = ("WinnipegDataset.txt", _CROP_ARCHIVE)
    path = obtain(names, url, None, **options)
    # pyarrow rounds every number correctly; the default reader of pandas may miss the last digit.
    need("pyarrow")
    with reading(path):
        file = _open_member(path, names[0]) if path.suffix == ".zip" else path
        # The first row has the names of the columns.
        rows = need("pandas").read_csv(file, engine="pyarrow").to_numpy(dtype=np.float64)
        check_shape(rows, _CROP_SHAPE)
        crop = np.array(CROPS)[rows[:, 0].astype(int) - 1]
    groupings = {"corn": np.where(crop == "corn", "corn", "other crop"), "crop": crop}
    features = [f"f{j}" for j in range(1, rows.shape[1])]
    table = Table(rows[:, 1:], features, groupings, target=crop, target_name="crop")
    if variant == "paper":
        table = table.as_in_paper(crop == "corn", rows[:, 1:-1], features[:-1])
    return table.bunch(fetch_crop_mapping, path, sensitive, **options)


def _read_archive(path: Path) -> dict[str, AnyArray]:
    """Return the arrays of ``img0.txt ... img13231.txt`` and ``sex.txt``, wherever they lie."""
    x3 = np.zeros((_PICTURES, np.prod(IMAGE_SHAPE)), dtype=np.uint16)
    with zipfile.ZipFile(path) as archive:
        members = {Path(member).name: member for member in archive.namelist()}
        for i in range(_PICTURES):
            # Grey is the mean of three colours, so three times it is a whole number.
            x3[i] = np.rint(3 * np.loadtxt(io.BytesIO(archive.read(members[f"img{i}.txt"]))))
        sex = np.loadtxt(io.BytesIO(archive.read(members["sex.txt"])))
    return {"x3": x3, "sex": sex.astype(np.int8)}


def fetch_lfw_faces(
    *, variant: str = "default", sensitive: Names = "sex", **options: Unpack[Options]
) -> Bunch:
    """Load the faces, grouped by sex.

    13,232 photographs of faces found on news pages, cropped, reduced to 1764 grey pixels in [0, 1]
    and labelled female (2,962) or male (10,270) by S. Samadi, U. Tantipongpipat, J. Morgenstern,
    M. Singh and S. Vempala, "The Price of Fair PCA" (2018). Photographs: G. B. Huang, M. Ramesh,
    T. Berg and E. Learned-Miller, University of Massachusetts, Technical Report 07-49 (2007).
    No licence is stated with the archive. There is no target.

    Papers call them 42 x 42. The pixels form faces only as 49 x 36, the shape of `images`.

    variant="paper": the same pixels, groups A (female) and B (male).

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
    check_choice("variant", variant, ("default", "paper"))
    url = (
        "https://drive.usercontent.google.com/download?"
        "id=1oj6BwlPHZap4qYPGdGKObBzEXcPiuY9Y&export=download&confirm=t"
    )
    path = obtain(("lfw.npz", "fair-pca-data.zip"), url, None, **options)
    with reading(path):
        if path.suffix == ".zip":
            arrays = _read_archive(path)
            # Where nothing can be written, the archive is simply read again.
            with contextlib.suppress(OSError), atomic_write(path.with_name("lfw.npz")) as small:
                np.savez_compressed(small, **arrays)  # type: ignore[arg-type]
        else:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in ("x3", *_LABELS) if name in file.files}
        check_shape(arrays["x3"], (_PICTURES, int(np.prod(IMAGE_SHAPE))))
        groupings = {n: np.array(_LABELS[n])[arrays[n]] for n in _LABELS if n in arrays}
    pixels = arrays["x3"] / 765.0
    names = [f"pixel_{i}_{j}" for i in range(IMAGE_SHAPE[0]) for j in range(IMAGE_SHAPE[1])]
    if variant == "paper":
        groupings = {"group": np.where(groupings["sex"] == "female", "A", "B")}
    table = Table(pixels, names, groupings, extras={"images": pixels.reshape(-1, *IMAGE_SHAPE)})
    return table.bunch(fetch_lfw_faces, path, sensitive, **options)
