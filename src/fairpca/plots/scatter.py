"""Rows on the first two components, by group."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca._linalg import FloatArray, IntArray, principal_rotation
from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import label_texts
from fairpca.moments.groups import Groups
from fairpca.plots.style import PALETTE, axes, drawable, drawing

_MARKERS = "os^DvPX*<>"


class ScatterDisplay:
    """Projected rows, one colour and marker per group.

    Parameters
    ----------
    points : ndarray of shape (m, 2)
    codes : ndarray of shape (m,)
        Group of every point.
    groups : list of str
    names : tuple of str
        Names of the two axes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    points_ : list of PathCollection, one per group
    """

    def __init__(
        self,
        points: FloatArray,
        codes: IntArray,
        *,
        groups: list[str],
        names: tuple[str, str] = ("component 1", "component 2"),
    ) -> None:
        self.points = points
        self.codes = codes
        self.groups = groups
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any,
        max_points: int = 800,
        random_state: int = 0,
        ax: Any = None,
    ) -> ScatterDisplay:
        """Project rows with a fitted reducer and draw at most `max_points` of every group."""
        projected = np.asarray(estimator.transform(X), dtype=float)
        return cls._of(projected, sensitive_features, max_points, random_state, ax)

    @classmethod
    def from_audit(
        cls,
        audit: Audit,
        X: Any,
        *,
        sensitive_features: Any,
        reducer: str = "FairPCA",
        max_points: int = 800,
        random_state: int = 0,
        ax: Any = None,
    ) -> ScatterDisplay:
        """Project rows with one of the projections an audit looked at (it keeps no rows)."""
        basis = audit.bases.get((reducer, audit.n_components))
        if basis is None or audit.moments is None:
            raise ValueError(
                "this audit was read from a file, which holds no projections; use from_estimator."
            )
        total = audit.moments.pooled()
        rotated, _ = principal_rotation(basis, total.covariances[0])
        projected = (np.asarray(X, dtype=float) - total.mean[0]) @ rotated.T
        return cls._of(projected, sensitive_features, max_points, random_state, ax)

    @classmethod
    def _of(
        cls, projected: FloatArray, labels: Any, max_points: int, seed: int, ax: Any
    ) -> ScatterDisplay:
        groups = Groups.from_labels(labels, n_rows=len(projected), unlabelled="ignore")
        rng = np.random.default_rng(seed)
        chosen = []
        for code in range(groups.n_groups):
            rows = np.flatnonzero(groups.codes == code)
            if len(rows) > max_points:
                rows = np.sort(rng.choice(rows, max_points, replace=False))
            chosen.append(rows)
        picks = np.concatenate(chosen)
        points = projected[picks, :2]
        names = ("component 1", "component 2")
        if points.shape[1] == 1:
            # One component: spread the points along the other axis so that none hides another.
            points = np.column_stack([points, rng.uniform(-1, 1, len(points))])
            names = ("component 1", "")
        texts = label_texts(groups.labels, groups.names, "intersection")
        return cls(points, groups.codes[picks], groups=texts, names=names).plot(ax=ax)

    def plot(self, ax: Any = None) -> ScatterDisplay:
        """Draw the points, small groups on top."""
        with drawing():
            self.figure_, self.ax_ = axes(ax, figsize=(6, 5))
            sizes = np.bincount(self.codes, minlength=len(self.groups))
            drawn: dict[int, Any] = {}
            for depth, code in enumerate(np.argsort(-sizes, kind="stable")):
                inside = self.codes == code
                drawn[int(code)] = self.ax_.scatter(
                    *self.points[inside].T,
                    s=16,
                    marker=_MARKERS[code % len(_MARKERS)],
                    color=PALETTE[code % len(PALETTE)],
                    alpha=0.55,
                    linewidths=0,
                    zorder=2 + 0.01 * depth,
                    label=drawable(self.groups[code]),
                )
            self.points_ = [drawn[code] for code in range(len(self.groups))]
            self.ax_.set_xlabel(self.names[0])
            self.ax_.set_ylabel(self.names[1])
            self.ax_.spines[["top", "right"]].set_visible(False)
            if len(self.groups) <= 20:
                self.ax_.legend(handles=self.points_, frameon=False, markerscale=1.4)
        return self
