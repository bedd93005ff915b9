"""From what the caller asked for to a source whose files are known to agree."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from fairpca._checks import check_choice
from fairpca.io import columnar, npy
from fairpca.io.columns import FEW_ROWS, Wanted, choose, counts_rows
from fairpca.io.delimited import Layout, TextSource, column_types, open_texts
from fairpca.io.files import DataFile, find_files
from fairpca.io.sources import Batch, Source, default_batch_rows


def open_source(
    source: Any,
    *,
    sensitive_features: Any,
    features: Sequence[Any] | None = None,
    drop: Sequence[Any] | None = None,
    sample_weight: Any = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
    batch_rows: int | None = None,
    layout: Layout | None = None,
) -> Source:
    """Look at every file, choose the columns and check that all files have them.

    Parameters
    ----------
    source, sensitive_features, features, drop, sample_weight, group_by, unlabelled, batch_rows, \
layout
        As in `read_moments`. Without any label, all rows are one group.

    Returns
    -------
    Source
        Nothing of it is read yet.

    Raises
    ------
    ValueError
        Naming the file and the column that does not fit, or the argument.
    """
    check_choice("group_by", group_by, ("intersection", "marginal"))
    check_choice("unlabelled", unlabelled, ("error", "ignore"))
    if batch_rows is not None and batch_rows < 1:
        raise ValueError(f"batch_rows={batch_rows!r} must be at least 1.")
    files, kind = find_files(source)
    ask: dict[str, Any] = {
        "features": _names(features, "features"),
        "drop": _names(drop, "drop"),
        "group_by": group_by,
        "unlabelled": unlabelled,
        "where": files[0].path,
    }
    if kind == "numpy":
        return _numpy(files, sensitive_features, sample_weight, ask, batch_rows)
    if sample_weight is not None and not isinstance(sample_weight, str):
        raise ValueError(
            f"sample_weight={type(sample_weight).__name__}: name the column of weights."
        )
    labels = _names(sensitive_features, "sensitive_features") or []
    ask |= {"labels": labels, "weight": sample_weight}
    if kind == "delimited":
        return _text(files, ask, batch_rows, layout or Layout())
    found = [columnar.open_columnar(file, kind) for file in files]
    schemas = [schema for schema, _ in found]
    wanted = choose(schemas[0].names, **ask)
    columnar.check_schemas(files, schemas, wanted)
    parts = tuple(rows for _, rows in found)
    return columnar.ColumnarSource(tuple(files), wanted, _rows(batch_rows, wanted), kind, parts)


def _text(files: list[DataFile], ask: Any, batch_rows: int | None, layout: Layout) -> Source:
    """Return the source of delimited files."""
    pa = columnar.arrow()
    texts = open_texts(files, layout)
    wanted = choose(texts[0].names, **ask)
    arrow_types = {
        "a number": pa.float64(),
        "a whole number": pa.int64(),
        "a fraction": pa.float64(),
        "a truth value": pa.bool_(),
        "a text": pa.string(),
    }
    kinds: dict[str, str] = {}
    schemas = []
    for file, text in zip(files, texts, strict=True):
        types = column_types(file, text, wanted)
        kinds = types | kinds
        fields = [(name, arrow_types.get(types.get(name, ""), pa.null())) for name in text.names]
        schemas.append(pa.schema(fields))
    columnar.check_schemas(files, schemas, wanted)
    # A label column without any value in the first rows is text, should there be values later.
    labels = {name: kinds.get(name, "a text") for name in wanted.plain_labels}
    return TextSource(tuple(files), wanted, _rows(batch_rows, wanted), tuple(texts), labels)


def _numpy(
    files: list[DataFile], labels: Any, weight: Any, ask: Any, batch_rows: int | None
) -> Source:
    """Return the source of .npy files, with labels and weights that may stand beside them."""
    shapes = npy.open_shapes(files)
    given = {npy.LABELS: labels} if weight is None else {npy.LABELS: labels, npy.WEIGHT: weight}
    arguments = {npy.LABELS: "sensitive_features", npy.WEIGHT: "sample_weight"}
    found = {
        name: npy.columns_or_values(value, arguments[name], files, shapes)
        for name, value in given.items()
    }
    named = {name: value for name, value in found.items() if isinstance(value, list)}
    beside = {name: value for name, value in found.items() if not isinstance(value, list)}
    wanted = choose(
        [f"column{j + 1}" for j in range(shapes[0][1])],
        labels=named.get(npy.LABELS, ()),
        weight=named[npy.WEIGHT][0] if npy.WEIGHT in named else None,
        **ask,
    )
    rows = _rows(batch_rows, wanted)
    wanted = npy.beside(wanted, beside)
    return npy.MappedSource(tuple(files), wanted, rows, shapes, beside)


def _rows(batch_rows: int | None, wanted: Wanted) -> int:
    return batch_rows or default_batch_rows(len(wanted.features))


def _names(given: Any, argument: str) -> list[str] | None:
    """Return a list of column names; numbers count the columns of .npy files from 0."""
    if given is None:
        return None
    if isinstance(given, str):
        return [given]
    if isinstance(given, int) and not isinstance(given, bool):
        given = [given]
    if not isinstance(given, Sequence) or isinstance(given, bytes | os.PathLike):
        raise ValueError(f"{argument}={given!r}: name columns of the files.")
    names = [f"column{e + 1}" if isinstance(e, int) else e for e in given]
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise ValueError(f"{argument} holds {odd[0]!r}; name columns of the files.")
    return names


def row_number_columns(open_with: Callable[[list[str]], Source], source: Source) -> list[str]:
    """Return the features that only number the rows, in every file.

    Parameters
    ----------
    open_with : callable
        Opens the same files with these features only. Few columns, if any, are read to the end.
    source : Source
        With all features; only its first batch is read.

    Returns
    -------
    list of str
        Whole numbers, each one more than the last.
    """
    first = next((batch for piece in source.pieces() for batch in source.batches(piece)), None)
    candidates = (
        [] if first is None else [name for name, column in _columns(first) if counts_rows(column)]
    )
    if not candidates:
        return []
    narrow = open_with(candidates)
    left, rows = set(candidates), [0] * len(narrow.files)
    last: dict[tuple[int, str], int] = {}
    for piece in narrow.pieces():
        for batch in narrow.batches(piece):
            rows[piece.file] += len(batch.groups.codes)
            for name, column in _columns(batch):
                if name in left and not counts_rows(column, last.get((piece.file, name))):
                    left.discard(name)
                last[piece.file, name] = column[-1].item()
        if not left:
            return []
    few = any(0 < count < FEW_ROWS for count in rows)
    return [] if few else [name for name in candidates if name in left]


def _columns(batch: Batch) -> list[tuple[str, Any]]:
    columns = batch.columns if isinstance(batch.columns, list) else list(batch.columns.T)
    return list(zip(batch.names, columns, strict=True))
