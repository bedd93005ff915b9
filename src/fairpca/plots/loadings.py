"""Which columns make up the components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairpca._linalg import FloatArray, principal_rotation
from fairpca.auditing.findings import Audit
from fairpca.plots.style import axes, drawable, drawable_all, drawing


class LoadingsDisplay:
    """Weights of the columns in the leading components.

    Parameters
    ----------
    components : ndarray of shape (r, n)
    feature_names : list of str
    title : str

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    image_ : AxesImage
    shown_ : ndarray of int
        Columns shown, heaviest first.
    """

    def __init__(
        self, components: FloatArray, *, feature_names: list[str], title: str = ""
    ) -> None:
        self.components = components
        self.feature_names = feature_names
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
        **plot: Any,
    ) -> LoadingsDisplay:
        """Draw a fitted linear reducer; names come from the argument, the estimator or X."""
        if feature_names is None:
            feature_names = getattr(estimator, "feature_names_in_", getattr(X, "columns", None))
        components = np.asarray(estimator.components_, dtype=float)
        names = _names(feature_names, components.shape[1])
        display = cls(components, feature_names=names, title=type(estimator).__name__)
        return display.plot(ax=ax, **plot)

    @classmethod
    def from_audit(
        cls,
        audit: Audit,
        *,
        reducer: str = "FairPCA",
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
        **plot: Any,
    ) -> LoadingsDisplay:
        """Draw one of the projections an audit looked at."""
        basis = audit.bases.get((reducer, audit.n_components))
        if basis is None or audit.moments is None:
            raise ValueError(
                "this audit was read from a file, which holds no projections; use from_estimator."
            )
        rotated, _ = principal_rotation(basis, audit.moments.pooled().covariances[0])
        names = _names(feature_names, rotated.shape[1])
        return cls(rotated, feature_names=names, title=reducer).plot(ax=ax, **plot)

    def plot(
        self,
        ax: Any = None,
        *,
        max_components: int = 6,
        max_features: int = 20,
        image_shape: tuple[int, int] | None = None,
        component: int = 0,
    ) -> LoadingsDisplay:
        """Draw a table of weights, or one component as a picture.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        max_components, max_features : int
            Components, and heaviest columns, to show.
        image_shape : pair of int, optional
            Where the columns are pixels: draw `component` as an image of this shape.
        component : int, default=0
        """
        with drawing():
            if image_shape is None:
                return self._table(ax, max_components, max_features)
            self.figure_, self.ax_ = axes(ax, figsize=(3.6, 3.6))
            weights = self.components[component].reshape(image_shape)
            limit = float(np.abs(weights).max()) or 1.0
            self.shown_ = np.arange(weights.size)
            self.image_ = self.ax_.imshow(weights, cmap="PuOr_r", vmin=-limit, vmax=limit)
            self.ax_.set_title(drawable(f"{self.title}, component {component + 1}"))
            self.ax_.set_xticks([])
            self.ax_.set_yticks([])
        return self

    def _table(self, ax: Any, max_components: int, max_features: int) -> LoadingsDisplay:
        weights = self.components[:max_components]
        self.shown_ = np.argsort(-np.abs(weights).max(axis=0), kind="stable")[:max_features]
        shown = weights[:, self.shown_].T
        height = 1.2 + 0.26 * len(shown)
        self.figure_, self.ax_ = axes(ax, figsize=(2.6 + 0.7 * len(weights), height))
        limit = float(np.abs(shown).max()) or 1.0
        self.image_ = self.ax_.imshow(shown, cmap="PuOr_r", vmin=-limit, vmax=limit, aspect="auto")
        self.ax_.set_yticks(
            np.arange(len(shown)), drawable_all(self.feature_names[i] for i in self.shown_)
        )
        self.ax_.set_xticks(np.arange(len(weights)), [str(j + 1) for j in range(len(weights))])
        self.ax_.set_xlabel("component")
        left = len(self.feature_names) - len(shown)
        note = f" ({left} lighter columns not shown)" if left else ""
        self.ax_.set_title(drawable(f"{self.title}{note}"), fontsize="medium")
        self.figure_.colorbar(self.image_, ax=self.ax_, label="weight")
        return self


def _names(feature_names: Any, n: int) -> list[str]:
    if feature_names is None:
        return [f"x{j}" for j in range(n)]
    names = [str(name) for name in feature_names]
    if len(names) != n:
        raise ValueError(f"feature_names has {len(names)} entries and there are {n} columns.")
    return names
