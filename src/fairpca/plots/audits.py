"""Pictures of an audit: what every group gets, over the number of components, and at what price.

The three displays read the same findings, so they are kept together: bars for one number of
components, lines over all of them, and what FairPCA trades against PCA.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from fairpca._check import check_choice, require, warn
from fairpca._arrays import FloatArray, IntArray
from fairpca.auditing import audit
from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import SHRUNK, components, group_title
from fairpca.plots.display import (
    FAIR_COLOUR,
    PALETTE,
    PCA_COLOUR,
    SHRUNK_COLOUR,
    Display,
    center_of,
    drawable,
    group_colour,
)

# What the axis of a measure is called, and which rows it is about: a picture is shown without the
# audit it comes from, which speaks of new rows first.
_AXIS = {"loss": "loss per row", "error": "mean squared error", "share": "share of variance kept"}
_ROWS = "on the rows in hand"
# The mark by which an audit tells a reducer that was given to it from its own PCA and FairPCA. A
# picture beside PCA has no use for it.
_GIVEN = " (given)"
# Inches of a new figure: what the axes need without a bar, what a group and every bar of it add,
# and the limits. A taller figure than the upper one no longer fits on a printed page.
_BASE, _PER_GROUP, _PER_BAR, _LOWEST, _TALLEST = 0.9, 0.2, 0.16, 2.2, 30.0
# How many letters fit into a row of the legend, which is as wide as the figure; the key beside a
# name, and the space around both, take as much as seven letters.
_ROW_OF_LETTERS, _KEY = 78, 7
# How far apart, in points of the page, two numbers are at least, so that neither covers the other.
_LETTERS = 14.0


def _shown_names(reducers: Sequence[str]) -> list[str]:
    """Return the names of reducers as they are drawn, without the mark where all then differ."""
    bare = [name.removesuffix(_GIVEN) for name in reducers]
    names = bare if len(set(bare)) == len(bare) else reducers
    return [drawable(name) for name in names]


def _worst_groups(audit: Audit, n_components: int, limit: int) -> tuple[IntArray, dict[str, Any]]:
    """Return which groups lose most under PCA, worst first, and a display's `groups` and `title`.

    The title says what the groups are groups of, and how many are shown if not all.
    """
    order = np.argsort(-audit.at("PCA", n_components).loss, kind="stable")[:limit]
    title, k = group_title(audit), len(audit.groups)
    title += "" if len(order) == k else f" ({len(order)} worst of {k})"
    return order, {"groups": [audit.groups[i].text for i in order], "title": title}


def _check_reducers(audit: Audit, *names: str) -> None:
    """Raise ValueError for a name that no reducer of an audit has."""
    for name in names:
        check_choice("reducer", name, audit.reducers)


class _AuditDisplay(Display):
    """A display of an audit; that of an estimator is made for it."""

    # Whether the picture needs other numbers of components than the estimator's own.
    _over_ranks: ClassVar[bool] = True
    # Whether `from_audit` takes the name of one reducer, and not those of several.
    _one_reducer: ClassVar[bool] = False

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

        Bars show a fitted estimator as it is; pictures over the number of components fit clones
        of it. All numbers are about the mean its parameter `center` names, by default of all rows,
        and about the groups that its `group_by` and `unlabelled` make.

        Parameters
        ----------
        estimator : estimator with `components_` or, over several numbers, `n_components`
            The reducer to draw.
        X, sensitive_features, sample_weight
            The rows to judge it by, as `fairpca.audit` takes them.
        ranks : sequence of int, optional
            Numbers of components, in pictures over them. Default: chosen by `fairpca.audit`.
        ax, **options
            Of `from_audit`, such as `measure`.
        """
        found = audit(
            X,
            sensitive_features,
            getattr(estimator, "n_components_", None),
            reducers=clone(estimator) if cls._over_ranks else estimator,
            ranks=ranks if cls._over_ranks else [],
            sample_weight=sample_weight,
            center=center_of(estimator),
            group_by=getattr(estimator, "group_by", "intersection"),
            unlabelled=getattr(estimator, "unlabelled", "error"),
            n_folds=0,
            n_bootstrap=0,
            leave_one_out=False,
        )
        # The audit has named it, and puts it behind its own reducers.
        name = found.reducers[-1]
        for warning in found.warnings:
            # The one that is about the estimator; what the audit says of groups stands elsewhere.
            if warning.startswith(f"{name} subtracts another mean"):
                warn(warning)
        options |= {"reducer": name} if cls._one_reducer else {"reducers": ["PCA", name]}
        return cls.from_audit(found, ax=ax, **options)  # type: ignore[attr-defined,no-any-return]


@dataclass(eq=False, repr=False)
class GroupLossDisplay(_AuditDisplay):
    """Bars of a measure by group, one bar per reducer.

    Parameters
    ----------
    values : ndarray of shape (n_reducers, k)
        The measure, by reducer and group.
    groups, reducers : list of str
        The groups as they are shown, from top to bottom, and the names of the reducers.
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
    bars_ : list of BarContainer, one per reducer

    Examples
    --------
    >>> from fairpca import audit, plots
    >>> from sklearn.datasets import load_wine
    >>> found = audit(*load_wine(return_X_y=True), 2, n_bootstrap=0)
    >>> plots.GroupLossDisplay.from_audit(found).ax_.get_xlabel()
    'loss per row on the rows in hand, 2 components'
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
        """Draw an audit's groups, worst under PCA first, and return the display.

        Parameters
        ----------
        audit : Audit
            What `fairpca.audit` returned.
        n_components : int, optional
            One of `audit.ranks`. Default: the number asked about.
        measure, reducers
            What the bars show, and whose. Default: the losses of all reducers.
        max_groups : int, default=30
            Of more groups than this, those that lose most under PCA are drawn, and the label of
            the axis says so.
        ax : matplotlib Axes, optional
            Default: a new figure, taller for more groups.
        """
        r = audit.n_components if n_components is None else n_components
        _check_reducers(audit, *(reducers or ()))
        names = reducers or [name for name in audit.reducers if audit.has(name, r)]
        found = [audit.at(name, r) for name in names]
        order, shown = _worst_groups(audit, r, max_groups)
        shown |= {"reducers": [f.reducer for f in found], "n_components": r, "measure": measure}
        # Whiskers on some of the bars only would look like certainty about the others.
        if all(measure in f.intervals for f in found):
            shown["intervals"] = np.array([f.intervals[measure][order] for f in found])
        return cls(np.array([f.measure(measure)[order] for f in found]), **shown).plot(ax=ax)

    def __post_init__(self) -> None:
        n_reducers, k = self.values.shape
        height = _BASE + k * (_PER_GROUP + _PER_BAR * n_reducers)
        self._size = (7, float(np.clip(height, _LOWEST, _TALLEST)))

    def _draw(self, axes: Any) -> None:
        """Draw the bars, the first group at the top."""
        n_reducers, k = self.values.shape
        thickness = 0.8 / n_reducers
        known = {"PCA": PCA_COLOUR, "FairPCA": FAIR_COLOUR, SHRUNK: SHRUNK_COLOUR}
        names = _shown_names(self.reducers)
        self.bars_ = []
        for j, (name, values) in enumerate(zip(names, self.values, strict=True)):
            places = np.arange(k) + (j - (n_reducers - 1) / 2) * thickness
            colour = known.get(name, group_colour(j))
            bars = axes.barh(places, values, height=thickness * 0.92, color=colour, label=name)
            if self.intervals is not None:
                # About the middle: an interval of few replicates may not hold the value.
                low, high = self.intervals[j].T
                whiskers = {"fmt": "none", "ecolor": "0.35", "elinewidth": 1.2}
                bars.errorbar = axes.errorbar(
                    (low + high) / 2, places, xerr=(high - low) / 2, **whiskers
                )
            self.bars_.append(bars)
        axes.set_yticks(np.arange(k), [drawable(text) for text in self.groups])
        # The worst-served group comes first in the numbers and belongs at the top.
        axes.invert_yaxis()
        axes.set_ylabel(drawable(self.title))
        axes.set_xlabel(f"{_AXIS[self.measure]} {_ROWS}, {components(self.n_components)}")
        # The length of a bar can be compared only if all start at zero.
        axes.set_xlim(left=0)
        # Above the axes: inside there is no corner an interval may not reach.
        columns = max(1, _ROW_OF_LETTERS // (max(map(len, names)) + _KEY))
        place = {"loc": "lower right", "bbox_to_anchor": (1, 1)}
        axes.legend(frameon=False, ncols=min(columns, n_reducers), **place)


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
    groups, reducers : list of str
        As they are shown. The first reducer is drawn dashed, the others with full lines.
    measure, title
        As in `GroupLossDisplay`; the title stands above the legend.
    positions : sequence of int, optional
        Which colour of the palette each group has. Default: one after the other.

    Attributes
    ----------
    lines_ : list of list of Line2D, by reducer and group

    Examples
    --------
    >>> from fairpca import audit, plots
    >>> from sklearn.datasets import load_wine
    >>> found = audit(*load_wine(return_X_y=True), 2, ranks=[1, 2, 3], n_bootstrap=0)
    >>> plots.RankCurveDisplay.from_audit(found, measure="share").values.shape
    (2, 3, 3)
    """

    _size = (8, 4.2)
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
        """Draw an audit and return the display.

        Parameters
        ----------
        audit, measure, ax
            As in `GroupLossDisplay.from_audit`.
        reducers : sequence of str, default=("PCA", "FairPCA")
            Two of `audit.reducers`. Numbers of components that one of them lacks are left out.
        max_groups : int, default=7
            As there; the title of the legend says so. More groups would share the seven colours.
        """
        _check_reducers(audit, *reducers)
        order, shown = _worst_groups(audit, audit.n_components, max_groups)
        ranks = [r for r in audit.ranks if all(audit.has(name, r) for name in reducers)]
        values = [[audit.at(name, r).measure(measure)[order] for r in ranks] for name in reducers]
        # Two groups of one colour could not be told apart here, since dashes mean the reducer.
        distinct = len({group_colour(i) for i in order}) == len(order)
        shown |= {"reducers": list(reducers), "measure": measure}
        shown["positions"] = order.tolist() if distinct else None
        return cls(np.array(ranks), np.array(values), **shown).plot(ax=ax)

    def _draw(self, axes: Any) -> None:
        """Draw one line per reducer and group."""
        line = require("matplotlib.lines", extra="app", purpose="a plot").Line2D
        k = len(self.groups)
        positions = range(k) if self.positions is None else self.positions
        colours = [group_colour(position) for position in positions]
        dashes = ["--"] + ["-"] * (len(self.reducers) - 1)
        # Lines that lie on each other stay visible: the earlier ones are wider.
        widths = 1.8 + 2.6 * np.arange(k)[::-1] / max(k - 1, 1)
        # A line through a single point would not show.
        marker = "o" if len(self.ranks) == 1 else ""
        self.lines_ = []
        for j, dash in enumerate(dashes):
            lines = axes.plot(self.ranks, self.values[j], linestyle=dash, marker=marker)
            for drawn, colour, width in zip(lines, colours, widths, strict=True):
                drawn.set(color=colour, linewidth=1.6 if j == 0 else width)
            self.lines_.append(lines)
        axes.set(xlabel="number of components", ylabel=f"{_AXIS[self.measure]} {_ROWS}")
        axes.set_ylim(bottom=0)
        # There is no half component.
        axes.xaxis.get_major_locator().set_params(integer=True)
        handles = [
            line([], [], color=colour, linewidth=3, label=drawable(group))
            for colour, group in zip(colours, self.groups, strict=True)
        ]
        handles += [
            line([], [], color="0.4", linestyle=dash, label=name)
            for dash, name in zip(dashes, _shown_names(self.reducers), strict=True)
        ]
        self._legend_beside(handles, self.title)


@dataclass(eq=False, repr=False)
class TradeoffDisplay(_AuditDisplay):
    """How much smaller the worst loss gets against how much larger the total error gets.

    Parameters
    ----------
    ranks : array-like of shape (n_ranks,)
        Numbers of components, written beside the points as far as there is room.
    price, cut : ndarray of shape (n_ranks,)
        Relative rise of the error over all rows, and fall of the worst loss, against PCA.
    reducer : str, default="FairPCA"
        Whose trade-off it is.

    Attributes
    ----------
    points_ : PathCollection with one point per number of components

    Examples
    --------
    >>> from fairpca import audit, plots
    >>> from sklearn.datasets import load_wine
    >>> found = audit(*load_wine(return_X_y=True), 2, ranks=[1, 2, 3], n_bootstrap=0)
    >>> len(plots.TradeoffDisplay.from_audit(found).points_.get_offsets())
    3
    """

    _one_reducer: ClassVar[bool] = True
    ranks: Any
    price: FloatArray
    cut: FloatArray
    _: KW_ONLY
    reducer: str = "FairPCA"

    @classmethod
    def from_audit(cls, audit: Audit, *, reducer: str = "FairPCA", ax: Any = None) -> Self:
        """Draw one reducer of an audit and return the display.

        Parameters
        ----------
        audit, ax
            As in `GroupLossDisplay.from_audit`.
        reducer : str, default="FairPCA"
            One of `audit.reducers`. Numbers of components with which PCA costs no group anything
            are left out: there is nothing to gain.
        """
        _check_reducers(audit, reducer)
        ranks = [r for r in audit.ranks if audit.has(reducer, r)]
        ranks = [r for r in ranks if audit.at("PCA", r).worst_loss > 0]
        found = [audit.at(reducer, r) for r in ranks]
        price, cut = (np.array([getattr(f, name) for f in found]) for name in ("price", "cut"))
        return cls(np.array(ranks), price, cut, reducer=reducer).plot(ax=ax)

    def _draw(self, axes: Any) -> None:
        """Draw one point per number of components."""
        x, y = 100 * self.price, 100 * self.cut
        # The line joins neighbouring numbers of components; its course has no other meaning.
        axes.plot(x, y, color="0.8", zorder=1)
        self.points_ = axes.scatter(x, y, color=FAIR_COLOUR, zorder=2)
        # Offsets in points of the page: they do not depend on the scale of the axes.
        beside = {"xytext": (4, 4), "textcoords": "offset points", "fontsize": "small"}
        axes.margins(x=0.08, y=0.12)
        axes.autoscale_view()
        places = axes.transData.transform(np.column_stack([x, y])) * 72 / axes.figure.dpi
        written: list[FloatArray] = []
        for r, *point, place in zip(self.ranks, x, y, places, strict=True):
            # A number over another one could not be read; the line tells where it belongs.
            if all(np.abs(place - other).max() >= _LETTERS for other in written):
                axes.annotate(str(r), point, **beside)
                written.append(place)
        axes.set(xlabel="error over all rows rises by (%)", ylabel="worst loss shrinks by (%)")
        name = _shown_names([self.reducer])[0]
        title = f"{name} against PCA {_ROWS}, by number of components"
        axes.set_title(title, fontsize="medium")
