"""Moments as plain arrays: what an npz file of moments holds, without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def unpack(file: Mapping[str, AnyArray], path: str | Path) -> dict[str, Any]:
    """Return the fields of `GroupMoments` from the arrays of an open file at `path`."""
    missing = {"header", *_ARRAYS} - set(file)
    if missing:
        raise ValueError(
            f"{path} is not a moments file: it lacks {', '.join(sorted(missing))}; write "
            "one with GroupMoments.save."
        )
    header = json.loads(str(file["header"]))
    if header["format"] > _FORMAT:
        raise ValueError(
            f"{path} has moments format {header['format']}, this version reads up to "
            f"{_FORMAT}; upgrade fairpca."
        )
    labels = tuple(_decode_label(label) for label in header["labels"])
    arrays = {name: file[name] for name in _ARRAYS}
    return {**arrays, "labels": labels, "names": tuple(header["names"])}


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
