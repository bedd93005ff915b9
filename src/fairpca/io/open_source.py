"""From what the caller asked for to a source whose files are known to agree."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from fairpca._checks import check_choice
from fairpca.io.delimited import Layout
from fairpca.io.files import DataFile, find_files
from fairpca.io.sources import Source, choose, default_batch_rows


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
    """Look at every file, pick the columns and check that all files have them.

    Parameters are those of `read_moments`.
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
        "path": files[0].path,
    }
    if kind == "numpy":
        return _numpy(files, sensitive_features, sample_weight, ask, batch_rows)
    labels = _names(sensitive_features, "sensitive_features")
    if not labels:
        raise ValueError("sensitive_features names no column; pass at least one.")
    if sample_weight is not None and not isinstance(sample_weight, str):
        raise ValueError(
            f"sample_weight={type(sample_weight).__name__}: name the column of weights."
        )
    ask |= {"labels": labels, "weight": sample_weight}
    if kind == "delimited":
        return _text(files, ask, batch_rows, layout or Layout())
    return _columnar(files, kind, ask, batch_rows)


def _columnar(files: list[DataFile], kind: str, ask: Any, batch_rows: int | None) -> Source:
    from fairpca.io import columnar

    look: Any = columnar.open_parquet if kind == "parquet" else columnar.open_arrow
    found = [look(file) for file in files]
    schemas = [schema for schema, _ in found]
    wanted = choose(schemas[0].names, **ask)
    columnar.check_schemas(files, schemas, wanted)
    rows = batch_rows or default_batch_rows(len(wanted.features))
    make: Any = columnar.ParquetSource if kind == "parquet" else columnar.ArrowFileSource
    made: Source = make(tuple(files), wanted, rows, tuple(parts for _, parts in found))
    return made


def _text(files: list[DataFile], ask: Any, batch_rows: int | None, layout: Layout) -> Source:
    from fairpca.io import columnar, text

    pa = columnar.arrow()
    texts = text.open_texts(files, layout)
    wanted = choose(texts[0].names, **ask)
    schemas = []
    for file, found in zip(files, texts, strict=True):
        shared = [name for name in wanted.columns if name in found.names]
        schema = text.text_schema(file, found, shared)
        # Whether the first numbers of a column are whole says nothing about the others.
        for name in shared:
            kind = schema.field(name).type
            if name not in wanted.plain_labels and kind in (pa.int64(), pa.null()):
                schema = schema.set(schema.names.index(name), pa.field(name, pa.float64()))
        schemas.append(schema)
    columnar.check_schemas(files, schemas, wanted)
    types = []
    for name in wanted.columns:
        kinds = [schema.field(name).type for schema in schemas]
        kind = next((kind for kind in kinds if kind != pa.null()), pa.null())
        types.append((name, str(kind)))
    rows = batch_rows or default_batch_rows(len(wanted.features))
    return text.TextSource(tuple(files), wanted, rows, tuple(texts), tuple(types))


def _numpy(
    files: list[DataFile], labels: Any, weight: Any, ask: Any, batch_rows: int | None
) -> Source:
    from fairpca.io import npy

    shapes, labels, weight = npy.open_arrays(files, labels, weight)
    names = [f"column{j + 1}" for j in range(shapes[0][1])]
    if weight is not None and isinstance(weight, list):
        ask["weight"], weight = weight[0], None
    else:
        ask["weight"] = None
    outside = None if isinstance(labels, list) else {"sensitive_feature": labels}
    wanted = choose(names, labels=labels if outside is None else (), **ask)
    rows = batch_rows or default_batch_rows(len(wanted.features))
    return npy.MappedSource(tuple(files), wanted, rows, tuple(shapes), outside, weight)


def _names(given: Any, argument: str) -> list[str] | None:
    """Return a list of column names; numbers count the columns of .npy files from 0."""
    if given is None:
        return None
    if isinstance(given, str):
        return [given]
    if isinstance(given, int) and not isinstance(given, bool):
        given = [given]
    entries = list(given) if isinstance(given, Sequence) else None
    if entries is None or isinstance(given, bytes | os.PathLike):
        raise ValueError(f"{argument}={given!r}: name columns of the files.")
    names = [f"column{e + 1}" if isinstance(e, int) else e for e in entries]
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise ValueError(f"{argument} holds {odd[0]!r}; name columns of the files.")
    return names
