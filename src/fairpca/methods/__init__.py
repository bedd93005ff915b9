"""Every other published fair PCA, each an estimator with the face of `fairpca.FairPCA`.

The imports below are the only list of methods: `fairpca.compare` and the command line read it.
To add a method, write its module (`fairpca.methods._base` says how) and add one line here.

>>> from fairpca import methods
>>> methods.NullSpaceFairPCA.notion
'mean gap'
"""

from fairpca.methods._base import PublishedMethod as _PublishedMethod
from fairpca.methods.covariance_constrained import (
    CovarianceConstrainedPCA as CovarianceConstrainedPCA,
)
from fairpca.methods.joint_diagonal import JointDiagonalPCA as JointDiagonalPCA
from fairpca.methods.minorization import MinorizationFairPCA as MinorizationFairPCA
from fairpca.methods.mmd import MMDFairPCA as MMDFairPCA
from fairpca.methods.multi_criteria import MultiCriteriaPCA as MultiCriteriaPCA
from fairpca.methods.null_space import NullSpaceFairPCA as NullSpaceFairPCA
from fairpca.methods.pareto import ParetoFairPCA as ParetoFairPCA
from fairpca.methods.rada import ARPGDA as ARPGDA
from fairpca.methods.rada import RADA as RADA
from fairpca.methods.sdr import SDRFairPCA as SDRFairPCA
from fairpca.methods.spea2 import SPEA2FairPCA as SPEA2FairPCA
from fairpca.methods.stable import StablePCA as StablePCA
from fairpca.methods.streaming import StreamingFairPCA as StreamingFairPCA
from fairpca.methods.tradeoff import ConstrainedFPCA as ConstrainedFPCA
from fairpca.methods.tradeoff import UnconstrainedFPCA as UnconstrainedFPCA

# Computed, so that a method is named in one place.
__all__ = sorted(
    name
    for name, found in globals().items()
    if isinstance(found, type) and issubclass(found, _PublishedMethod) and not name.startswith("_")
)
