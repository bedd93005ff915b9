"""Pictures of an audit: what every group gets, over the number of components, and at what price.

The three displays read the same findings, so they are kept together: bars for one number of
components, lines over all of them, and what FairPCA trades against PCA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from fairpca._checks import check_choice, require
from fairpca._linalg import FloatArray
from fairpca.auditing import audit
from fairpca.auditing.findings import MEASURES, Audit
from fairpca.auditing.verdict import components
from fairpca.plots.display import GIVEN, Display, center_of, shown_name, shown_title
from fairpca.plots.style import AXIS, FAIR_COLOUR, PALETTE, drawable, group_colour, reducer_colour

# Inches of a new figure: what the axes need without a bar, what a group and every bar of it add,
# and the limits. A taller figure than the upper one no longer fits on a printed page.
_BASE, _PER_GROUP, _PER_BAR, _LOWEST, _TALLEST = 0.9, 0.2, 0.16, 2.2, 30.0


class _AuditDisplay(Display):
    """A display of an audit; that of an estimator is made for it."""

    # Whether the picture needs other numbers of components than the estimator's own.
    _over_ranks: ClassVar[bool] = True
    # Every subclass has one, each with parameters of its own.
    from_audit: ClassVar[Callable[..., Any]]

    @classmethod
    def _beside_pca(cls, name: str) -> dict[str, Any]:
        """Return the arguments of `from_audit` that choose PCA and a reducer of this name."""
        return {"reducers": ["PCA", name]}

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any,
        sample_weight: Any = None,
        ranks: Sequence[int] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw a linear reducer beside PCA.

        Bars show a fitted estimator as it is. Pictures over the number of components fit a clone
        of it for each; the estimator itself stays as it is. Losses, errors and shares are about
        the mean its parameter `center` names, about that of all rows where it has none.

        Parameters
        ----------
        estimator : estimator with `components_` or, over several numbers, `n_components`
            The reducer to draw.
        X : array-like of shape (m, n)
            The rows to judge it by.
        sensitive_features : array-like, Series, frame or dict
            One label per row, or several columns of labels.
        sample_weight : array-like of shape (m,), optional
            Weight 2 is the row twice.
        ranks : sequence of int, optional
            Numbers of components, in pictures over them. Default: a range that `fairpca.audit`
            chooses.
        ax : matplotlib Axes, optional
            Default: a new figure.
        **options
            Of `from_audit`, such as `measure`.
        """
        name = type(estimator).__name__
        name += GIVEN if name in ("PCA", "FairPCA") else ""
        found = audit(
            X,
            sensitive_features,
            getattr(estimator, "n_components_", None),
            reducers={name: clone(estimator) if cls._over_ranks else estimator},
            ranks=ranks if cls._over_ranks else [],
            sample_weight=sample_weight,
            center=center_of(estimator),
            n_bootstrap=0,
            leave_one_out=False,
        )
        shown = cls._beside_pca(name)
        return cls.from_audit(found, ax=ax, **shown, **options)  # type: ignore[no-any-return]


@dataclass(eq=False, repr=False)
class GroupLossDisplay(_AuditDisplay):
    """Bars of a measure by group, one bar per reducer.

    Parameters
    ----------
    values : ndarray of shape (n_reducers, k)
        The measure, by reducer and group.
    groups : list of str
        The groups as they are shown, from top to bottom.
    reducers : list of str
        Names of the reducers.
    n_components : int
        With how many components.
    measure : {"loss", "error", "share"}, default="loss"
        Loss against the group's own PCA, mean squared error, or share of variance kept.
    intervals : ndarray of shape (n_reducers, k, 2), optional
        Lower and upper ends, drawn as whiskers.
    title : str, default="group"
        What the groups are groups of.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : list of BarContainer
        One per reducer.

    See Also
    --------
    RankCurveDisplay : The same over the number of components.

    Examples
    --------
    >>> import fairpca
    >>> from fairpca.plots import GroupLossDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> found = fairpca.audit(X / X.std(axis=0), kind, 2, n_bootstrap=0)
    >>> display = GroupLossDisplay.from_audit(found)
    >>> display.ax_.get_xlabel()
    'loss per row, 2 components'
    """

    _over_ranks: ClassVar[bool] = False
    values: FloatArray
    _: KW_ONLY
    groups: list[str]
    reducers: list[str]
    n_components: int
    measure: str = "loss"
    intervals: FloatArray | None = None
    title: str = "group"

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
    ) -> Self:
        """Draw an audit's groups, worst under PCA first.

        Parameters
        ----------
        audit : Audit
            What `fairpca.audit` returned.
        n_components : int, optional
            One of `audit.ranks`. Default: the number asked about.
        measure : {"loss", "error", "share"}, default="loss"
            What the bars show.
        reducers : list of str, optional
            Which reducers to draw. Default: all.
        max_groups : int, default=30
            Of more groups than this, those that lose most under PCA are drawn, and the label of
            the axis says so.
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        GroupLossDisplay
        """
        r = audit.n_components if n_components is None else n_components
        found = [audit.at(name, r) for name in reducers or audit.reducers if audit.has(name, r)]
        order = np.argsort(-audit.at("PCA", r).loss, kind="stable")[:max_groups]
        intervals = None
        # Whiskers on some of the bars only would look like certainty about the others.
        if all(measure in finding.intervals for finding in found):
            intervals = np.array([finding.intervals[measure][order] for finding in found])
        return cls(
            np.array([finding.measure(measure)[order] for finding in found]),
            groups=[audit.groups[i].text for i in order],
            reducers=[finding.reducer for finding in found],
            n_components=r,
            measure=measure,
            intervals=intervals,
            title=shown_title(audit, len(order)),
        ).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure, taller for more groups.

        Returns
        -------
        self
        """
        check_choice("measure", self.measure, tuple(MEASURES))
        n_reducers, k = self.values.shape
        height = _BASE + k * (_PER_GROUP + _PER_BAR * n_reducers)
        thickness = 0.8 / n_reducers
        with self._axes(ax, (7, float(np.clip(height, _LOWEST, _TALLEST)))) as axes:
            self.bars_ = []
            for j, name in enumerate(self.reducers):
                reach = None
                if self.intervals is not None:
                    reach = np.abs(self.intervals[j].T - self.values[j])
                bars = axes.barh(
                    np.arange(k) + (j - (n_reducers - 1) / 2) * thickness,
                    self.values[j],
                    height=thickness * 0.92,
                    xerr=reach,
                    color=reducer_colour(name, j),
                    label=shown_name(name),
                    error_kw={"ecolor": "0.35", "elinewidth": 1.2},
                )
                self.bars_.append(bars)
            axes.set_yticks(np.arange(k), [drawable(text) for text in self.groups])
            # The worst-served group comes first in the numbers and belongs at the top.
            axes.invert_yaxis()
            axes.set_ylabel(drawable(self.title))
            axes.set_xlabel(f"{AXIS[self.measure]}, {components(self.n_components)}")
            # The length of a bar can be compared only if all start at zero.
            axes.set_xlim(left=0)
            # Above the axes: inside there is no corner an interval may not reach.
            axes.legend(frameon=False, ncols=n_reducers, loc="lower right", bbox_to_anchor=(1, 1))
        return self


@dataclass(eq=False, repr=False)
class RankCurveDisplay(_AuditDisplay):
    """A measure of every group over the number of components.

    Colours tell groups apart and dashes tell reducers apart. A group has the same colour here as
    in `ScatterDisplay`, unless two of the groups shown would then look alike.

    Parameters
    ----------
    ranks : array-like of shape (n_ranks,)
        Numbers of components.
    values : ndarray of shape (n_reducers, n_ranks, k)
        The measure.
    groups : list of str
        The groups as they are shown.
    reducers : list of str
        The first is drawn dashed, the others with full lines.
    measure : {"loss", "error", "share"}, default="loss"
        Loss against the group's own PCA, mean squared error, or share of variance kept.
    title : str, default="group"
        What the groups are groups of; it stands above the legend.
    positions : sequence of int, optional
        Which colour of the palette each group has. Default: one after the other.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of list of Line2D
        By reducer and group.

    See Also
    --------
    GroupLossDisplay : All groups with one number of components.

    Examples
    --------
    >>> import fairpca
    >>> from fairpca.plots import RankCurveDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> found = fairpca.audit(X / X.std(axis=0), kind, 2, ranks=[1, 2, 3], n_bootstrap=0)
    >>> display = RankCurveDisplay.from_audit(found, measure="share")
    >>> display.values.shape
    (2, 3, 3)
    """

    ranks: Any
    values: FloatArray
    _: KW_ONLY
    groups: list[str]
    reducers: list[str]
    measure: str = "loss"
    title: str = "group"
    positions: Sequence[int] | None = None

    @classmethod
    def from_audit(
        cls,
        audit: Audit,
        *,
        measure: str = "loss",
        reducers: Sequence[str] = ("PCA", "FairPCA"),
        max_groups: int = len(PALETTE),
        ax: Any = None,
    ) -> Self:
        """Draw an audit.

        Parameters
        ----------
        audit : Audit
            What `fairpca.audit` returned.
        measure : {"loss", "error", "share"}, default="loss"
            What the lines show.
        reducers : sequence of str, default=("PCA", "FairPCA")
            Two of `audit.reducers`. Numbers of components that one of them lacks are left out.
        max_groups : int, default=7
            Of more groups than this, those that lose most under PCA are drawn, and the title of
            the legend says so. There are seven colours; more groups share them.
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        RankCurveDisplay
        """
        order = np.argsort(-audit.at("PCA").loss, kind="stable")[:max_groups]
        ranks = [r for r in audit.ranks if all(audit.has(name, r) for name in reducers)]
        positions = [int(i) for i in order]
        if len({group_colour(i) for i in positions}) < len(positions):
            # Two groups of one colour cannot be told apart here, since dashes mean the reducer.
            positions = list(range(len(positions)))
        return cls(
            np.array(ranks),
            np.array(
                [[audit.at(name, r).measure(measure)[order] for r in ranks] for name in reducers]
            ),
            groups=[audit.groups[i].text for i in order],
            reducers=list(reducers),
            measure=measure,
            title=shown_title(audit, len(order)),
            positions=positions,
        ).plot(ax=ax)

    def __post_init__(self) -> None:
        self.ranks = np.asarray(self.ranks)
        self.positions = list(
            range(len(self.groups)) if self.positions is None else self.positions
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw the lines.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        self
        """
        line = require("matplotlib.lines", extra="app", purpose="a plot").Line2D
        k = len(self.groups)
        colours = [group_colour(position) for position in self.positions or range(k)]
        dashes = ["--"] + ["-"] * (len(self.reducers) - 1)
        # Lines that lie on each other stay visible: the earlier ones are wider.
        widths = 1.8 + 2.6 * np.arange(k)[::-1] / max(k - 1, 1)
        # A line through a single point would not show.
        marker = "o" if len(self.ranks) == 1 else ""
        with self._axes(ax, (8, 4.2)) as axes:
            self.lines_ = []
            for j, dash in enumerate(dashes):
                lines = axes.plot(self.ranks, self.values[j], linestyle=dash, marker=marker)
                for drawn, colour, width in zip(lines, colours, widths, strict=True):
                    drawn.set(color=colour, linewidth=1.6 if j == 0 else width)
                self.lines_.append(lines)
            axes.set(xlabel="number of components", ylabel=AXIS[self.measure])
            axes.set_ylim(bottom=0)
            # There is no half component.
            axes.xaxis.get_major_locator().set_params(integer=True)
            handles = [
                line([], [], color=colour, linewidth=3, label=drawable(group))
                for colour, group in zip(colours, self.groups, strict=True)
            ]
            handles += [
                line([], [], color="0.4", linestyle=dash, label=shown_name(name))
                for dash, name in zip(dashes, self.reducers, strict=True)
            ]
            self._legend_beside(handles, self.title)
        return self


@dataclass(eq=False, repr=False)
class TradeoffDisplay(_AuditDisplay):
    """How much smaller the worst loss gets against how much larger the total error gets.

    Parameters
    ----------
    ranks : array-like of shape (n_ranks,)
        Numbers of components; each is written beside its point.
    price : ndarray of shape (n_ranks,)
        Relative rise of the error over all rows against PCA.
    cut : ndarray of shape (n_ranks,)
        Relative fall of the worst loss against PCA.
    reducer : str, default="FairPCA"
        Whose trade-off it is.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    points_ : PathCollection
        One point per number of components.

    Examples
    --------
    >>> import fairpca
    >>> from fairpca.plots import TradeoffDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> found = fairpca.audit(X / X.std(axis=0), kind, 2, ranks=[1, 2, 3], n_bootstrap=0)
    >>> len(TradeoffDisplay.from_audit(found).points_.get_offsets())
    3
    """

    ranks: Any
    price: FloatArray
    cut: FloatArray
    _: KW_ONLY
    reducer: str = "FairPCA"

    @classmethod
    def _beside_pca(cls, name: str) -> dict[str, Any]:
        return {"reducer": name}

    @classmethod
    def from_audit(cls, audit: Audit, *, reducer: str = "FairPCA", ax: Any = None) -> Self:
        """Draw one reducer of an audit.

        Parameters
        ----------
        audit : Audit
            What `fairpca.audit` returned.
        reducer : str, default="FairPCA"
            One of `audit.reducers`. Numbers of components with which PCA costs no group anything
            are left out: there is nothing to gain.
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        TradeoffDisplay
        """
        found = [
            audit.at(reducer, r)
            for r in audit.ranks
            if audit.has(reducer, r) and audit.at("PCA", r).worst_loss > 0
        ]
        return cls(
            np.array([finding.n_components for finding in found]),
            np.array([finding.price for finding in found]),
            np.array([finding.cut for finding in found]),
            reducer=reducer,
        ).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw one point per number of components.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        self
        """
        x, y = 100 * self.price, 100 * self.cut
        with self._axes(ax, (6, 4.2)) as axes:
            # The line joins neighbouring numbers of components; its course has no other meaning.
            axes.plot(x, y, color="0.8", zorder=1)
            self.points_ = axes.scatter(x, y, color=FAIR_COLOUR, zorder=2)
            # Offsets in points of the page: they do not depend on the scale of the axes.
            beside = {"xytext": (4, 4), "textcoords": "offset points", "fontsize": "small"}
            for r, *point in zip(self.ranks, x, y, strict=True):
                axes.annotate(str(r), point, **beside)
            axes.margins(x=0.08, y=0.12)
            axes.set(xlabel="error over all rows rises by (%)", ylabel="worst loss shrinks by (%)")
            title = f"{shown_name(self.reducer)} against PCA, by number of components"
            axes.set_title(title, fontsize="medium")
        return self
