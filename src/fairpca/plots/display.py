"""What every display shares: axes to draw on, a legend, and where its numbers come from.

A display is a dataclass of the numbers it draws. Its class methods (`from_audit`,
`from_estimator`, `from_moments`) compute them and draw at once; `plot` draws them again, on other
axes if wanted. This is how scikit-learn's displays work, so users know them already.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from fairpca._checks import require
from fairpca._linalg import FloatArray, principal_rotation
from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import group_title
from fairpca.covariances.sources import CENTERS
from fairpca.plots.style import drawable, fonts

# The mark by which an audit tells a reducer that was given to it from its own PCA and FairPCA. A
# picture beside PCA has no use for it.
GIVEN = " (given)"
# Entries of a legend in one column; a longer column is taller than the axes.
_LEGEND_COLUMN = 12


class Display:
    """The base class of all displays.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where `plot` has drawn.
    """

    @contextlib.contextmanager
    def _axes(self, ax: Any, size: tuple[float, float]) -> Iterator[Any]:
        """Set `figure_` and `ax_` and yield the axes; within it, every installed script is drawn.

        Parameters
        ----------
        ax : matplotlib Axes or None
            None makes a new figure.
        size : pair of float
            Width and height of a new figure in inches.
        """
        pyplot = require("matplotlib.pyplot", extra="app", purpose="a plot")
        # A text takes its font when it is made, so everything is drawn within these settings.
        with pyplot.rc_context({"font.family": list(fonts())}):
            if ax is None:
                _, ax = pyplot.subplots(layout="constrained", figsize=size)
            ax.spines[["top", "right"]].set_visible(False)
            self.figure_, self.ax_ = ax.figure, ax
            yield ax

    def _legend_beside(self, handles: Sequence[Any], title: str = "") -> None:
        """Put a legend to the right of the axes, where it cannot cover a point or a line."""
        columns = 1 if len(handles) <= _LEGEND_COLUMN else 2
        style = {"title": drawable(title), "ncols": columns, "fontsize": "small", "frameon": False}
        self.ax_.legend(handles=handles, loc="upper left", bbox_to_anchor=(1, 1), **style)


def shown_name(name: str) -> str:
    """Return the name of a reducer as it is drawn."""
    return drawable(name.removesuffix(GIVEN))


def center_of(estimator: Any) -> str:
    """Return the mean that the losses of an estimator are about, "global" or "group".

    Some published methods take second moments about zero, which no picture does; they are drawn,
    as estimators without a `center` are, about the mean of all rows.
    """
    center = getattr(estimator, "center", "global")
    return center if center in CENTERS else "global"


def shown_title(audit: Audit, n_shown: int) -> str:
    """Return what the groups are groups of, and how many of them a picture shows if not all."""
    title, k = group_title(audit), len(audit.groups)
    return title if n_shown == k else f"{title} ({n_shown} worst of {k})"


def projection_of(audit: Audit, reducer: str) -> tuple[FloatArray, FloatArray]:
    """Return the components of one reducer of an audit, and the mean they are applied about.

    Parameters
    ----------
    audit : Audit
    reducer : str
        One of `audit.reducers`, with the number of components the audit was asked about.

    Returns
    -------
    components : ndarray of shape (r, n)
        Rotated as `FairPCA` rotates them: the pooled covariance decreases along them.
    mean : ndarray of shape (n,)
        Of all rows.

    Raises
    ------
    ValueError
        If the audit was read from a file.
    """
    basis = audit.bases.get((reducer, audit.n_components))
    if basis is None or audit.moments is None:
        raise ValueError(
            "this audit was read from a file, which holds no projections; use from_estimator."
        )
    pooled = audit.moments.pooled()
    components, _ = principal_rotation(basis, pooled.covariances[0])
    return components, pooled.mean[0]
