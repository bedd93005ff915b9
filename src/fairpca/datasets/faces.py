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

from fairpca._checks import check_choice
from fairpca._linalg import AnyArray
from fairpca.datasets.bunch import check_digest, expect, make_bunch
from fairpca.datasets.cache import Remote, obtain, resolve_home
from fairpca.moments.storage import atomic_write

_DESCR = """\
Labeled Faces in the Wild, 1764 grey pixels
-------------------------------------------
13,232 photographs of faces found on news pages, cropped, reduced to 1764 grey pixels in [0, 1] and
labelled female (2,962) or male (10,270) by S. Samadi, U. Tantipongpipat, J. Morgenstern, M. Singh
and S. Vempala, "The Price of Fair PCA" (2018). Photographs: G. B. Huang, M. Ramesh, T. Berg and
E. Learned-Miller, University of Massachusetts, Technical Report 07-49 (2007).

Papers call the images 42 x 42. The pixels form faces only as 49 rows of 36 columns; `images` has
that shape. PCA does not mind.

What is questionable
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

IMAGE_SHAPE = (49, 36)
_ROWS, _PIXELS = 13232, 1764
_DIGEST = "f27d1fe054ac8ef21b26940a96a906407fe5e7b9318299befe4c816a9cf9f809"
_LABELS = {
    "sex": ("female", "male"),
    "white": ("not white", "white"),
    "black": ("not black", "black"),
    "asian": ("not asian", "asian"),
}

_REMOTES = (
    Remote(
        "fair-pca-data.zip",
        "https://drive.usercontent.google.com/download?"
        "id=1oj6BwlPHZap4qYPGdGKObBzEXcPiuY9Y&export=download&confirm=t",
        check=lambda path: _check(_read_archive(path), path),
    ),
)
_ACCEPTED = ("lfw.npz", "fair-pca-data.zip")


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
    as_frame : bool, default=False
        Return pandas objects.

    Returns
    -------
    Bunch
        `data` (13232, 1764), `images` (13232, 49, 36), `target` None, `sensitive_features`,
        `sensitive_names`, `feature_names`, `frame`, `filename`, `DESCR`.

    Notes
    -----
    Accepted files: `lfw.npz` (arrays `x3`, three times the grey value 0-255, and `sex`), or the
    archive of Samadi et al. with one text file a picture, which is read once and kept as
    `lfw.npz`. No checksum of that archive is known to us and it lives on a file-sharing
    service; it is verified by structure: 13,232 pictures of 1764 pixels and as many labels.
    """
    check_choice("variant", variant, ("default", "paper"))
    path = obtain(
        "fetch_lfw_faces",
        accepted=_ACCEPTED,
        remotes=_REMOTES,
        data_home=data_home,
        download_if_missing=download_if_missing,
    )
    arrays = _read(path, resolve_home(data_home))
    _check(arrays, path)
    check_digest(_DIGEST, path, arrays["x3"], arrays["sex"].astype(np.int8))
    pixels = arrays["x3"] / 765.0
    extras: dict[str, Any] = {"images": pixels.reshape(-1, *IMAGE_SHAPE)}
    if variant == "paper":
        groupings = {"group": np.where(arrays["sex"] == 0, "A", "B")}
        extras["group_meaning"] = {"A": "female", "B": "male"}
    else:
        chosen = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive or ())
        known = tuple(name for name in _LABELS if name in arrays)
        for name in chosen:
            check_choice("sensitive", name, known)
        groupings = {name: np.array(_LABELS[name])[arrays[name]] for name in chosen}
    rows, columns = np.divmod(np.arange(_PIXELS), IMAGE_SHAPE[1])
    return make_bunch(
        pixels,
        [f"pixel_{i}_{j}" for i, j in zip(rows, columns, strict=True)],
        groupings,
        target=None,
        target_name="",
        descr=_DESCR,
        filename=path,
        as_frame=as_frame,
        extras=extras,
    )


def _read(path: Path, home: Path) -> dict[str, AnyArray]:
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    arrays = _read_archive(path)
    # A faster next time; where nothing can be written, the archive is simply read again.
    with contextlib.suppress(OSError), atomic_write(home / "lfw.npz") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return arrays


def _read_archive(path: Path) -> dict[str, AnyArray]:
    """Read ``img0.txt ... img13231.txt`` and ``sex.txt`` from anywhere in the archive."""
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
    expect(bool(seen.all()), path, f"the archive has {int(seen.sum())} of {_ROWS} pictures")
    return {"x3": x3, **labels}


def _check(arrays: dict[str, AnyArray], path: Path) -> None:
    expect({"x3", "sex"} <= set(arrays), path, f"it has only the arrays {sorted(arrays)}")
    expect(arrays["x3"].shape == (_ROWS, _PIXELS), path, f"its x3 is {arrays['x3'].shape}")
    for name, values in arrays.items():
        expect(len(values) == _ROWS, path, f"{name} has {len(values)} rows instead of {_ROWS}")
