"""Files of moments: an npz archive without pickle, written whole or not at all, read to the end.

What an archive holds is checked as if a stranger had written it: every member's checksum, sizes
before anything is allocated, shapes, and that the numbers can be moments of any rows at all. A
certificate computed from a damaged or made-up file would prove nothing.

`pack` and `unpack` are the format; `read_parts` reads a file with all checks.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairpca._linalg import AnyArray
from fairpca.moments.label_codes import Label

#: The arrays of moments, each with one line a group.
ARRAYS = ("count", "weight", "mean", "mean_rest", "scatter")
# Format 2 knows what rounding left of the means; files of format 1 still load.
_FORMAT = 2
_SINCE_2 = ("mean_rest",)
# Negative eigenvalues of a scatter matrix up to this share of its trace are rounding of its sums;
# a matrix with larger ones is no scatter of any rows, and a proof about it would mean nothing.
_INDEFINITE = 1e-9
# Our writer does not compress; a member that grows by more than this when it is unpacked was made
# to fill the memory.
_MOST_GROWTH = 1000
# Characters of another library's error message that are repeated in ours; some run to pages.
_MOST_TEXT = 200


@contextlib.contextmanager
def atomic_write(path: str | Path, mode: str = "wb", **kwargs: Any) -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` and move it there once it is complete.

    A failure leaves the old file, or none, and never half of one. A link stays, and what it leads
    to is replaced; an old file's permissions stay, too. OSError names `path`.
    """
    name, place = "", os.path.realpath(path)
    try:
        # The name of the file itself may be as long as a name can be.
        folder = os.path.dirname(place)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".fairpca.", suffix=".part")
        with os.fdopen(handle, mode, **kwargs) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a new one gets the permissions of an ordinary new file.
        umask = os.umask(0)
        os.umask(umask)
        old = os.path.exists(place)
        os.chmod(name, stat.S_IMODE(os.stat(place).st_mode) if old else 0o666 & ~umask)
        os.replace(name, place)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if not isinstance(error, OSError):
            raise
        # Python names the temporary file or none, and NumPy says only how many numbers it wrote.
        code, why = error.errno or errno.EIO, error.strerror or f"cannot be written ({error})"
        raise OSError(code, why, str(path)) from error


def pack(
    arrays: Mapping[str, AnyArray],
    labels: Sequence[Label],
    names: Sequence[str],
    feature_names: Sequence[str] | None = None,
) -> Any:
    """Return the arrays that `np.savez` writes; ValueError for labels a file cannot hold."""
    header = {
        "format": _FORMAT,
        "labels": [_encode_label(label) for label in labels],
        "names": list(names),
        # Readers of earlier versions look for no names of columns, and go on without them.
        "feature_names": None if feature_names is None else list(feature_names),
    }
    return {"header": np.array(json.dumps(header)), **arrays}


def read_archive(file: IO[bytes], members: Sequence[str]) -> dict[str, AnyArray]:
    """Return arrays of an npz archive, each read to its end, where its checksum is compared.

    NumPy's own reader stops where the array ends, and never compares it.

    Parameters
    ----------
    file : binary file
    members : sequence of str
        Names of the arrays. Those that only newer formats have may be absent.

    Raises
    ------
    KeyError
        If a member is absent.
    ValueError
        If a member is longer than it says, or unpacks to far more than is stored.
    """
    found = {}
    with zipfile.ZipFile(file) as archive:
        held = set(archive.namelist())
        for member in members:
            if member in _SINCE_2 and f"{member}.npy" not in held:
                continue
            if f"{member}.npy" not in held:
                raise KeyError(member)
            info = archive.getinfo(f"{member}.npy")
            if info.file_size > _MOST_GROWTH * (info.compress_size + 1):
                raise ValueError(f"{member} unpacks to {info.file_size:,} bytes")
            stream = io.BytesIO(archive.read(info))
            found[member] = np.lib.format.read_array(stream, allow_pickle=False)
            if stream.read(1):
                raise ValueError(f"{member} is longer than it says")
    return found


@contextlib.contextmanager
def damage_named(what: str, remedy: str = "") -> Iterator[None]:
    """Turn every error into a ValueError that begins with `what` and repeats its first line.

    Damaged files make zipfile, json, NumPy and skops raise errors of nearly every kind, so no list
    of types would be complete. A file that is missing, or must not be read, is not damaged: these
    errors stay as they are.
    """
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        said = (str(error) or type(error).__name__).splitlines()[0][:_MOST_TEXT]
        lacks = f"it lacks {said}" if isinstance(error, KeyError) else said
        end = f"; {remedy}" if remedy else "."
        raise ValueError(f"{what} ({lacks.rstrip('.')}){end}") from None


def read_parts(file: IO[bytes], name: str) -> dict[str, Any]:
    """Return the fields of `GroupMoments` from an open file, or raise ValueError naming it."""
    with damage_named(
        f"{name} is not a moments file that can be read", "write it again with GroupMoments.save."
    ):
        return unpack(read_archive(file, ("header", *ARRAYS)))


def unpack(parts: Mapping[str, AnyArray]) -> dict[str, Any]:
    """Return the fields of `GroupMoments` from the arrays of an archive.

    Raises
    ------
    ValueError
        If the format is newer than this version, labels repeat, or the arrays cannot be moments.
    """
    header = json.loads(str(parts["header"]))
    if header["format"] > _FORMAT:
        raise ValueError(
            f"moments format {header['format']}, this version reads up to {_FORMAT}; upgrade "
            "fairpca"
        )
    labels = tuple(_decode_label(label) for label in header["labels"])
    names = tuple(str(name) for name in header["names"])
    if len(set(labels)) < len(labels):
        raise ValueError("two groups have the same label")
    arrays = {name: np.asarray(parts[name]) for name in ARRAYS if name in parts}
    _check_arrays(arrays, len(labels))
    columns = header.get("feature_names")
    columns = None if columns is None else tuple(map(str, columns))
    if columns is not None and len(columns) != arrays["mean"].shape[1]:
        raise ValueError(f"{len(columns)} names of {arrays['mean'].shape[1]} columns")
    return {**arrays, "labels": labels, "names": names, "feature_names": columns}


def _check_arrays(arrays: dict[str, AnyArray], k: int) -> None:
    """Raise ValueError unless stored arrays fit together and can be moments of rows.

    The scatter of every group must be symmetric and positive semidefinite, which a Cholesky
    factorisation tells. Counts become int64 and all other arrays float64, in place.
    """
    n = arrays["mean"].shape[-1]
    wanted = {"count": (k,), "weight": (k,), "scatter": (k, n, n)}
    for name, part in arrays.items():
        shape = wanted.get(name, (k, n))
        if part.shape != shape or part.dtype.kind not in "iuf" or not np.all(np.isfinite(part)):
            raise ValueError(
                f"{name} has shape {part.shape} and type {part.dtype}; {k} groups of {n} features "
                f"need finite numbers of shape {shape}"
            )
        arrays[name] = part.astype(np.int64 if name == "count" else np.float64, copy=False)
    if (arrays["count"] < 0).any() or (arrays["weight"] < 0).any():
        raise ValueError("a group has a negative number of rows or a negative weight")
    scatter = arrays["scatter"]
    slack = _INDEFINITE * np.einsum("kii->k", scatter)
    if np.any(np.abs(scatter - np.swapaxes(scatter, 1, 2)).max(axis=(1, 2), initial=0.0) > slack):
        raise ValueError("scatter is not symmetric")
    for matrix, allowed in zip(scatter, slack, strict=True):
        try:
            np.linalg.cholesky(matrix + (allowed + np.finfo(float).tiny) * np.eye(n))
        except np.linalg.LinAlgError:
            raise ValueError("scatter is not positive semidefinite") from None


def _encode_label(label: Label) -> Any:
    """Return a label as JSON holds it, a tuple as a list; ValueError for any other type."""
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
