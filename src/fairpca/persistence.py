"""Model files without pickle: written whole or not at all, read without running anything in them.

skops writes an archive of arrays and of a description of objects, and builds objects of trusted
types only. What a file holds is checked before it is believed: sizes before anything is unpacked,
then that numbers are finite, shapes agree and components are orthonormal.
"""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import io
import platform
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairpca import __version__
from fairpca._arrays import AnyArray, fetched, is_foreign
from fairpca._check import require
from fairpca.base import LinearReducer
from fairpca.moments.groups import Model
from fairpca.moments.storage import atomic_write, damage_named

#: Types beyond those that skops trusts: our estimators, what they hold, and group labels. Classes
#: of `fairpca.methods` are trusted, too.
TRUSTED_TYPES = (
    "fairpca.estimator.FairPCA",
    "fairpca.separation.MaxMinDistanceAnalysis",
    "fairpca.moments.group_moments.GroupMoments",
    "fairpca.solvers.solution.Certificate",
    "datetime.date",
    "datetime.datetime",
    # Of SimpleImputer; a type of numbers, read from an array.
    "numpy.dtype",
)
_KIND = "fairpca model 3"
__all__ = ["SavedModel", "load_model", "save_model"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn")
# A member that unpacks to more than this many times its size was made to fill the memory.
_MOST_GROWTH = 10
# Components of a file are orthonormal up to this: those of float32 rows are to 1e-6.
_ORTHONORMAL = 1e-4


def versions() -> dict[str, str]:
    """Return the versions of Python and of every library a number depends on."""
    known = {"python": platform.python_version(), "fairpca": __version__}
    return known | {name: importlib.metadata.version(name) for name in _LIBRARIES}


@dataclass(frozen=True)
class SavedModel:
    """What a model file holds.

    Attributes
    ----------
    model : estimator
        Fitted: a reducer, or a pipeline that prepares columns and ends in one.
    notes : dict of str to str or ndarray
        What whoever wrote the file says about it, such as what was done to the data.
    versions : dict of str to str
        Of Python and the libraries that wrote the file.
    """

    model: Any
    notes: dict[str, str | AnyArray]
    versions: dict[str, str]


def save_model(
    path: str | Path,
    model: Model,
    *,
    notes: Mapping[str, str | AnyArray] | None = None,
    moments: bool = False,
) -> None:
    """Write a fitted model, without pickle, whole or not at all.

    Parameters
    ----------
    path : str or Path
    model : estimator
        Fitted: `FairPCA`, an estimator of `fairpca.methods`, or a pipeline of scikit-learn.
    notes : dict of str to str or ndarray, optional
        What is to be said about the model.
    moments : bool, default=False
        True also stores what `partial_fit` needs to go on, the scatter matrix of every group,
        which says far more about the people in a table than the projection does.

    Raises
    ------
    ValueError
        Where the model could not be read back: an estimator of another library, or group labels
        that are neither text, numbers nor dates. Nothing is written then.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from fairpca import FairPCA
    >>> from fairpca.persistence import load_model, save_model
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> model = FairPCA(1).fit(X, sensitive_features=["a", "b"] * 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/model.skops", model)
    ...     again = load_model(f"{folder}/model.skops").model
    >>> bool(np.array_equal(again.transform(X), model.transform(X)))
    True
    """
    check_is_fitted(model)
    content = {
        "kind": _KIND,
        "versions": versions(),
        "notes": dict(notes or {}),
        "model": _stored_form(model, moments),
    }
    refusal = (
        f"{type(model).__name__} cannot be saved: a model file holds estimators of fairpca and "
        "scikit-learn, with group labels that are text, numbers or dates; keep others with joblib"
    )
    with damage_named(refusal):
        data = require("skops.io", extra="app", purpose="saving model files").dumps(content)
        again = _read(data)["model"]
        for old, new in zip(_steps(model), _steps(again), strict=True):
            if getattr(old, "groups_", None) != getattr(new, "groups_", None):
                raise ValueError("the group labels would come back changed")
    with atomic_write(path) as file:
        file.write(data)


def load_model(path: str | Path) -> SavedModel:
    """Read a model file without running anything in it.

    Parameters
    ----------
    path : str or Path
        Written by `save_model` or ``fairpca fit``.

    Returns
    -------
    SavedModel

    Raises
    ------
    ValueError
        Naming the file, where it is damaged, asks for a type that is not trusted, or is not a
        model file at all.
    """
    data = Path(path).read_bytes()
    with damage_named(f"{path} is not a model file that can be read"):
        content = _read(data)
        return SavedModel(content["model"], dict(content["notes"]), dict(content["versions"]))


def _read(data: bytes) -> dict[str, Any]:
    """Return the content of a file after checking it."""
    skops = require("skops.io", extra="app", purpose="reading model files")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            if info.file_size > _MOST_GROWTH * info.compress_size + 1000:
                raise ValueError(f"{info.filename} unpacks to {info.file_size:,} bytes")
    asked = set(skops.get_untrusted_types(data=data))
    foreign = sorted(name for name in asked if name not in TRUSTED_TYPES and not _is_method(name))
    if foreign:
        raise ValueError(f"it asks for {', '.join(foreign[:4])}; nothing in it was run")
    content: dict[str, Any] = skops.loads(data, trusted=sorted(asked))
    if content["kind"] != _KIND:
        raise ValueError(f"it is a {content['kind']!r}, and this version reads {_KIND!r}")
    check_is_fitted(content["model"])
    for step in _steps(content["model"]):
        _check_numbers(step)
    return content


def _is_method(name: str) -> bool:
    """Whether this is the name of a class of `fairpca.methods`."""
    module, _, attribute = name.rpartition(".")
    if not module.startswith("fairpca.methods."):
        return False
    return isinstance(getattr(importlib.import_module(module), attribute, None), type)


def _steps(model: Any) -> Iterator[Any]:
    """Yield an estimator and all steps of it, if it is a pipeline or has transformers."""
    yield model
    for _, step, *_ in getattr(model, "steps", getattr(model, "transformers_", ())):
        if not isinstance(step, str):
            yield from _steps(step)


def _check_numbers(step: Any) -> None:
    """Raise ValueError unless the arrays of an estimator are finite and fit one another."""
    arrays = {name: value for name, value in vars(step).items() if isinstance(value, np.ndarray)}
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} of {type(step).__name__} is not finite")
    n = getattr(step, "n_features_in_", None)
    for name in ("mean_", "scale_", "var_", "statistics_"):
        value = getattr(step, name, None)
        if n is not None and value is not None and np.shape(value) != (n,):
            raise ValueError(f"{name} of {type(step).__name__} is not of {n} columns")
    if isinstance(step, LinearReducer):
        U = step.components_
        if U.shape != (step.n_components_, n):
            raise ValueError(f"components_ has shape {U.shape}, not ({step.n_components_}, {n})")
        if np.abs(U @ U.T - np.eye(len(U))).max(initial=0.0) > _ORTHONORMAL:
            raise ValueError("components_ is not orthonormal")
        for name in ("counts", "means", "losses", "errors", "shares", "weights"):
            value = getattr(step, f"group_{name}_", step.groups_)
            if len(value) != len(step.groups_):
                raise ValueError(f"group_{name}_ is not of {len(step.groups_)} groups")


def _stored_form(value: Any, moments: bool) -> Any:
    """Return a copy of a model as it goes into a file; the model itself stays as it is.

    Arrays of other libraries become NumPy arrays. What `partial_fit` has counted stays only with
    `moments`, and where labels of a pipeline go (`set_fit_request`) is said again by who fits.
    """
    if type(value) in (list, tuple):
        return type(value)(_stored_form(part, moments) for part in value)
    if isinstance(value, type) or not (is_foreign(value) or hasattr(value, "get_params")):
        return value
    if is_foreign(value):
        return fetched(value)
    stored = copy.copy(value)
    kept = {k: v for k, v in vars(value).items() if k != "_metadata_request"}
    if "_moments" in kept and not moments:
        kept["_moments"] = None
    stored.__dict__ = {name: _stored_form(part, moments) for name, part in kept.items()}
    return stored
