"""Labeled Faces in the Wild, at the size Samadi et al. (2018) prepared."""

from __future__ import annotations

import contextlib
import io
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._linalg import AnyArray
from fairpca.datasets.cache import Remote
from fairpca.datasets.loading import Source, Table, check_digest, expect
from fairpca.moments.storage import atomic_write

# Rows and columns of a picture: with 42 x 42, as papers say, neighbouring pixels do not match.
# Pictures, and pixels of each, in the archive of Samadi et al.
IMAGE_SHAPE, _ROWS, _PIXELS = (49, 36), 13232, 1764
# SHA-256 of the arrays `x3` (uint16) and `sex` (int8), as used for the published numbers.
_DIGEST = "f27d1fe054ac8ef21b26940a96a906407fe5e7b9318299befe4c816a9cf9f809"
# What the labels 0 and 1 mean. The archive has the sex; `lfw.npz` may have all four.
_LABELS = {"sex": ("female", "male")} | {n: (f"not {n}", n) for n in ("white", "black", "asian")}


def _read(path: Path) -> Table:
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
    expect(arrays["x3"].shape == (_ROWS, _PIXELS), path, f"its x3 is {arrays['x3'].shape}")
    for name, values in arrays.items():
        expect(len(values) == _ROWS, path, f"{name} has {len(values)} rows instead of {_ROWS}")
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
    x3 = np.zeros((_ROWS, _PIXELS), dtype=np.uint16)
    seen = np.zeros(_ROWS, dtype=bool)
    labels: dict[str, AnyArray] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            name = Path(member).name
            picture = re.fullmatch(r"img(\d+)\.txt", name)
            if picture and int(picture[1]) < _ROWS:
                values = np.loadtxt(io.BytesIO(archive.read(member)), ndmin=1).ravel()
                expect(values.size == _PIXELS, path, f"{name} has {values.size} pixels")
                # Grey is the mean of three colours, so three times it is a whole number.
                x3[int(picture[1])] = np.rint(3 * values)
                seen[int(picture[1])] = True
            elif name == "sex.txt":
                labels["sex"] = np.loadtxt(io.BytesIO(archive.read(member))).astype(np.int8)
    expect("sex" in labels, path, "the archive has no sex.txt")
    expect(seen.all(), path, f"the archive has {int(seen.sum())} of {_ROWS} pictures")
    return {"x3": x3, **labels}


_SOURCE = Source(
    accepted=("lfw.npz", "fair-pca-data.zip"),
    remotes=(
        Remote(
            "fair-pca-data.zip",
            "https://drive.usercontent.google.com/download?"
            "id=1oj6BwlPHZap4qYPGdGKObBzEXcPiuY9Y&export=download&confirm=t",
            check=_read_archive,
        ),
    ),
    read=_read,
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
    return _SOURCE.load(fetch_lfw_faces, sensitive, variant, *options)
