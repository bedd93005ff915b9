"""Files of moments: an npz archive without pickle, written whole or not at all.

What an archive holds is checked before it is believed: sizes before anything is unpacked, shapes,
and that all numbers are finite.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairpca._arrays import AnyArray
from fairpca.moments.groups import Label

#: The arrays of moments with one line a group.
ARRAYS = ("count", "weight", "offset", "scatter")
_FORMAT = 3
# Our writer does not compress; a member that unpacks to more than this many times its size was
# made to fill the memory.
_MOST_GROWTH = 10


@contextlib.contextmanager
def atomic_write(path: str | Path, mode: str = "wb", **kwargs: Any) -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` and move it there once it is complete.

    A failure leaves the old file, or none, and never half of one. A link stays, and what it leads
    to is replaced. OSError names `path`.
    """
    place = os.path.realpath(path)
    name = ""
    try:
        handle, name = tempfile.mkstemp(dir=os.path.dirname(place), prefix=".", suffix=".part")
        with os.fdopen(handle, mode, **kwargs) as file:
            yield file
        # mkstemp makes private files; a new one gets the permissions of an ordinary new file.
        umask = os.umask(0)
        os.umask(umask)
        old = os.path.exists(place)
        os.chmod(name, os.stat(place).st_mode & 0o7777 if old else 0o666 & ~umask)
        os.replace(name, place)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


@contextlib.contextmanager
def damage_named(what: str, remedy: str = "") -> Iterator[None]:
    """Turn every error into a ValueError that begins with `what` and repeats its first line.

    Damaged files make zipfile, json, NumPy and skops raise errors of nearly every kind, so no list
    of types would be complete. A file that is missing, or must not be read, and a library that is
    missing are no damage: these errors stay as they are.
    """
    try:
        yield
    except (FileNotFoundError, PermissionError, ImportError):
        raise
    except Exception as error:
        said = (str(error) or type(error).__name__).splitlines()[0][:200]
        end = f"; {remedy}" if remedy else "."
        raise ValueError(f"{what} ({said.rstrip('.')}){end}") from None


def check_growth(archive: zipfile.ZipFile) -> None:
    """Raise ValueError where a member of an archive unpacks to far more than it takes."""
    for info in archive.infolist():
        if info.file_size > _MOST_GROWTH * info.compress_size + 1000:
            raise ValueError(f"{info.filename} unpacks to {info.file_size:,} bytes")


def pack(moments: Any) -> dict[str, AnyArray]:
    """Return the arrays that `np.savez` writes; ValueError for labels a file cannot hold."""
    header = {
        "format": _FORMAT,
        "labels": [_encoded(label) for label in moments.labels],
        "names": list(moments.names),
        "feature_names": moments.feature_names,
    }
    arrays = {name: getattr(moments, name) for name in (*ARRAYS, "origin")}
    return {"header": np.array(json.dumps(header)), **arrays}


def read_parts(file: IO[bytes], name: str) -> dict[str, Any]:
    """Return the fields of `GroupMoments` from an open file, or raise ValueError naming it."""
    with damage_named(
        f"{name} is not a moments file that can be read", "write it again with GroupMoments.save."
    ):
        with zipfile.ZipFile(file) as archive:
            check_growth(archive)
        file.seek(0)
        with np.load(file, allow_pickle=False) as parts:
            return _unpacked({member: parts[member] for member in parts.files})


def _unpacked(parts: Mapping[str, AnyArray]) -> dict[str, Any]:
    """Return the fields of moments; ValueError unless the arrays can be moments of rows."""
    header = json.loads(str(parts["header"]))
    if header["format"] != _FORMAT:
        raise ValueError(
            f"it has the format {header['format']}, and this version of fairpca reads {_FORMAT}"
        )
    labels = tuple(_decoded(label) for label in header["labels"])
    if len(set(labels)) < len(labels):
        raise ValueError("two groups have the same label")
    k, n = len(labels), len(parts["origin"])
    shapes = {"count": (k,), "weight": (k,), "offset": (k, n), "scatter": (k, n, n)}
    fields: dict[str, Any] = {}
    for name, shape in {**shapes, "origin": (n,)}.items():
        part = parts[name]
        if part.shape != shape or part.dtype.kind not in "iuf" or not np.all(np.isfinite(part)):
            raise ValueError(
                f"{name} has shape {part.shape} and type {part.dtype}; {k} groups of {n} features "
                f"need finite numbers of shape {shape}"
            )
        fields[name] = part.astype(np.int64 if name == "count" else np.float64, copy=False)
    names, features = tuple(map(str, header["names"])), header["feature_names"]
    if features is not None and len(features) != n:
        raise ValueError(f"{len(features)} names of {n} columns")
    fields["feature_names"] = None if features is None else tuple(map(str, features))
    return {**fields, "labels": labels, "names": names}


def _encoded(label: Label) -> Any:
    """Return a label as JSON holds it, a tuple as a list; ValueError for any other type."""
    if isinstance(label, tuple):
        return [_encoded(part) for part in label]
    if label is None or isinstance(label, bool | int | float | str):
        return label
    raise ValueError(
        f"the label {label!r} of type {type(label).__name__} cannot be saved; use strings or "
        "numbers as group labels."
    )


def _decoded(label: Any) -> Label:
    return tuple(_decoded(part) for part in label) if isinstance(label, list) else label
