"""An audit as a dictionary, as a frame, and back from a dictionary that may be hostile."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.arrays import FloatArray
from fairpca.audit.findings import FORMAT, MEASURES, Audit, Finding, GroupRow, LeftOut
from fairpca.extras import require
from fairpca.labels import Label
from fairpca.solve.solution import Certificate

_KIND = "fairpca audit"


def audit_to_dict(audit: Audit) -> dict[str, Any]:
    """Return the audit as plain lists, numbers and strings."""
    return {
        "kind": _KIND,
        "format": FORMAT,
        "verdict": audit.verdict(),
        "n_components": audit.n_components,
        "gap": {f.reducer: f.gap for f in audit.findings if f.n_components == audit.n_components},
        "ranks": list(audit.ranks),
        "reducers": list(audit.reducers),
        "group_columns": list(audit.group_columns),
        "group_by": audit.group_by,
        "groups": [
            {
                "label": _plain(group.label),
                "text": group.text,
                "count": group.count,
                "weight": group.weight,
                "variance": group.variance,
                "small": group.small,
            }
            for group in audit.groups
        ],
        "findings": [_finding_to_dict(finding, audit) for finding in audit.findings],
        "left_out": [
            {
                "group": audit.groups[row.group].text,
                "index": row.group,
                "reducer": row.reducer,
                "loss_with": row.loss_with,
                "loss_without": row.loss_without,
            }
            for row in audit.left_out
        ],
        "scores": audit.scores,
        "warnings": list(audit.warnings),
        "provenance": audit.provenance,
    }


def _finding_to_dict(finding: Finding, audit: Audit) -> dict[str, Any]:
    return {
        "reducer": finding.reducer,
        "n_components": finding.n_components,
        "worst_group": audit.groups[finding.worst].text,
        "worst_loss": finding.worst_loss,
        "best_group": audit.groups[finding.best].text,
        "best_loss": finding.best_loss,
        "gap": finding.gap,
        "total_error": finding.total_error,
        "price": finding.price,
        "cut": finding.cut,
        "cut_interval": None if finding.cut_interval is None else list(finding.cut_interval),
        "certificate": {
            "value": finding.certificate.value,
            "lower_bound": finding.certificate.lower_bound,
            "gap": finding.certificate.gap,
            "resolution": finding.certificate.resolution,
            "optimal": finding.certificate.optimal,
        },
        **{name: finding.measure(name).tolist() for name in MEASURES},
        "intervals": {name: pairs.tolist() for name, pairs in finding.intervals.items()},
    }


def _plain(label: Label) -> Any:
    if isinstance(label, tuple):
        return [_plain(part) for part in label]
    if label is None or isinstance(label, bool | int | str):
        return label
    if isinstance(label, float) and np.isfinite(label):
        return label
    return str(label)


def audit_from_dict(data: Any) -> Audit:
    """Read an audit; every field is checked, since the file may come from anywhere."""
    if not isinstance(data, dict) or data.get("kind") != _KIND:
        raise ValueError(
            "this is not an audit: write one with `Audit.to_json` or `fairpca audit --json`."
        )
    if data.get("format") != FORMAT:
        raise ValueError(
            f"the audit has format {data.get('format')!r} and this version reads {FORMAT}; "
            "use the version of fairpca that wrote it, or write it again."
        )
    try:
        return _audit_from_dict(data)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"the audit is damaged: {what}; write it again.") from None


def _audit_from_dict(data: dict[str, Any]) -> Audit:
    groups = tuple(_group_from_dict(row) for row in data["groups"])
    k = len(groups)
    findings = tuple(_finding_from_dict(row, k) for row in data["findings"])
    audit = Audit(
        n_components=int(data["n_components"]),
        ranks=tuple(int(r) for r in data["ranks"]),
        reducers=_texts(data["reducers"]),
        groups=groups,
        group_columns=_texts(data["group_columns"]),
        group_by=str(data["group_by"]),
        findings=findings,
        left_out=tuple(_left_out_from_dict(row, k) for row in data["left_out"]),
        scores=_mapping(data["scores"]),
        warnings=_texts(data["warnings"]),
        provenance=_mapping(data["provenance"]),
    )
    if not groups or not findings:
        raise ValueError("it has no groups or no findings")
    for name in ("PCA", "FairPCA"):
        if not all(audit.has(name, r) for r in (audit.n_components, *audit.ranks)):
            raise ValueError(f"it has no finding for {name} at some number of components")
    return audit


def _group_from_dict(row: dict[str, Any]) -> GroupRow:
    return GroupRow(
        label=_label(row["label"]),
        text=str(row["text"]),
        count=int(row["count"]),
        weight=_number(row["weight"]),
        variance=_number(row["variance"]),
        small=bool(row["small"]),
    )


def _finding_from_dict(row: dict[str, Any], k: int) -> Finding:
    interval = row["cut_interval"]
    certificate = row["certificate"]
    return Finding(
        reducer=str(row["reducer"]),
        n_components=int(row["n_components"]),
        **{name: _numbers(row[name], (k,)) for name in MEASURES},
        total_error=_number(row["total_error"]),
        price=_number(row["price"]),
        cut=_number(row["cut"]),
        certificate=Certificate(
            lower_bound=_number(certificate["lower_bound"]),
            value=_number(certificate["value"]),
            gap=_number(certificate["gap"]),
            resolution=_number(certificate["resolution"]),
        ),
        intervals={
            str(name): _numbers(pairs, (k, 2))
            for name, pairs in row["intervals"].items()
            if name in MEASURES
        },
        cut_interval=None if interval is None else (_number(interval[0]), _number(interval[1])),
    )


def _left_out_from_dict(row: dict[str, Any], k: int) -> LeftOut:
    index = int(row["index"])
    if not 0 <= index < k:
        raise ValueError(f"left_out names group {index} of {k}")
    with_it, without_it = _number(row["loss_with"]), _number(row["loss_without"])
    return LeftOut(index, str(row["reducer"]), with_it, without_it)


def _label(value: Any) -> Label:
    if isinstance(value, list):
        return tuple(_label(part) for part in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{value!r} is no group label")


def _number(value: Any) -> float:
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number


def _numbers(values: Any, shape: tuple[int, ...]) -> FloatArray:
    array = np.asarray(values, dtype=float)
    if array.shape != shape or not np.all(np.isfinite(array)):
        raise ValueError(f"expected finite numbers of shape {shape}, found shape {array.shape}")
    return array


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise ValueError(f"expected a list, found {type(values).__name__}")
    return tuple(str(value) for value in values)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, found {type(value).__name__}")
    return value


def audit_to_frame(audit: Audit) -> Any:
    """Return a pandas frame, one row per reducer, number of components and group."""
    pandas = require("pandas", extra="app", purpose="Audit.to_frame")
    rows: list[dict[str, Any]] = []
    for finding in audit.findings:
        for i, group in enumerate(audit.groups):
            row = {
                "reducer": finding.reducer,
                "n_components": finding.n_components,
                "group": group.text,
                "count": group.count,
                "variance": group.variance,
            }
            for name in MEASURES:
                row[name] = float(finding.measure(name)[i])
                if name in finding.intervals:
                    low, high = finding.intervals[name][i]
                    row[f"{name}_low"], row[f"{name}_high"] = float(low), float(high)
            row["worst"] = i == finding.worst
            rows.append(row)
    return pandas.DataFrame(rows)
