"""Labeled Faces in the Wild, at the size Samadi et al. (2018) prepared.

13,232 photographs of faces found on news pages, cropped, reduced to 1764 grey pixels in [0, 1] and
labelled female (2,962) or male (10,270) by S. Samadi, U. Tantipongpipat, J. Morgenstern, M. Singh
and S. Vempala, "The Price of Fair PCA" (2018). Photographs: G. B. Huang, M. Ramesh, T. Berg and
E. Learned-Miller, University of Massachusetts, Technical Report 07-49 (2007).

Papers call the images 42 x 42. The pixels form faces only as 49 rows of 36 columns; `images` has
that shape. PCA does not mind.

What is questionable:

* Nobody in these pictures was asked. They are mostly public figures, photographed for the news,
  and their use for face recognition has been criticised for good reasons; use them to study harm.
* The collection's own authors warn that it represents neither women, nor children, nor the old,
  nor most ethnicities well. Some people appear hundreds of times.
* Two sexes, assigned by others from a picture.
* `white`, `black` and `asian` are 0/1 labels that overlap (3,632 pictures have two or three of
  them, 28 none) and look like the output of a classifier; we do not know who made them. A method
  that serves these groups serves a guess.

There is no target: the only label the file has besides these is the sex.

variant="paper": the pixels as they are, groups A (female) and B (male), which is also the default
up to the names of the groups. The authors centre their M on the overall mean here, and the groups
of the other tables one by one.
"""

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

# Rows and columns of a picture. With 42 x 42, as papers say, neighbouring pixels do not match.
IMAGE_SHAPE = (49, 36)
# Pictures, and pixels of each, in the archive of Samadi et al.
_ROWS, _PIXELS = 13232, 1764
# SHA-256 of the arrays `x3` (uint16) and `sex` (int8), as used for the published numbers.
_DIGEST = "f27d1fe054ac8ef21b26940a96a906407fe5e7b9318299befe4c816a9cf9f809"
# What the labels 0 and 1 mean. The archive has the sex; `lfw.npz` may have all four.
_LABELS = {
    "sex": ("female", "male"),
    "white": ("not white", "white"),
    "black": ("not black", "black"),
    "asian": ("not asian", "asian"),
}


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


def _paper(table: Table) -> Table:
    """Return the same pixels with the paper's names of the groups."""
    female = table.groupings["sex"] == "female"
    return table.as_in_paper(female, ("female", "male"), table.data, table.feature_names)


_SOURCE = Source(
    "fetch_lfw_faces",
    __doc__,
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
    paper=_paper,
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

    Parameters
    ----------
    variant : {"default", "paper"}, default="default"
        The pixels are the same; "paper" calls the groups "A" (female) and "B" (male).
    sensitive : {"sex", "white", "black", "asian"}, several of them, or None, default="sex"
        What makes the groups. The last three overlap: pass them together with
        ``FairPCA(group_by="marginal")``. Ignored by ``variant="paper"``.
    data_home : path, optional
        Directory of data files; default FAIRPCA_DATA, then the user's cache directory.
    download_if_missing : bool, default=True
        Whether to download the file if it is not there; otherwise that is an error.
    as_frame : bool, default=False
        Return pandas objects instead of arrays.

    Returns
    -------
    Bunch
        `data` (13232, 1764), `images` (13232, 49, 36), `target` None, `sensitive_features`,
        `sensitive_names`, `feature_names`, `frame`, `filename`, `DESCR`; with
        ``variant="paper"`` also `group_meaning`.

    Raises
    ------
    DataUnavailableError
        If the file is not there and cannot be downloaded.
    ValueError
        If the file that is there is not this table.

    Notes
    -----
    Accepted files: `lfw.npz` (arrays `x3`, three times the grey value 0-255, and `sex`), or the
    archive of Samadi et al. with one text file a picture, which is read once and kept as
    `lfw.npz`. No checksum of that archive is known to us and it lives on a file-sharing
    service; it is verified by structure: 13,232 pictures of 1764 pixels and as many labels.

    Examples
    --------
    >>> from fairpca.datasets import fetch_lfw_faces
    >>> faces = fetch_lfw_faces()
    >>> faces.images.shape, int((faces.sensitive_features == "female").sum())
    ((13232, 49, 36), 2962)
    """
    return _SOURCE.load(sensitive, variant, data_home, download_if_missing, False, as_frame)
