"""Every public name, and the module it lives in."""

from fairpca import datasets as datasets
from fairpca import distributed as distributed
from fairpca import genetics as genetics
from fairpca import io as io
from fairpca import methods as methods
from fairpca import metrics as metrics
from fairpca import persistence as persistence
from fairpca import plots as plots
from fairpca import report as report
from fairpca import scverse as scverse
from fairpca import solvers as solvers
from fairpca import xarray as xarray
from fairpca.auditing import Audit as Audit
from fairpca.auditing import audit as audit
from fairpca.comparison import compare as compare
from fairpca.cross_fitting import CrossFit as CrossFit
from fairpca.cross_fitting import cross_fit as cross_fit
from fairpca.estimator import FairPCA as FairPCA
from fairpca.fitting import solve as solve
from fairpca.moments import GroupMoments as GroupMoments
from fairpca.moments import Groups as Groups
from fairpca.paths import ComponentPath as ComponentPath
from fairpca.paths import component_path as component_path
from fairpca.paths import joint_numerical_range as joint_numerical_range
from fairpca.paths import phi as phi
from fairpca.separation import MaxMinDistanceAnalysis as MaxMinDistanceAnalysis
from fairpca.shrinkage import NoisyGroupWarning as NoisyGroupWarning
from fairpca.solvers import Certificate as Certificate
from fairpca.solvers import Solution as Solution

__version__: str
__all__: list[str]
