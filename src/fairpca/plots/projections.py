"""Pictures of one projection: its rows on two components, and the columns they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairpca._check import check_choice
from fairpca._arrays import FloatArray, IntArray, principal_rotation
from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import label_texts, told
from fairpca.moments.groups import Groups
from fairpca.plots.display import Display, drawable, group_colour

# Markers of groups in a scatter plot. Ten do not divide seven, so the pair of colour and marker
# repeats only after seventy groups.
_MARKERS = "os^DvPX*<>"
# A map of colours with white at zero; orange and purple are told apart by colour-blind people.
_COLOURS = "PuOr_r"
# Groups in the legend at most: in two columns, more are taller than the figure.
_LONGEST_LEGEND = 20


def _projection_of(audit: Audit, reducer: str) -> SimpleNamespace:
    """Return one reducer of an audit with what is drawn of a fitted estimator.

    The components are rotated as `FairPCA` rotates them: the pooled covariance decreases along
    them. An audit that was read from a file has none, which is a ValueError.
    """
    check_choice("reducer", reducer, audit.reducers)
    basis = audit.bases.get((reducer, audit.n_components))
    if basis is None or audit.moments is None:
        raise ValueError(
            "this audit was read from a file, which holds no projections; use from_estimator."
        )
    pooled = audit.moments.pooled()
    components, _ = principal_rotation(basis, pooled.covariances[0])
    mean = pooled.mean[0]
    if audit.span is not None:
        components, mean = components @ audit.span.directions.T, audit.span.point(mean)
    return SimpleNamespace(
        components_=components,
        feature_names_in_=told(audit, "source", "features"),
        transform=lambda rows: (np.asarray(rows, dtype=float) - mean) @ components.T,
    )


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
    points_ : list of PathCollection, one per group, those of small groups on top

    Examples
    --------
    >>> from fairpca import FairPCA, plots
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> model = FairPCA(2).fit(X, sensitive_features=kind)
    >>> plots.ScatterDisplay.from_estimator(model, X, sensitive_features=kind).groups
    ['0', '1', '2']
    """

    _size = (7, 5)
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
        """Project rows with a fitted reducer, draw them and return the display.

        Parameters
        ----------
        estimator : fitted transformer
            With one component the points are spread at random along the other axis.
        X : array-like of shape (m, n)
            Rows to project.
        sensitive_features : array-like, Series, frame or dict
            One label per row; rows without a label are left out.
        max_points, random_state : int, default 800 and 0
            Rows drawn of every group at most (more hide each other), and the seed of the choice.
        ax : matplotlib Axes, optional
            Default: a new figure.
        """
        projected = np.asarray(estimator.transform(X), dtype=float)
        groups = Groups.from_labels(sensitive_features, n_rows=len(projected), unlabelled="ignore")
        rng = np.random.default_rng(random_state)
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

    @classmethod
    def from_audit(cls, audit: Audit, X: Any, *, reducer: str = "FairPCA", **options: Any) -> Self:
        """Project rows with one of the projections an audit looked at, as `from_estimator` does.

        Parameters
        ----------
        audit : Audit
            What `fairpca.audit` returned, not read from a file. It holds no rows.
        reducer : str, default="FairPCA"
            One of `audit.reducers`.
        X, **options
            As in `from_estimator`; `sensitive_features` is required there.
        """
        return cls.from_estimator(_projection_of(audit, reducer), X, **options)

    def _draw(self, axes: Any) -> None:
        """Draw the points, those of small groups on top."""
        style = {"s": 16, "alpha": 0.55, "linewidths": 0}
        sizes = np.bincount(self.codes, minlength=len(self.groups))
        depths = np.argsort(np.argsort(-sizes, kind="stable"))
        self.points_ = [
            axes.scatter(
                *self.points[self.codes == code].T,
                marker=_MARKERS[code % len(_MARKERS)],
                color=group_colour(code),
                # Between the grid (below 2) and text (3), however many groups there are.
                zorder=2 + depths[code] / len(self.groups),
                label=drawable(group),
                **style,
            )
            for code, group in enumerate(self.groups)
        ]
        axes.set(xlabel=self.names[0], ylabel=self.names[1])
        if len(self.groups) <= _LONGEST_LEGEND:
            self._legend_beside(self.points_)


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

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        title: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw a fitted linear reducer and return the display.

        Parameters
        ----------
        estimator : fitted estimator with `components_`
            Names of columns that it remembers are used.
        X : frame, optional
            Otherwise its column names are used.
        feature_names : sequence of str, optional
            Names that take precedence over both. Without any the columns are x0, x1, ...
        title : str, optional
            Whose components they are. Default: the name of the class.
        ax, **options
            Of `plot`.
        """
        if not hasattr(estimator, "components_"):
            check_is_fitted(estimator)
        components = np.asarray(estimator.components_, dtype=float)
        n = components.shape[1]
        remembered = getattr(estimator, "feature_names_in_", None)
        numbered = [f"x{j}" for j in range(n)]
        known = (feature_names, remembered, getattr(X, "columns", None), numbered)
        names = [str(name) for name in next(given for given in known if given is not None)]
        if len(names) != n:
            raise ValueError(f"feature_names has {len(names)} entries and there are {n} columns.")
        title = title or type(estimator).__name__
        return cls(components, feature_names=names, title=title).plot(ax=ax, **options)

    @classmethod
    def from_audit(
        cls, audit: Audit, X: Any = None, *, reducer: str = "FairPCA", **options: Any
    ) -> Self:
        """Draw one of the projections an audit looked at, as `from_estimator` does.

        Parameters
        ----------
        audit : Audit
            What `fairpca.audit` returned, not read from a file. It remembers the names of columns
            where its rows were a frame.
        reducer : str, default="FairPCA"
            One of `audit.reducers`.
        X, **options
            As in `from_estimator`.
        """
        options = {"title": reducer, **options}
        return cls.from_estimator(_projection_of(audit, reducer), X, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        max_components: int = 6,
        max_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        component: int = 0,
    ) -> Self:
        """Draw a table of weights, or one component as a picture, and return the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.
        max_components, max_features : int, default 6 and 20
            Leading components and heaviest columns in the table; its title counts the others.
        image_shape, component : pair of int, optional, and int, default=0
            Where the columns are pixels: draw this component as an image of this shape.
        """
        if image_shape is None:
            leading = self.components[:max_components]
            self.shown_ = np.argsort(-np.abs(leading).max(axis=0), kind="stable")[:max_features]
            weights = leading[:, self.shown_].T
            left = len(self.feature_names) - len(self.shown_)
            note = f" ({left} lighter columns not shown)" if left else ""
            size = (2.6 + 0.7 * weights.shape[1], 1.2 + 0.26 * len(weights))
        else:
            r, n = self.components.shape
            if not 0 <= component < r:
                raise ValueError(f"component={component} must be between 0 and {r - 1}.")
            if np.prod(image_shape) != n:
                raise ValueError(f"image_shape={image_shape} must have {n} pixels, one a column.")
            weights = self.components[component].reshape(image_shape)
            self.shown_ = np.arange(weights.size)
            note, size = f", component {component + 1}", (3.6, 3.6)
        # All weights zero would leave a range of colours without length.
        limit = float(np.abs(weights).max()) or 1.0
        with self._axes(ax, size) as axes:
            axes.spines[:].set_visible(True)
            self.image_ = axes.imshow(weights, cmap=_COLOURS, vmin=-limit, vmax=limit)
            axes.set_title(drawable(self.title + note), fontsize="medium")
            if image_shape is None:
                n, r = weights.shape
                # Cells need not be square; pixels must be.
                axes.set_aspect("auto")
                names = [drawable(self.feature_names[i]) for i in self.shown_]
                axes.set_yticks(np.arange(n), names)
                axes.set_xticks(np.arange(r), [str(j + 1) for j in range(r)])
                axes.set_xlabel("component")
                self.figure_.colorbar(self.image_, ax=axes, label="weight")
            else:
                axes.set(xticks=[], yticks=[])
        return self
