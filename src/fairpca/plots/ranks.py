"""Over the number of components: each group's measure, and what serving the worst one costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairpca._checks import require
from fairpca._linalg import FloatArray
from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import group_title
from fairpca.plots.beside_pca import audit_beside_pca, shown_name
from fairpca.plots.style import AXIS, FAIR_COLOUR, axes, drawable, drawing, line_style


class RankCurveDisplay:
    """A measure of every group over the number of components.

    Parameters
    ----------
    ranks : ndarray of shape (n_ranks,)
    values : ndarray of shape (n_reducers, n_ranks, k)
    groups : list of str
    reducers : list of str
        The first is drawn dashed, the others with full lines.
    measure : {"loss", "error", "share"}
    title : str
        What the groups are groups of.
    positions : sequence of int, optional
        Which colour of the palette each group has.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of list of Line2D, by reducer and group
    """

    def __init__(
        self,
        ranks: Any,
        values: FloatArray,
        *,
        groups: list[str],
        reducers: list[str],
        measure: str = "loss",
        title: str = "group",
        positions: Sequence[int] | None = None,
    ) -> None:
        self.ranks = np.asarray(ranks)
        self.values = values
        self.groups = groups
        self.reducers = reducers
        self.measure = measure
        self.title = title
        self.positions = list(range(len(groups)) if positions is None else positions)

    @classmethod
    def from_audit(
        cls,
        audit: Audit,
        *,
        measure: str = "loss",
        reducers: Sequence[str] = ("PCA", "FairPCA"),
        max_groups: int = 7,
        ax: Any = None,
    ) -> RankCurveDisplay:
        """Draw an audit; of many groups, those PCA serves worst."""
        order = np.argsort(-audit.at("PCA").loss, kind="stable")[:max_groups]
        ranks = [r for r in audit.ranks if all(audit.has(name, r) for name in reducers)]
        values = np.array(
            [[audit.at(name, r).measure(measure)[order] for r in ranks] for name in reducers]
        )
        display = cls(
            ranks,
            values,
            groups=[audit.groups[i].text for i in order],
            reducers=list(reducers),
            measure=measure,
            title=group_title(audit),
            positions=[int(i) for i in order],
        )
        return display.plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any,
        ranks: Sequence[int] | None = None,
        sample_weight: Any = None,
        measure: str = "loss",
        ax: Any = None,
    ) -> RankCurveDisplay:
        """Fit clones of an estimator for every number of components and draw them beside PCA."""
        found, name = audit_beside_pca(
            estimator, X, sensitive_features, sample_weight, over_ranks=True, ranks=ranks
        )
        return cls.from_audit(found, measure=measure, reducers=("PCA", name), ax=ax)

    def plot(self, ax: Any = None) -> RankCurveDisplay:
        """Draw the curves."""
        with drawing():
            self.figure_, self.ax_ = axes(ax, figsize=(7, 4.2))
            self.lines_ = []
            k = len(self.groups)
            for j in range(len(self.reducers)):
                lines = []
                for i in range(k):
                    # Lines that lie on each other stay visible: the earlier ones are wider.
                    width = 1.6 if j == 0 else 1.8 + 2.6 * (k - 1 - i) / max(k - 1, 1)
                    lines += self.ax_.plot(
                        self.ranks,
                        self.values[j, :, i],
                        color=line_style(self.positions[i])["color"],
                        linestyle="--" if j == 0 else "-",
                        linewidth=width,
                        marker="o" if len(self.ranks) == 1 else None,
                    )
                self.lines_.append(lines)
            self.ax_.set_xlabel("number of components")
            self.ax_.set_ylabel(AXIS[self.measure])
            self.ax_.set_ylim(bottom=0)
            self.ax_.xaxis.get_major_locator().set_params(integer=True)
            self.ax_.spines[["top", "right"]].set_visible(False)
            self._legend()
        return self

    def _legend(self) -> None:
        """Explain colours (groups) and dashes (reducers) once each."""
        lines = require("matplotlib.lines", extra="app", purpose="a plot")
        handles = [
            lines.Line2D(
                [], [], color=line_style(position)["color"], linewidth=3, label=drawable(group)
            )
            for position, group in zip(self.positions, self.groups, strict=True)
        ] + [
            lines.Line2D(
                [],
                [],
                color="0.4",
                linestyle="--" if j == 0 else "-",
                label=drawable(shown_name(name)),
            )
            for j, name in enumerate(self.reducers)
        ]
        columns = 2 if len(handles) > 6 else 1
        title = drawable(self.title)
        self.ax_.legend(
            handles=handles, frameon=False, fontsize="small", title=title, ncols=columns
        )


class TradeoffDisplay:
    """How much smaller the worst loss gets against how much larger the total error gets.

    Parameters
    ----------
    ranks : ndarray of shape (n_ranks,)
    price : ndarray of shape (n_ranks,)
        Relative rise of the error over all rows against PCA.
    cut : ndarray of shape (n_ranks,)
        Relative fall of the worst loss against PCA.
    reducer : str

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    points_ : PathCollection
    """

    def __init__(
        self, ranks: Any, price: FloatArray, cut: FloatArray, *, reducer: str = "FairPCA"
    ) -> None:
        self.ranks = np.asarray(ranks)
        self.price = price
        self.cut = cut
        self.reducer = reducer

    @classmethod
    def from_audit(
        cls, audit: Audit, *, reducer: str = "FairPCA", ax: Any = None
    ) -> TradeoffDisplay:
        """Draw one reducer of an audit; ranks with which PCA loses nothing are left out."""
        found = [
            audit.at(reducer, r)
            for r in audit.ranks
            if audit.has(reducer, r) and audit.at("PCA", r).worst_loss > 0
        ]
        display = cls(
            [finding.n_components for finding in found],
            np.array([finding.price for finding in found]),
            np.array([finding.cut for finding in found]),
            reducer=reducer,
        )
        return display.plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any,
        ranks: Sequence[int] | None = None,
        sample_weight: Any = None,
        ax: Any = None,
    ) -> TradeoffDisplay:
        """Fit clones of an estimator for every number of components and draw what they trade."""
        found, name = audit_beside_pca(
            estimator, X, sensitive_features, sample_weight, over_ranks=True, ranks=ranks
        )
        return cls.from_audit(found, reducer=name, ax=ax)

    def plot(self, ax: Any = None) -> TradeoffDisplay:
        """Draw one point per number of components."""
        with drawing():
            self.figure_, self.ax_ = axes(ax, figsize=(6, 4.2))
            self.ax_.plot(100 * self.price, 100 * self.cut, color="0.8", zorder=1)
            self.points_ = self.ax_.scatter(
                100 * self.price, 100 * self.cut, color=FAIR_COLOUR, zorder=2
            )
            for r, x, y in zip(self.ranks, 100 * self.price, 100 * self.cut, strict=True):
                self.ax_.annotate(
                    str(r), (x, y), xytext=(4, 4), textcoords="offset points", fontsize="small"
                )
            self.ax_.margins(x=0.08, y=0.12)
            self.ax_.set_xlabel("error over all rows rises by (%)")
            self.ax_.set_ylabel("worst loss shrinks by (%)")
            name = drawable(shown_name(self.reducer))
            self.ax_.set_title(f"{name} against PCA, by number of components", fontsize="medium")
            self.ax_.spines[["top", "right"]].set_visible(False)
        return self
