"""Displays of audits, losses and ranks, and what every display shares: axes, colours, labels.

A display is a dataclass of the numbers it draws. Its class methods compute them and draw at once;
`plot` draws them again, on other axes if wanted. scikit-learn's displays work the same way.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fairpca._arrays import FloatArray, IntArray
from fairpca._check import require
from fairpca.auditing import words
from fairpca.auditing.findings import Audit
from fairpca.moments.groups import Groups, Labels, Model, Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Colours and markers of the candidates of an audit. Each colour has a contrast of at least 3 with
# white and with black; the markers tell them apart without any colour.
CANDIDATES = {
    "PCA": ("#D55E00", "o"),
    "balanced PCA": ("#8A8A8A", "D"),
    "FairPCA": ("#2F7FC1", "s"),
    "careful FairPCA": ("#A349A4", "P"),
}
# Okabe and Ito's palette without its yellow and black, which one kind of paper hides, and then a
# violet and a brown.
PALETTE = ("#009E73", "#CC79A7", "#D98E00", "#3B9BD9", "#D55E00", "#8F6FD0", "#A0703C")
MARKERS = "os^DvPX*<>"
# Families with letters that matplotlib's own font lacks, used where they are installed.
_MORE_FAMILIES = (
    "Noto Sans CJK SC, Noto Sans CJK JP, WenQuanYi Zen Hei, PingFang SC, Hiragino Sans, "
    "Microsoft YaHei, Malgun Gothic, Noto Sans Devanagari, Noto Sans Thai, Noto Emoji"
).split(", ")
# Letters of a label before it is cut: longer ones leave no room for the axes.
_LONGEST = 40


class Display:
    """The base class of all displays; `plot` sets `ax_` and `figure_` to where it has drawn."""

    # Width and height of a new figure in inches.
    _size: tuple[float, float] = (6, 4.2)
    ax_: Axes
    figure_: Figure | SubFigure

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the numbers and return the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.
        """
        with self._axes(ax) as axes:
            self._draw(axes)
        return self

    def _draw(self, axes: Any) -> None:
        raise NotImplementedError

    @contextlib.contextmanager
    def _axes(self, ax: Axes | None) -> Iterator[Any]:
        """Set `figure_` and `ax_` and yield the axes; fonts for all writing systems are used."""
        pyplot = require("matplotlib.pyplot", extra="app", purpose="a plot")
        installed = set(
            require("matplotlib.font_manager", extra="app", purpose="a plot").get_font_names()
        )
        more = [family for family in _MORE_FAMILIES if family in installed]
        # A text takes its font when it is made, so everything is drawn within these settings.
        with pyplot.rc_context({"font.family": [*pyplot.rcParams["font.family"], *more]}):
            if ax is None:
                _, ax = pyplot.subplots(layout="constrained", figsize=self._size)
            ax.spines[["top", "right"]].set_visible(False)
            self.figure_, self.ax_ = ax.figure, ax
            yield ax


def ink() -> str:
    """Return the colour of text, which is light on dark paper."""
    colour: str = require("matplotlib", extra="app", purpose="a plot").rcParams["text.color"]
    return colour


def looks(reducers: Sequence[str]) -> list[tuple[str, str]]:
    """Return a colour and a marker for each reducer: an audit's own, then those of the palette."""
    spare = zip(PALETTE * len(reducers), MARKERS * len(reducers), strict=False)
    return [CANDIDATES.get(name) or next(spare) for name in reducers]


def drawable(text: str) -> str:
    r"""Return a label that is drawn as it was written, with its middle left out if it is long.

    A dollar sign is escaped: matplotlib sets what is between two of them as a formula.
    """
    shown = " ".join(str(text).split())
    if len(shown) > _LONGEST:
        shown = f"{shown[:20]}…{shown[-19:]}"
    return shown.replace("$", r"\$")


def _percent(value: float, _position: int) -> str:
    return f"{100 * value:.3g}%".replace("-", "−")


@dataclass(eq=False, repr=False)
class GroupLossDisplay(Display):
    """What every group gets under each candidate, with intervals where there are some.

    Parameters
    ----------
    values : ndarray of shape (n_reducers, k)
        One number for every reducer and group.
    groups, reducers : list of str
        The groups as they are shown, from top to bottom, and the names of the reducers.
    intervals : ndarray of shape (n_reducers, k, 2), optional
        Lower and upper ends; NaN where they are not known.
    label : str
        What the numbers are, and of which rows.
    title : str, default="group"
        What the groups are groups of.
    limits : pair of float, optional
        Ends of the axis; what is longer is cut.

    Attributes
    ----------
    bars_ : list of BarContainer, one for each reducer

    Examples
    --------
    >>> from fairpca import audit, plots
    >>> from sklearn.datasets import load_wine
    >>> found = audit(*load_wine(return_X_y=True), 2)
    >>> plots.GroupLossDisplay.from_audit(found).ax_.get_xlabel()
    "loss on new rows, as a share of the group's variance"
    """

    values: FloatArray
    _: KW_ONLY
    groups: list[str]
    reducers: list[str]
    intervals: FloatArray | None = None
    label: str = "loss, as a share of the group's variance"
    title: str = "group"
    limits: tuple[float, float] | None = None

    @classmethod
    def from_audit(cls, audit: Audit, *, max_groups: int = 20, ax: Axes | None = None) -> Self:
        """Draw what every group loses: on new rows, where the audit knows them.

        Groups with few rows come last, and what they lose does not make the others' bars short.

        Parameters
        ----------
        audit : Audit
            What `fairpca.audit` returned.
        max_groups : int, default=20
            Of more groups than this those that lose most under PCA are drawn, as the axis says.
        ax : matplotlib Axes, optional
            Default: a new figure, taller for more groups.
        """
        on, where = ("hand", "the rows of the fit") if audit.why_not_new else ("new", "new rows")
        fits, (large, few) = audit.of(on, audit.n_components), words.parted(audit)
        order, k, title = [*large, *few][:max_groups], len(audit.groups), words.group_title(audit)
        shares = np.array([[f.as_share(name) for f in fits] for name in ("loss", "low", "high")])
        texts = [audit.groups[i].text + " (few rows)" * (i in few) for i in order]
        return cls(
            shares[0][:, order],
            groups=texts,
            reducers=[f.reducer for f in fits],
            intervals=np.moveaxis(shares[1:][:, :, order], 0, 2),
            label=f"loss on {where}, as a share of the group's variance",
            title=title if len(order) == k else f"{title} ({len(order)} of {k})",
            limits=words.bar_limits(shares[0][:, large], shares[1:][:, :, large]),
        ).plot(ax=ax)

    def __post_init__(self) -> None:
        n_reducers, k = self.values.shape
        self._size = (7, min(1.3 + k * (0.16 + 0.17 * n_reducers), 30))

    def _draw(self, axes: Any) -> None:
        n_reducers, k = self.values.shape
        step = 0.8 / n_reducers
        self.bars_ = []
        for j, (colour, marker) in enumerate(looks(self.reducers)):
            y, values = np.arange(k) + (j - (n_reducers - 1) / 2) * step, self.values[j]
            self.bars_.append(axes.barh(y, values, height=step * 0.5, color=colour, alpha=0.45))
            if self.intervals is not None:
                axes.hlines(y, *self.intervals[j].T, color=colour, lw=1.5)
            name = drawable(self.reducers[j])
            axes.plot(values, y, marker, color=colour, ms=5.5, ls="", label=name)
        axes.axvline(0, color=ink(), lw=0.8)
        axes.set_yticks(np.arange(k), [drawable(text) for text in self.groups])
        # The group served worst comes first and belongs at the top.
        axes.set_ylim(k - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_formatter(_percent)
        axes.set(ylabel=drawable(self.title), xlabel=self.label)
        if self.limits is not None:
            low, high = self.limits
            axes.set_xlim(low - 0.02 * (high - low) * (low < 0), high + 0.02 * (high - low))
        # Above the axes: inside there is no corner that an interval may not reach.
        style = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": min(n_reducers, 4)}
        axes.legend(frameon=False, fontsize="small", handletextpad=0.3, **style)


@dataclass(eq=False, repr=False)
class RankCurveDisplay(Display):
    """Over the number of components: the group that loses most and the one that loses least.

    Every reducer is a band between its worst- and its best-served group, so that the picture stays
    the same for two groups and for fifty.

    Parameters
    ----------
    ranks : array-like of shape (n_ranks,)
        Numbers of components.
    values : ndarray of shape (n_reducers, n_ranks, k)
        One number for every group.
    reducers : list of str
    label : str
        What the numbers are, and of which rows.

    Attributes
    ----------
    lines_ : list of Line2D, the worst-served group of each reducer

    Examples
    --------
    >>> from fairpca import audit, plots
    >>> from sklearn.datasets import load_wine
    >>> found = audit(*load_wine(return_X_y=True), 2, ranks=[1, 2, 3])
    >>> plots.RankCurveDisplay.from_audit(found).values.shape
    (2, 3, 3)
    """

    ranks: IntArray
    values: FloatArray
    _: KW_ONLY
    reducers: list[str]
    label: str = "loss, as a share of the group's variance"

    @classmethod
    def from_audit(
        cls,
        audit: Audit,
        *,
        reducers: Sequence[str] = ("PCA", "FairPCA"),
        ax: Axes | None = None,
    ) -> Self:
        """Draw an audit's numbers of components, which it knows on the rows of the fit.

        Parameters
        ----------
        audit : Audit
            What `fairpca.audit` returned.
        reducers : sequence of str, default=("PCA", "FairPCA")
            Some of `audit.reducers`.
        ax : matplotlib Axes, optional
            Default: a new figure.
        """
        label = "loss on the rows of the fit,\nas a share of the group's variance"
        values = [[audit.at(name, r).as_share("loss") for r in audit.ranks] for name in reducers]
        found = cls(np.array(audit.ranks), np.array(values), reducers=list(reducers), label=label)
        return found.plot(ax=ax)

    def _draw(self, axes: Any) -> None:
        self.lines_ = []
        for name, values, (colour, marker) in zip(
            self.reducers, self.values, looks(self.reducers), strict=True
        ):
            worst, best = np.nanmax(values, axis=1), np.nanmin(values, axis=1)
            axes.fill_between(self.ranks, best, worst, color=colour, alpha=0.2, lw=0)
            axes.plot(self.ranks, best, color=colour, lw=1, ls=":")
            style = {"color": colour, "lw": 2, "ms": 5, "marker": marker, "label": drawable(name)}
            self.lines_ += axes.plot(self.ranks, worst, **style)
        axes.set(xlabel="number of components", ylabel=self.label)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(_percent)
        # There is no half component.
        axes.xaxis.get_major_locator().set_params(integer=True)
        title = "worst-served group (line)\nto best-served group (dots)"
        axes.legend(frameon=False, fontsize="small", title=title, title_fontsize="small")


@dataclass(eq=False, repr=False)
class ScatterDisplay(Display):
    """Projected rows on every pair of the first three components, one colour and marker a group.

    Parameters
    ----------
    points : ndarray of shape (m, r)
        The projected rows.
    codes : ndarray of shape (m,)
        Group of every point, as a position in `groups`.
    groups : list of str
        The groups as they are shown.

    Attributes
    ----------
    axes_ : list of Axes, one for each pair of components; `ax_` is the first

    Examples
    --------
    >>> from fairpca import FairPCA, plots
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> model = FairPCA(3).fit(X, sensitive_features=kind)
    >>> display = plots.ScatterDisplay.from_estimator(model, X, sensitive_features=kind)
    >>> display.groups, len(display.axes_)
    (['0', '1', '2'], 3)
    """

    points: FloatArray
    codes: IntArray
    groups: list[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: Rows,
        *,
        sensitive_features: Labels,
        max_points: int = 500,
        random_state: int = 0,
        ax: Axes | None = None,
    ) -> Self:
        """Project rows with a fitted reducer, draw them and return the display.

        Parameters
        ----------
        estimator : fitted transformer
            With one component the points are spread at random along the other axis.
        X : array-like of shape (m, n)
            Rows to project.
        sensitive_features : array-like, Series, frame or dict
            One label per row; rows without a label are left out.
        max_points, random_state : int, default 500 and 0
            Rows drawn of every group at most (more hide each other), and the seed of the choice.
        ax : matplotlib Axes, optional
            Here the first two components are drawn. Default: a new figure with all pairs.
        """
        projected = np.asarray(estimator.transform(X), dtype=float)
        groups = Groups.from_labels(sensitive_features, n_rows=len(projected), unlabelled="ignore")
        rng = np.random.default_rng(random_state)
        # As many of every group, however small: a draw in proportion could miss one entirely.
        chosen = [
            rng.permutation(np.flatnonzero(groups.codes == code))[:max_points]
            for code in range(groups.n_groups)
        ]
        # In random order: no group hides the others.
        picks = rng.permutation(np.concatenate(chosen))
        return cls(
            projected[picks],
            groups.codes[picks],
            words.label_texts(groups.labels, groups.names, "intersection"),
        ).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the points and return the display; on given axes the first two components only."""
        pyplot = require("matplotlib.pyplot", extra="app", purpose="a plot")
        r = self.points.shape[1]
        pairs = list(itertools.combinations(range(min(r, 3)), 2)) or [(0, 1)]
        axes = [ax]
        if ax is None:
            size = (3.2 * len(pairs) + 1.6, 3.6)
            _, axes = pyplot.subplots(
                1, len(pairs), figsize=size, layout="constrained", squeeze=False
            )
            axes = list(axes[0])
        self.axes_ = []
        for pair, one in zip(pairs, axes, strict=False):
            with self._axes(one) as drawn:
                self._draw_pair(drawn, *pair)
                self.axes_.append(drawn)
        self.ax_ = self.axes_[0]
        if len(self.groups) <= 20:
            handles, names = self.ax_.get_legend_handles_labels()
            style = {"loc": "upper left", "bbox_to_anchor": (1, 1), "frameon": False}
            self.axes_[-1].legend(handles, names, fontsize="small", **style)
        return self

    def _draw_pair(self, axes: Any, i: int, j: int) -> None:
        x = self.points[:, i]
        alone = self.points.shape[1] == 1
        y = np.random.default_rng(0).uniform(-1, 1, len(x)) if alone else self.points[:, j]
        for code, group in enumerate(self.groups):
            colour, marker = PALETTE[code % len(PALETTE)], MARKERS[code % len(MARKERS)]
            style = {"s": 14, "alpha": 0.75, "linewidths": 0, "color": colour, "marker": marker}
            mine = self.codes == code
            axes.scatter(x[mine], y[mine], label=drawable(group), **style)
        axes.set(xlabel=f"component {i + 1}", ylabel="" if alone else f"component {j + 1}")
        if alone:
            axes.set_yticks([])


@dataclass(eq=False, repr=False)
class LoadingsDisplay(Display):
    """Weights of the columns in the leading components.

    Parameters
    ----------
    components : ndarray of shape (r, n)
        One component per row.
    feature_names : list of str
        Names of the columns.
    title : str, default=""
        Whose components they are.

    Attributes
    ----------
    image_ : AxesImage of the weights
    shown_ : ndarray of int, the columns shown, heaviest first

    Examples
    --------
    >>> from fairpca import FairPCA, plots
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True, as_frame=True)
    >>> model = FairPCA(2).fit(X / X.std(), sensitive_features=kind)
    >>> X.columns[plots.LoadingsDisplay.from_estimator(model).shown_[:3]].tolist()
    ['color_intensity', 'alcohol', 'flavanoids']
    """

    components: FloatArray
    _: KW_ONLY
    feature_names: list[str]
    title: str = ""

    def __post_init__(self) -> None:
        leading = self.components[:6]
        self.shown_ = np.argsort(-np.abs(leading).max(axis=0), kind="stable")[:20]
        self._weights = leading[:, self.shown_].T
        n, r = self._weights.shape
        self._size = (3.2 + 0.6 * r, 1.1 + 0.27 * n)

    @classmethod
    def from_estimator(
        cls, estimator: Model, *,
        feature_names: Sequence[str] | None = None, ax: Axes | None = None,
    ) -> Self:  # fmt: skip
        """Draw a fitted linear reducer and return the display.

        Parameters
        ----------
        estimator : fitted estimator with `components_`
            Of its components the first six are drawn, and of its columns the twenty heaviest.
        feature_names : sequence of str, optional
            Default: the names the estimator remembers, or x0, x1, ...
        ax : matplotlib Axes, optional
            Default: a new figure.
        """
        components = np.asarray(estimator.components_, dtype=float)
        n = components.shape[1]
        names = feature_names
        if names is None:
            names = getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(n)])
        if len(names) != n:
            raise ValueError(f"feature_names has {len(names)} entries and there are {n} columns.")
        title = type(estimator).__name__
        return cls(components, feature_names=list(map(str, names)), title=title).plot(ax=ax)

    def _draw(self, axes: Any) -> None:
        n, r = self._weights.shape
        # All weights zero would leave a range of colours without length.
        limit = float(np.abs(self._weights).max()) or 1.0
        limits = {"vmin": -limit, "vmax": limit, "aspect": "auto"}
        # White at zero; orange and purple are told apart by colour-blind people.
        self.image_ = axes.imshow(self._weights, cmap="PuOr_r", **limits)
        for (i, j), weight in np.ndenumerate(self._weights):
            colour = "white" if abs(weight) > 0.6 * limit else "black"
            style = {"ha": "center", "va": "center", "fontsize": "x-small", "color": colour}
            axes.text(j, i, f"{round(weight, 2) + 0.0:.2f}".replace("-", "−"), **style)
        axes.set_yticks(np.arange(n), [drawable(self.feature_names[i]) for i in self.shown_])
        axes.set_xticks(np.arange(r), [str(j + 1) for j in range(r)])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        left = len(self.feature_names) - n
        title = f"{self.title}: weights of the columns"
        axes.set_title(drawable(title), fontsize="medium", loc="left")
        axes.set_xlabel("component" + (f"\n({left} lighter columns not shown)" if left else ""))
