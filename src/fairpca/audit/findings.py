"""What an audit found: frozen records that go to a frame, to JSON and back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairpca.arrays import FloatArray
from fairpca.labels import Label
from fairpca.moments import GroupMoments
from fairpca.solve.solution import Certificate

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
        from fairpca.audit.verdict import verdict

        return verdict(self, n_components)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings; `from_dict` reads them back."""
        from fairpca.audit.findings_io import audit_to_dict

        return audit_to_dict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Audit:
        """Read what `to_dict` returned; raises ValueError naming what is wrong with it."""
        from fairpca.audit.findings_io import audit_from_dict

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
        from fairpca.audit.findings_io import audit_to_frame

        return audit_to_frame(self)

    def _repr_html_(self) -> str:
        from fairpca.report.notebook import audit_html

        return audit_html(self)
