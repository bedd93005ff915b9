"""Pictures of fits and audits, in the way of scikit-learn's displays.

Each class holds the numbers it draws. `from_audit`, `from_estimator` and, for two groups,
`from_moments` compute them; `plot(ax=...)` draws them with matplotlib and keeps `ax_`, `figure_`
and the artists. Labels are shown as they were given, in colours told apart with every kind of
colour vision.
"""

from fairpca.plots.audits import GroupLossDisplay, RankCurveDisplay, TradeoffDisplay
from fairpca.plots.projections import LoadingsDisplay, ScatterDisplay
from fairpca.plots.two_groups import DualDisplay, NumericalRangeDisplay

__all__ = [
    "DualDisplay",
    "GroupLossDisplay",
    "LoadingsDisplay",
    "NumericalRangeDisplay",
    "RankCurveDisplay",
    "ScatterDisplay",
    "TradeoffDisplay",
]
