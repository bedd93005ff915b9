"""Every other published fair PCA, each an estimator with the face of `fairpca.FairPCA`.

The imports below are the only list of methods: `fairpca.compare` and the command line read it.
To add a method, write its module (`fairpca.methods._base` says how) and add one line here.

What several methods have in common means the same in all of them:

Parameters
----------
n_components : int or None
    Rank r. None keeps as many components as the method can.
criterion : {"loss", "error", "variance", "relative", "share"}
    What the worst group is judged by, as in `fairpca.FairPCA`.
center : {"group", "global", "none"}
    Second moments are about each group's own mean, the mean of all rows, or zero.
random_state : int, RandomState instance or None
    Of all random choices. None is a fixed seed, so that fits repeat.

Attributes
----------
components_, mean_, explained_variance_, groups_, group_losses_, group_errors_, ...
    As in `fairpca.FairPCA`.
center_, n_iter_, stop_reason_ : str, int, str
    What the second moments are about ("global" for methods that compare the groups' means and
    have no choice), steps of the method, at least 1, and why it stopped.
group_values_, group_weights_, certificate_
    Of methods that serve the worst group: the criterion of every group, and a bound on the worst
    value by the dual function. The other methods optimise no worst case, and have no certificate.

>>> from fairpca import methods
>>> methods.NullSpaceFairPCA.notion
'mean gap'
"""

from fairpca.methods.averages import AnchorPCA as AnchorPCA
from fairpca.methods.averages import BalancedPCA as BalancedPCA
from fairpca.methods.covariance_constrained import (
    CovarianceConstrainedPCA as CovarianceConstrainedPCA,
)
from fairpca.methods.eigopt import EigOpt as EigOpt
from fairpca.methods.joint_diagonal import JointDiagonalPCA as JointDiagonalPCA
from fairpca.methods.local_search import ARPGDA as ARPGDA
from fairpca.methods.local_search import RADA as RADA
from fairpca.methods.local_search import MinorizationFairPCA as MinorizationFairPCA
from fairpca.methods.mmd import MMDFairPCA as MMDFairPCA
from fairpca.methods.multi_criteria import MultiCriteriaPCA as MultiCriteriaPCA
from fairpca.methods.null_space import NullSpaceFairPCA as NullSpaceFairPCA
from fairpca.methods.pareto import ParetoFairPCA as ParetoFairPCA
from fairpca.methods.sdr import SDRFairPCA as SDRFairPCA
from fairpca.methods.spea2 import SPEA2FairPCA as SPEA2FairPCA
from fairpca.methods.streaming import StreamingFairPCA as StreamingFairPCA
from fairpca.methods.tradeoff import ConstrainedFPCA as ConstrainedFPCA
from fairpca.methods.tradeoff import UnconstrainedFPCA as UnconstrainedFPCA
from fairpca.methods.worst_group import StablePCA as StablePCA
from fairpca.methods.worst_group import WorstCasePCA as WorstCasePCA

# Computed, so that a method is named in one place: no other classes are imported here.
__all__ = sorted(name for name, found in globals().items() if isinstance(found, type))
