"""Files of moments: an npz archive without pickle, written whole or not at all.

What an archive holds is checked before it is believed: shapes, and that all numbers are finite.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairpca._arrays import AnyArray, fetched

#: The arrays of moments with one line a group.
ARRAYS = ("count", "weight", "offset", "scatter")
_ABOUT = ("labels", "names", "feature_names")
_FORMAT = 3


@contextlib.contextmanager
def atomic_write(path: str | Path, mode: str = "wb", **kwargs: Any) -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` and move it there once it is complete.

    A failure leaves the old file, or none, and never half of one. A link stays, and what it leads
    to is replaced. OSError names `path`.
    """
    place = os.path.realpath(path)
    part = f"{place}.{secrets.token_hex(4)}.part"
    try:
        with open(part, mode, **kwargs) as file:
            yield file
        if os.path.exists(place):
            shutil.copymode(place, part)
        os.replace(part, place)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


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


def write_parts(moments: Any, file: IO[bytes]) -> None:
    """Write moments to an open file; ValueError for labels that a file cannot hold."""
    about = {name: getattr(moments, name) for name in _ABOUT}
    try:
        header = json.dumps({"format": _FORMAT, **about})
    except TypeError as error:
        raise ValueError(
            f"a label cannot be saved; use strings or numbers as group labels ({error})."
        ) from None
    arrays: Any = {name: fetched(getattr(moments, name)) for name in (*ARRAYS, "origin")}
    np.savez(file, header=np.array(header), **arrays)


def read_parts(file: IO[bytes], name: str) -> dict[str, Any]:
    """Return the fields of `GroupMoments` from an open file, or raise ValueError naming it."""
    with (
        damage_named(
            f"{name} is not a moments file that can be read",
            "write it again with GroupMoments.save.",
        ),
        np.load(file, allow_pickle=False) as parts,
    ):
        return _unpacked(parts)


def _unpacked(parts: Mapping[str, AnyArray]) -> dict[str, Any]:
    """Return the fields of moments; ValueError unless the arrays can be moments of rows."""
    header = json.loads(str(parts["header"]))
    if header["format"] != _FORMAT:
        raise ValueError(
            f"it has the format {header['format']}, and this version of fairpca reads {_FORMAT}"
        )
    fields = {name: parts[name] for name in (*ARRAYS, "origin")}
    about = {name: _as_tuples(header[name]) for name in _ABOUT}
    k, n = len(set(about["labels"])), len(fields["origin"])
    shapes = {"count": (k,), "weight": (k,), "offset": (k, n), "scatter": (k, n, n)}
    for name, part in fields.items():
        shape = shapes.get(name, (n,))
        if part.shape != shape or part.dtype.kind not in "iuf" or not np.all(np.isfinite(part)):
            raise ValueError(
                f"{name} has shape {part.shape} and type {part.dtype}; {k} groups of {n} features "
                f"need finite numbers of shape {shape}"
            )
    return {**fields, **about}


def _as_tuples(value: Any) -> Any:
    """Return what JSON made lists of tuples of as it was."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
