"""Pictures of one projection: its rows on two components, and the columns they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from fairpca._linalg import FloatArray, IntArray
from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import label_texts
from fairpca.moments.groups import Groups
from fairpca.plots.display import Display, projection_of
from fairpca.plots.style import MARKERS, drawable, group_colour

# A map of colours with white at zero; orange and purple are told apart by colour-blind people.
_COLOURS = "PuOr_r"
# Groups in the legend at most: in two columns, more are taller than the figure.
_LONGEST_LEGEND = 20


@dataclass(eq=False, repr=False)
class ScatterDisplay(Display):
    """Projected rows, one colour and marker per group.

    Parameters
    ----------
    points : ndarray of shape (m, 2)
        Where the rows are drawn.
    codes : ndarray of shape (m,)
        Group of every point, as a position in `groups`.
    groups : list of str
        The groups as they are shown.
    names : tuple of str, default=("component 1", "component 2")
        Names of the two axes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    points_ : list of PathCollection
        One per group.

    Examples
    --------
    >>> from fairpca import FairPCA
    >>> from fairpca.plots import ScatterDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> model = FairPCA(2).fit(X, sensitive_features=kind)
    >>> display = ScatterDisplay.from_estimator(model, X, sensitive_features=kind)
    >>> display.groups
    ['0', '1', '2']
    """

    points: FloatArray
    codes: IntArray
    _: KW_ONLY
    groups: list[str]
    names: tuple[str, str] = ("component 1", "component 2")

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
    ) -> Self:
        """Project rows with a fitted reducer and draw them.

        Parameters
        ----------
        estimator : fitted transformer
            With one component the points are spread at random along the other axis.
        X : array-like of shape (m, n)
            Rows to project.
        sensitive_features : array-like, Series, frame or dict
            One label per row; rows without a label are left out.
        max_points : int, default=800
            Rows drawn of every group at most, chosen at random. More hide each other.
        random_state : int, default=0
            Seed of that choice.
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        ScatterDisplay
        """
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
    ) -> Self:
        """Project rows with one of the projections an audit looked at.

        Parameters
        ----------
        audit : Audit
            What `fairpca.audit` returned. It holds the projections and no rows.
        X : array-like of shape (m, n)
            Rows to project.
        sensitive_features, max_points, random_state, ax
            As in `from_estimator`.
        reducer : str, default="FairPCA"
            One of `audit.reducers`.

        Returns
        -------
        ScatterDisplay
        """
        components, mean = projection_of(audit, reducer)
        projected = (np.asarray(X, dtype=float) - mean) @ components.T
        return cls._of(projected, sensitive_features, max_points, random_state, ax)

    @classmethod
    def _of(cls, projected: FloatArray, labels: Any, max_points: int, seed: int, ax: Any) -> Self:
        """Return the display of at most `max_points` projected rows of every group, drawn."""
        groups = Groups.from_labels(labels, n_rows=len(projected), unlabelled="ignore")
        rng = np.random.default_rng(seed)
        # As many of every group, however small: a draw in proportion could miss one entirely.
        chosen = [
            rng.permutation(np.flatnonzero(groups.codes == code))[:max_points]
            for code in range(groups.n_groups)
        ]
        picks = np.sort(np.concatenate(chosen))
        points, names = projected[picks, :2], ("component 1", "component 2")
        if points.shape[1] == 1:
            # One component: spread the points along the other axis so that none hides another.
            points = np.column_stack([points, rng.uniform(-1, 1, len(points))])
            names = ("component 1", "")
        texts = label_texts(groups.labels, groups.names, "intersection")
        return cls(points, groups.codes[picks], groups=texts, names=names).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the points, those of small groups on top.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        self
        """
        sizes = np.bincount(self.codes, minlength=len(self.groups))
        depths = np.argsort(np.argsort(-sizes, kind="stable"))
        with self._axes(ax, (7, 5)) as axes:
            self.points_ = [
                axes.scatter(
                    *self.points[self.codes == code].T,
                    s=16,
                    marker=MARKERS[code % len(MARKERS)],
                    color=group_colour(code),
                    alpha=0.55,
                    linewidths=0,
                    # Between the grid (below 2) and text (3), however many groups there are.
                    zorder=2 + depths[code] / len(self.groups),
                    label=drawable(group),
                )
                for code, group in enumerate(self.groups)
            ]
            axes.set(xlabel=self.names[0], ylabel=self.names[1])
            if len(self.groups) <= _LONGEST_LEGEND:
                self._legend_beside(self.points_)
        return self


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
    ax_, figure_ : matplotlib Axes and Figure
    image_ : AxesImage
        The weights as colours.
    shown_ : ndarray of int
        Columns shown, heaviest first.

    Examples
    --------
    >>> from fairpca import FairPCA
    >>> from fairpca.plots import LoadingsDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True, as_frame=True)
    >>> model = FairPCA(2).fit(X / X.std(), sensitive_features=kind)
    >>> display = LoadingsDisplay.from_estimator(model, max_features=3)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['color_intensity', 'alcohol', 'flavanoids']
    """

    components: FloatArray
    _: KW_ONLY
    feature_names: list[str]
    title: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw a fitted linear reducer.

        Parameters
        ----------
        estimator : fitted estimator with `components_`
            Names of columns that it remembers are used.
        X : frame, optional
            Otherwise its column names are used.
        feature_names : sequence of str, optional
            Names that take precedence over both. Without any the columns are x0, x1, ...
        ax : matplotlib Axes, optional
            Default: a new figure.
        **options
            Of `plot`.

        Returns
        -------
        LoadingsDisplay
        """
        components = np.asarray(estimator.components_, dtype=float)
        remembered = getattr(estimator, "feature_names_in_", None)
        names = _names(components.shape[1], feature_names, remembered, getattr(X, "columns", None))
        title = type(estimator).__name__
        return cls(components, feature_names=names, title=title).plot(ax=ax, **options)

    @classmethod
    def from_audit(
        cls,
        audit: Audit,
        X: Any = None,
        *,
        reducer: str = "FairPCA",
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw one of the projections an audit looked at.

        Parameters
        ----------
        audit : Audit
            What `fairpca.audit` returned. It does not hold the names of columns.
        X : frame, optional
            The table that was audited; its column names are used.
        reducer : str, default="FairPCA"
            One of `audit.reducers`.
        feature_names : sequence of str, optional
            Names that take precedence over those of `X`. Without any the columns are x0, x1, ...
        ax : matplotlib Axes, optional
            Default: a new figure.
        **options
            Of `plot`.

        Returns
        -------
        LoadingsDisplay

        Raises
        ------
        ValueError
            If the audit was read from a file, which holds no projections.
        """
        components, _ = projection_of(audit, reducer)
        names = _names(components.shape[1], feature_names, getattr(X, "columns", None))
        return cls(components, feature_names=names, title=reducer).plot(ax=ax, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        max_components: int = 6,
        max_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        component: int = 0,
    ) -> Self:
        """Draw a table of weights, or one component as a picture.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.
        max_components : int, default=6
            Leading components in the table.
        max_features : int, default=20
            Columns in the table, those with the largest weights; its title counts the others.
        image_shape : pair of int, optional
            Where the columns are pixels: draw `component` as an image of this shape.
        component : int, default=0
            Which component to draw as an image; 0 is the first.

        Returns
        -------
        self
        """
        if image_shape is None:
            weights, title = self._heaviest(max_components, max_features)
            size = (2.6 + 0.7 * weights.shape[1], 1.2 + 0.26 * len(weights))
        else:
            weights, title = self.components[component].reshape(image_shape), self.title
            title += f", component {component + 1}"
            self.shown_ = np.arange(weights.size)
            size = (3.6, 3.6)
        # All weights zero would leave a range of colours without length.
        limit = float(np.abs(weights).max()) or 1.0
        with self._axes(ax, size) as axes:
            axes.spines[:].set_visible(True)
            self.image_ = axes.imshow(weights, cmap=_COLOURS, vmin=-limit, vmax=limit)
            axes.set_title(drawable(title), fontsize="medium")
            if image_shape is None:
                n, r = weights.shape
                # Cells need not be square; pixels must be.
                axes.set_aspect("auto")
                axes.set_yticks(
                    np.arange(n), [drawable(self.feature_names[i]) for i in self.shown_]
                )
                axes.set_xticks(np.arange(r), [str(j + 1) for j in range(r)])
                axes.set_xlabel("component")
                self.figure_.colorbar(self.image_, ax=axes, label="weight")
            else:
                axes.set(xticks=[], yticks=[])
        return self

    def _heaviest(self, max_components: int, max_features: int) -> tuple[FloatArray, str]:
        """Set `shown_` and return the weights of those columns, one per row, and a title."""
        weights = self.components[:max_components]
        self.shown_ = np.argsort(-np.abs(weights).max(axis=0), kind="stable")[:max_features]
        left = len(self.feature_names) - len(self.shown_)
        note = f" ({left} lighter columns not shown)" if left else ""
        return weights[:, self.shown_].T, self.title + note


def _names(n: int, *known: Any) -> list[str]:
    """Return names of n columns: the first that are known, else x0, x1, ..."""
    names = next((list(map(str, given)) for given in known if given is not None), None)
    if names is None:
        return [f"x{j}" for j in range(n)]
    if len(names) != n:
        raise ValueError(f"feature_names has {len(names)} entries and there are {n} columns.")
    return names
