"""Columns that only number the rows of their file, found without reading the others."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from fairpca._linalg import AnyArray
from fairpca.io.sources import Source
from fairpca.io.text import TextSource

# Fewer rows than this number anything.
_FEW = 3


def row_number_columns(open_with: Callable[[list[str]], Source], source: Source) -> list[str]:
    """Return the features that are whole numbers, each one more than the last, in every file.

    Parameters
    ----------
    open_with : callable
        Opens the same files with these features only.
    source : Source
        With all of them; only its first batch is read.
    """
    whole = isinstance(source, TextSource)
    first = next((b for piece in source.pieces() for b in source.batches(piece)), None)
    if first is None:
        return []
    columns = first.columns if isinstance(first.columns, list) else list(first.columns.T)
    names = [
        name
        for name, column in zip(source.wanted.features, columns, strict=True)
        if _counts(column, None, whole)
    ]
    if not names:
        return []
    return _confirmed(open_with(names), names, whole)


def _confirmed(source: Source, names: Collection[str], whole: bool) -> list[str]:
    left = set(names)
    last: dict[str, float] = {}
    rows = [0] * len(source.files)
    file = -1
    for piece in source.pieces():
        if piece.file != file:
            file, last = piece.file, {}
        for batch in source.batches(piece):
            columns = batch.columns if isinstance(batch.columns, list) else list(batch.columns.T)
            rows[file] += len(columns[0])
            for name, column in zip(source.wanted.features, columns, strict=True):
                if name in left and not _counts(column, last.get(name), whole):
                    left.discard(name)
                last[name] = column[-1].item()
        if not left:
            return []
    if any(0 < count < _FEW for count in rows):
        return []
    return [name for name in source.wanted.features if name in left]


def _counts(column: AnyArray, before: float | None, whole: bool) -> bool:
    """Whether a part of a column goes on counting; text is read as floats, whole or not."""
    if column.dtype.kind not in ("iuf" if whole else "iu"):
        return False
    start = column[0].item()
    if start != int(start) or (before is not None and start != before + 1):
        return False
    return bool(np.all(np.diff(column) == 1))
