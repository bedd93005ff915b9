"""What every group gets, method beside method."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.auditing.findings import MEASURES, Audit
from fairpca.auditing.verdict import components, group_title
from fairpca.plots.beside_pca import audit_beside_pca, shown_name
from fairpca.plots.style import AXIS, axes, drawable, drawable_all, drawing, reducer_colour


class GroupLossDisplay:
    """Bars of a measure by group, one bar per reducer.

    Parameters
    ----------
    values : ndarray of shape (n_reducers, k)
    groups : list of str
    reducers : list of str
    n_components : int
    measure : {"loss", "error", "share"}
    intervals : ndarray of shape (n_reducers, k, 2), optional
    title : str
        What the groups are groups of.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : list of BarContainer, one per reducer
    """

    def __init__(
        self,
        values: FloatArray,
        *,
        groups: list[str],
        reducers: list[str],
        n_components: int,
        measure: str = "loss",
        intervals: FloatArray | None = None,
        title: str = "group",
    ) -> None:
        self.values = values
        self.groups = groups
        self.reducers = reducers
        self.n_components = n_components
        self.measure = measure
        self.intervals = intervals
        self.title = title

    @classmethod
    def from_audit(
        cls,
        audit: Audit,
        *,
        n_components: int | None = None,
        measure: str = "loss",
        reducers: list[str] | None = None,
        max_groups: int = 30,
        ax: Any = None,
    ) -> GroupLossDisplay:
        """Draw an audit's groups, worst under PCA first.

        Parameters
        ----------
        audit : Audit
        n_components : int, optional
            Default: the number asked about.
        measure : {"loss", "error", "share"}, default="loss"
        reducers : list of str, optional
            Default: all.
        max_groups : int, default=30
            More groups than this are cut to the worst.
        ax : matplotlib Axes, optional
        """
        r = audit.n_components if n_components is None else n_components
        names = [name for name in reducers or audit.reducers if audit.has(name, r)]
        found = [audit.at(name, r) for name in names]
        order = np.argsort(-audit.at("PCA", r).loss, kind="stable")[:max_groups]
        values = np.array([finding.measure(measure)[order] for finding in found])
        intervals = None
        if all(measure in finding.intervals for finding in found):
            intervals = np.array([finding.intervals[measure][order] for finding in found])
        display = cls(
            values,
            groups=[audit.groups[i].text for i in order],
            reducers=names,
            n_components=r,
            measure=measure,
            intervals=intervals,
            title=group_title(audit),
        )
        return display.plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any,
        sample_weight: Any = None,
        measure: str = "loss",
        ax: Any = None,
    ) -> GroupLossDisplay:
        """Draw a fitted linear reducer beside PCA with as many components."""
        found, name = audit_beside_pca(estimator, X, sensitive_features, sample_weight)
        return cls.from_audit(found, measure=measure, reducers=["PCA", name], ax=ax)

    def plot(self, ax: Any = None) -> GroupLossDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        self
        """
        if self.measure not in MEASURES:
            raise ValueError(f"measure={self.measure!r}: choose one of {', '.join(MEASURES)}.")
        n_reducers, k = self.values.shape
        with drawing():
            height = max(2.2, 0.9 + k * (0.2 + 0.16 * n_reducers))
            self.figure_, self.ax_ = axes(ax, figsize=(7, min(height, 30)))
            thickness = 0.8 / n_reducers
            self.bars_ = []
            for j, name in enumerate(self.reducers):
                where = np.arange(k) + (j - (n_reducers - 1) / 2) * thickness
                reach = None
                if self.intervals is not None:
                    reach = np.abs(self.intervals[j].T - self.values[j])
                bars = self.ax_.barh(
                    where,
                    self.values[j],
                    height=thickness * 0.92,
                    xerr=reach,
                    color=reducer_colour(name, j),
                    label=drawable(shown_name(name)),
                    error_kw={"ecolor": "0.35", "elinewidth": 1.2},
                )
                self.bars_.append(bars)
            self.ax_.set_yticks(np.arange(k), drawable_all(self.groups))
            self.ax_.invert_yaxis()
            self.ax_.set_ylabel(drawable(self.title))
            self.ax_.set_xlabel(f"{AXIS[self.measure]}, {components(self.n_components)}")
            self.ax_.set_xlim(left=0)
            self.ax_.spines[["top", "right"]].set_visible(False)
            # Above the axes: inside there is no corner an interval may not reach.
            place = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0)}
            self.ax_.legend(frameon=False, ncols=n_reducers, **place)
        return self
