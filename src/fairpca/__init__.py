"""Group-fair dimensionality reduction with a proof of how good the answer is.

Names are loaded when they are first used, so that the command line answers ``--help`` without
importing scikit-learn.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairpca.audit import Audit, audit
    from fairpca.compare import compare
    from fairpca.estimator import FairPCA
    from fairpca.functional import solve
    from fairpca.groups import Groups
    from fairpca.moments import GroupMoments
    from fairpca.numerical_range import joint_numerical_range, phi
    from fairpca.path import ComponentPath, component_path
    from fairpca.solve.solution import Certificate, Solution

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "Certificate",
    "ComponentPath",
    "FairPCA",
    "GroupMoments",
    "Groups",
    "Solution",
    "__version__",
    "audit",
    "compare",
    "component_path",
    "joint_numerical_range",
    "phi",
    "solve",
]

_HOMES = {
    "Audit": "audit",
    "Certificate": "solve.solution",
    "ComponentPath": "path",
    "FairPCA": "estimator",
    "GroupMoments": "moments",
    "Groups": "groups",
    "Solution": "solve.solution",
    "component_path": "path",
    "joint_numerical_range": "numerical_range",
    "phi": "numerical_range",
}
# Functions that share their name with the room they live in.
_SHARED = {"audit": "audit", "compare": "compare", "solve": "functional"}


def _load(home: str, name: str) -> Any:
    return getattr(importlib.import_module(f"fairpca.{home}"), name)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return _load(_HOMES[name], name)
    raise AttributeError(f"module 'fairpca' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _shared(name: str, home: str) -> property:
    # The import system sets a submodule as attribute of its package; the function keeps the name.
    return property(lambda _: _load(home, name), lambda _, __: None)


class _Package(ModuleType):
    """A package whose functions win over rooms of the same name."""


for _name, _home in _SHARED.items():
    setattr(_Package, _name, _shared(_name, _home))
sys.modules[__name__].__class__ = _Package
