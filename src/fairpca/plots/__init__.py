"""Pictures of fits and audits, in the way of scikit-learn's Displays.

Each class holds the numbers it draws. `from_audit` and `from_estimator` compute them,
`plot(ax=...)` draws them with matplotlib and keeps `ax_`, `figure_` and the artists. Colours are
those of Okabe and Ito, told apart with every kind of colour vision; labels are shown as they were
given.
"""

from fairpca.plots.dual import DualDisplay, NumericalRangeDisplay
from fairpca.plots.groups import GroupLossDisplay
from fairpca.plots.loadings import LoadingsDisplay
from fairpca.plots.ranks import RankCurveDisplay, TradeoffDisplay
from fairpca.plots.scatter import ScatterDisplay

__all__ = [
    "DualDisplay",
    "GroupLossDisplay",
    "LoadingsDisplay",
    "NumericalRangeDisplay",
    "RankCurveDisplay",
    "ScatterDisplay",
    "TradeoffDisplay",
]
