"""Group-fair dimensionality reduction with a proof of how good the answer is."""

from fairpca.estimator import FairPCA
from fairpca.functional import solve
from fairpca.groups import Groups
from fairpca.moments import GroupMoments
from fairpca.numerical_range import joint_numerical_range, phi
from fairpca.path import ComponentPath, component_path
from fairpca.solve.solution import Certificate, Solution

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "ComponentPath",
    "FairPCA",
    "GroupMoments",
    "Groups",
    "Solution",
    "__version__",
    "component_path",
    "joint_numerical_range",
    "phi",
    "solve",
]
