"""Group-fair dimensionality reduction with a proof of how good the answer is.

Names are imported when they are first used, so that the command line answers ``--help`` without
importing scikit-learn. Which names there are, and where they live, is written once, in the stub
beside this file, which type checkers read too. Functions and the packages beside them have
different names (`audit` and `fairpca.auditing`, `solve` and `fairpca.solvers`), so that importing
a submodule never hides a function.
"""

from __future__ import annotations

import ast as _ast
import importlib as _importlib
import pathlib as _pathlib
import typing as _typing

__version__ = "0.3.0"

_STUB = _pathlib.Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOMES = {
    alias.name: node.module
    for node in _ast.parse(_STUB).body
    if isinstance(node, _ast.ImportFrom)
    for alias in node.names
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fairpca' has no attribute {name!r}")
    if _HOMES[name] == "fairpca":
        return _importlib.import_module(f"fairpca.{name}")
    return getattr(_importlib.import_module(str(_HOMES[name])), name)


def __dir__() -> list[str]:
    return sorted(__all__)
