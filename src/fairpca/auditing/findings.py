"""What an audit found: frozen records that go to a frame, to JSON and back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairpca._checks import require
from fairpca._linalg import FloatArray
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.label_codes import Label
from fairpca.solvers.solution import Certificate

# MERGED: """An audit as a dictionary, as a frame, and back from a dictionary that may be hostile."""

#: Version of the dictionary that `Audit.to_dict` writes.
FORMAT = 1

#: The measures every group has, and what each is called in prose.
MEASURES = {
    "loss": "loss against the group's own PCA",
    "error": "mean squared reconstruction error",
    "share": "share of the group's variance kept",
}


@dataclass(frozen=True)
class GroupRow:
    """One group of the audited rows.

    Attributes
    ----------
    label : hashable
        As given; a tuple where several columns are crossed.
    text : str
        The label as it is shown.
    count : int
        Rows.
    weight : float
        Sum of sample weights.
    variance : float
        Total variance about the group's own mean.
    small : bool
        Whether the group has too few rows for its numbers to be steady.
    """

    label: Label
    text: str
    count: int
    weight: float
    variance: float
    small: bool


@dataclass(frozen=True)
class Finding:
    """One reducer with one number of components: what every group gets.

    Attributes
    ----------
    reducer : str
    n_components : int
    loss, error, share : ndarray of shape (k,)
        Loss against the group's own PCA, mean squared reconstruction error, share of the group's
        variance kept.
    total_error : float
        Mean squared error of all rows about the common mean, the number PCA makes smallest.
    price : float
        `total_error` over PCA's with as many components, minus one.
    certificate : Certificate
        The worst loss, and the bound no projection with as many components goes below.
    intervals : dict of str to ndarray of shape (k, 2)
        Bootstrap intervals by measure; empty where none were computed.
    cut : float
        By how much the worst loss is smaller than PCA's, as a share of PCA's.
    cut_interval : tuple of float or None
    """

    reducer: str
    n_components: int
    loss: FloatArray
    error: FloatArray
    share: FloatArray
    total_error: float
    price: float
    certificate: Certificate
    cut: float = 0.0
    intervals: dict[str, FloatArray] = field(default_factory=dict)
    cut_interval: tuple[float, float] | None = None

    @property
    def worst(self) -> int:
        """Position of the group that loses most."""
        return int(np.argmax(self.loss))

    @property
    def best(self) -> int:
        """Position of the group that loses least."""
        return int(np.argmin(self.loss))

    @property
    def worst_loss(self) -> float:
        """The largest loss."""
        return float(self.loss.max())

    @property
    def best_loss(self) -> float:
        """The smallest loss."""
        return float(self.loss.min())

    @property
    def gap(self) -> float:
        """``(worst loss - best loss) / worst loss``; zero where every loss is rounding."""
        if self.worst_loss <= self.certificate.resolution:
            return 0.0
        return (self.worst_loss - self.best_loss) / self.worst_loss

    def measure(self, name: str) -> FloatArray:
        """Return the values of one of `MEASURES`."""
        if name not in MEASURES:
            raise ValueError(
                f"measure={name!r} is not known; choose one of {', '.join(MEASURES)}."
            )
        values: FloatArray = getattr(self, name)
        return values


@dataclass(frozen=True)
class LeftOut:
    """What a group would get from a projection fitted without it.

    Attributes
    ----------
    group : int
        Position of the group.
    reducer : str
    loss_with, loss_without : float
        Its loss when it takes part in the fit, and when it does not.
    """

    group: int
    reducer: str
    loss_with: float
    loss_without: float


@dataclass(frozen=True)
class Audit:
    """Who a projection serves: every reducer, every number of components, every group.

    Attributes
    ----------
    n_components : int
        The number of components asked about.
    ranks : tuple of int
        All numbers of components looked at.
    reducers : tuple of str
        "PCA", "FairPCA", then those given.
    groups : tuple of GroupRow
    group_columns : tuple of str
        Names of the label columns.
    group_by : str
    findings : tuple of Finding
    left_out : tuple of LeftOut
        Empty where it was not computed.
    scores : dict
        With `y`: for each reducer the held-out score of a linear model on the projected rows, over
        all rows and by group.
    warnings : tuple of str
        What a reader should know before trusting a number.
    provenance : dict
        Versions, a hash of the data, parameters.
    moments : GroupMoments or None
        What the numbers were computed from; not written to files.
    bases : dict
        Orthonormal columns by (reducer, number of components); not written to files.
    """

    n_components: int
    ranks: tuple[int, ...]
    reducers: tuple[str, ...]
    groups: tuple[GroupRow, ...]
    group_columns: tuple[str, ...]
    group_by: str
    findings: tuple[Finding, ...]
    left_out: tuple[LeftOut, ...] = ()
    scores: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    moments: GroupMoments | None = field(default=None, repr=False, compare=False)
    bases: dict[tuple[str, int], FloatArray] = field(
        default_factory=dict, repr=False, compare=False
    )

    def at(self, reducer: str, n_components: int | None = None) -> Finding:
        """Return what one reducer does with so many components (default: those asked about)."""
        r = self.n_components if n_components is None else n_components
        for finding in self.findings:
            if finding.reducer == reducer and finding.n_components == r:
                return finding
        known = sorted({(f.reducer, f.n_components) for f in self.findings})
        raise KeyError(f"no finding for {reducer!r} with {r} components; there are {known}.")

    def has(self, reducer: str, n_components: int | None = None) -> bool:
        """Return whether `at` has an answer."""
        r = self.n_components if n_components is None else n_components
        return any(f.reducer == reducer and f.n_components == r for f in self.findings)

    def verdict(self, n_components: int | None = None) -> str:
        """Return the result in two or three sentences with numbers."""
        from fairpca.auditing.verdict import verdict

        return verdict(self, n_components)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings; `from_dict` reads them back."""
        from fairpca.auditing.findings import audit_to_dict

        return audit_to_dict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Audit:
        """Read what `to_dict` returned; raises ValueError naming what is wrong with it."""
        from fairpca.auditing.findings import audit_from_dict

        return audit_from_dict(data)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Audit:
        """Read what `to_json` returned."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"this is not JSON ({error}); write an audit with `Audit.to_json` or "
                "`fairpca audit --json`."
            ) from None
        return cls.from_dict(data)

    def to_frame(self) -> Any:
        """Return a pandas frame, one row per reducer, number of components and group."""
        from fairpca.auditing.findings import audit_to_frame

        return audit_to_frame(self)

    def _repr_html_(self) -> str:
        from fairpca.report.notebook import audit_html

        return audit_html(self)


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
