"""Where numbers come from: versions, a hash of the data, parameters."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Iterable
from typing import Any

from fairpca._linalg import AnyArray

_LIBRARIES = ("fairpca", "numpy", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """Return the versions of Python and of every library a number depends on."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed as a package"
    return found


def data_hash(arrays: Iterable[AnyArray | None], texts: Iterable[str] = ()) -> str:
    """Return the SHA-256 of arrays (type, shape and content) and texts, in order.

    Parameters
    ----------
    arrays : iterable of ndarray or None
        Numeric arrays of any memory layout; the layout does not change the hash.
    texts : iterable of str
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none")
            continue
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        # Row blocks: a transposed or strided array is never copied whole.
        step = max(1, (1 << 22) // max(1, array[:1].nbytes))
        for start in range(0, len(array), step):
            digest.update(array[start : start + step].tobytes())
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def provenance(arrays: Iterable[AnyArray | None], texts: Iterable[str], **parameters: Any) -> Any:
    """Return versions, the hash of the data and the parameters as one plain dictionary."""
    return {
        "versions": versions(),
        "data_sha256": data_hash(arrays, texts),
        "parameters": parameters,
    }
