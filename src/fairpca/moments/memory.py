"""The memory that moments need, stated before the work and refused where it is too much.

The scatter of k groups with n features takes 8 k n^2 bytes; nothing else in the moments is of that
size.
"""

from __future__ import annotations

import os
from numbers import Real
from typing import Any

# Share of the machine's memory that moments may take when no limit is given: the solver needs a
# few matrices of the same size beside them.
_SHARE = 0.25


def moments_bytes(n_features: int, n_groups: int) -> int:
    """Bytes of the scatter matrices of this many groups: ``k n^2 8``."""
    return n_groups * n_features**2 * 8


def default_limit() -> int:
    """Bytes that moments may take when the caller names no limit: a quarter of the memory."""
    try:
        return int(_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return 4 * 2**30


def check_fits(n_features: int, n_groups: int, what: str, remedy: str) -> None:
    """Raise MemoryError, saying of `what` and how to mend it, where moments would not fit."""
    size = moments_bytes(n_features, n_groups)
    if size > default_limit():
        raise MemoryError(
            f"the covariances of {what} take {readable(size)}, more than a quarter of the memory; "
            f"{remedy}."
        )


def check_moments_size(
    n_features: int, n_groups: int, limit: int | None = None, *, copies: int = 1
) -> str:
    """Return the sentence that states the memory of the moments, or refuse it.

    Parameters
    ----------
    n_features, n_groups : int
        Groups are the combinations of labels that occur, unlabelled rows included.
    limit : int, optional
        Most bytes; by default a quarter of the machine's memory.
    copies : int
        Partial moments held at the same time, one a worker.

    Raises
    ------
    MemoryError
        Naming the sizes, the limit and what to do.
    ValueError
        If the limit is no number.
    """
    allowed = default_limit() if limit is None else limit
    given: Any = allowed
    if not isinstance(given, Real):
        raise ValueError(f"memory_limit={limit!r} must be a number of bytes, such as {2 * 10**9}.")
    needed = moments_bytes(n_features, n_groups) * copies
    at_once = f", {copies} at a time" if copies > 1 else ""
    size = (
        f"{n_groups} group(s) of {n_features:,} features need {readable(needed)} of moments"
        f"{at_once}"
    )
    if needed > allowed:
        most = int((allowed / (8 * n_groups * copies)) ** 0.5)
        raise MemoryError(
            f"{size}, more than the limit of {readable(allowed)}: about {most:,} features fit. "
            "Choose fewer columns or groups, raise memory_limit, or pass the rows as "
            "fairpca.distributed.parquet.operators(...) or dask.operators(...) to "
            "FairPCA.fit_operators, which reads them once an iteration and forms no moments."
        )
    return f"{size} (limit {readable(allowed)})"


def readable(size: float) -> str:
    """Return bytes as a person writes them."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"
