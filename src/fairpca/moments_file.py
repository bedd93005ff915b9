"""Moments as plain arrays: what an npz file of moments holds, without pickle."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from fairpca.arrays import AnyArray
from fairpca.labels import Label

if TYPE_CHECKING:
    from fairpca.moments import GroupMoments

_FORMAT = 1
_ARRAYS = ("count", "weight", "mean", "scatter")


def pack(moments: GroupMoments) -> dict[str, AnyArray]:
    """Return the arrays that `np.savez` writes; ValueError for labels a file cannot hold."""
    header = json.dumps(
        {
            "format": _FORMAT,
            "labels": [_encode_label(label) for label in moments.labels],
            "names": list(moments.names),
        }
    )
    return {"header": np.array(header), **{name: getattr(moments, name) for name in _ARRAYS}}


def read_parts(file: IO[bytes], name: str) -> dict[str, Any]:
    """Return the fields of `GroupMoments` from an open file, or raise ValueError naming it."""
    try:
        stored = np.load(file, allow_pickle=False)
        known = set(getattr(stored, "files", ()))
        parts = {part: np.asarray(stored[part]) for part in ("header", *_ARRAYS) if part in known}
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        ValueError,
        NotImplementedError,
    ) as error:
        raise ValueError(
            f"{name} is not a readable moments file ({error}); write it again with "
            "GroupMoments.save."
        ) from None
    return unpack(parts, name)


def unpack(file: Mapping[str, AnyArray], path: str | Path) -> dict[str, Any]:
    """Return the fields of `GroupMoments` from the arrays of the file at `path`."""
    missing = {"header", *_ARRAYS} - set(file)
    if missing:
        raise ValueError(
            f"{path} is not a moments file: it lacks {', '.join(sorted(missing))}; write "
            "one with GroupMoments.save."
        )
    try:
        header = json.loads(str(file["header"]))
        if header["format"] > _FORMAT:
            raise ValueError(
                f"moments format {header['format']}, this version reads up to {_FORMAT}; "
                "upgrade fairpca"
            )
        labels = tuple(_decode_label(label) for label in header["labels"])
        arrays = {name: file[name] for name in _ARRAYS}
        _check_arrays(arrays, len(labels))
        return {**arrays, "labels": labels, "names": tuple(header["names"])}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be used: {error}.") from None


def _check_arrays(arrays: dict[str, AnyArray], k: int) -> None:
    """Raise ValueError unless stored arrays fit together and are finite."""
    n = arrays["mean"].shape[-1]
    wanted = {"count": (k,), "weight": (k,), "mean": (k, n), "scatter": (k, n, n)}
    for name, shape in wanted.items():
        part = arrays[name]
        if part.shape != shape or part.dtype.kind not in "iuf" or not np.all(np.isfinite(part)):
            raise ValueError(
                f"{name} has shape {part.shape} and type {part.dtype}; {k} groups of {n} features "
                f"need finite numbers of shape {shape}"
            )


def _encode_label(label: Label) -> Any:
    if isinstance(label, tuple):
        return [_encode_label(part) for part in label]
    if label is None or isinstance(label, bool | int | float | str):
        return label
    raise ValueError(
        f"the label {label!r} of type {type(label).__name__} cannot be saved; use strings or "
        "numbers as group labels."
    )


def _decode_label(label: Any) -> Label:
    return tuple(_decode_label(part) for part in label) if isinstance(label, list) else label
