"""Every other published fair PCA, each an estimator with the face of `fairpca.FairPCA`."""

from fairpca.methods.covariance_constrained import CovarianceConstrainedPCA
from fairpca.methods.joint_diagonal import JointDiagonalPCA
from fairpca.methods.minorization import MinorizationFairPCA
from fairpca.methods.mmd import MMDFairPCA
from fairpca.methods.multi_criteria import MultiCriteriaPCA
from fairpca.methods.null_space import NullSpaceFairPCA
from fairpca.methods.pareto import ParetoFairPCA
from fairpca.methods.rada import ARPGDA, RADA
from fairpca.methods.sdr import SDRFairPCA
from fairpca.methods.spea2 import SPEA2FairPCA
from fairpca.methods.stable import StablePCA
from fairpca.methods.streaming import StreamingFairPCA
from fairpca.methods.tradeoff import ConstrainedFPCA, UnconstrainedFPCA

__all__ = [
    "ARPGDA",
    "RADA",
    "ConstrainedFPCA",
    "CovarianceConstrainedPCA",
    "JointDiagonalPCA",
    "MMDFairPCA",
    "MinorizationFairPCA",
    "MultiCriteriaPCA",
    "NullSpaceFairPCA",
    "ParetoFairPCA",
    "SDRFairPCA",
    "SPEA2FairPCA",
    "StablePCA",
    "StreamingFairPCA",
    "UnconstrainedFPCA",
]
