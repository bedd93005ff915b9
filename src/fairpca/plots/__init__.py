"""Pictures of fits and audits, in the way of scikit-learn's displays.

Each class holds the numbers it draws. `from_audit`, `from_estimator` and, for two groups,
`from_moments` compute them; `plot(ax=...)` draws them with matplotlib and keeps `ax_` and
`figure_`. All pictures can be read on light and on dark paper and with every kind of colour
vision.
"""

from fairpca.plots.displays import (
    GroupLossDisplay,
    LoadingsDisplay,
    RankCurveDisplay,
    ScatterDisplay,
)
from fairpca.plots.two_groups import DualDisplay, NumericalRangeDisplay

__all__ = [
    "DualDisplay", "GroupLossDisplay", "LoadingsDisplay", "NumericalRangeDisplay",
    "RankCurveDisplay", "ScatterDisplay",
]  # fmt: skip
