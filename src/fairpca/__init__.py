"""Group-fair dimensionality reduction with a proof of how good the answer is.

Names are imported when they are first used, so that the command line answers ``--help`` without
importing scikit-learn. Functions and the packages beside them have different names (`audit` and
`fairpca.auditing`, `solve` and `fairpca.solvers`), so that importing a submodule never hides a
function.
"""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from fairpca import datasets as datasets
    from fairpca import genetics as genetics
    from fairpca import io as io
    from fairpca import methods as methods
    from fairpca import metrics as metrics
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

__version__ = "0.3.0"

# Where each public name lives; an empty string marks a submodule.
_HOMES = {
    "Audit": "auditing",
    "Certificate": "solvers",
    "ComponentPath": "paths",
    "CrossFit": "cross_fitting",
    "FairPCA": "estimator",
    "GroupMoments": "moments",
    "Groups": "moments",
    "MaxMinDistanceAnalysis": "separation",
    "NoisyGroupWarning": "shrinkage",
    "Solution": "solvers",
    "audit": "auditing",
    "compare": "comparison",
    "component_path": "paths",
    "cross_fit": "cross_fitting",
    "datasets": "",
    "distributed": "",
    "genetics": "",
    "io": "",
    "joint_numerical_range": "paths",
    "methods": "",
    "metrics": "",
    "persistence": "",
    "phi": "paths",
    "plots": "",
    "report": "",
    "scverse": "",
    "solve": "fitting",
    "solvers": "",
    "xarray": "",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fairpca' has no attribute {name!r}")
    home = _HOMES[name]
    module = _importlib.import_module(f"fairpca.{home or name}")
    return getattr(module, name) if home else module


def __dir__() -> list[str]:
    return sorted(__all__)
