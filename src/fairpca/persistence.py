"""Model files without pickle: the model, what it was fitted on, and how its columns were made.

A file is written by skops: arrays and a description of objects, never code. Reading builds only
the types listed in `TRUSTED_TYPES` and those of NumPy and scikit-learn that skops knows. A file
that asks for any other type is refused before any of it is built.

Writing reads the file back before it reaches the disk. So a model that could not be loaded is
refused when it is saved, while the rows it was fitted on are still at hand.
"""

from __future__ import annotations

import copy
import datetime
import importlib.metadata
import io
import json
import platform
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fairpca import methods
from fairpca._check import require
from fairpca._arrays import fetched, is_foreign
from fairpca.io.preparation import Preparation
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.storage import atomic_write, damage_named

__all__ = ["SavedModel", "load_model", "save_model"]

#: Types, beside those skops knows, that a model file may contain: the estimators of this package,
#: what they hold, and group labels. Building any of them from arbitrary values runs no code of a
#: file. A type missing here makes `save_model` refuse the models that contain it.
TRUSTED_TYPES = (
    "fairpca.estimator.FairPCA",
    *(f"{getattr(methods, name).__module__}.{name}" for name in methods.__all__),
    "fairpca.methods.streaming._Stream",
    "fairpca.moments.group_moments.GroupMoments",
    "fairpca.solvers.solution.Certificate",
    "datetime.date",
    "datetime.datetime",
    "datetime.timedelta",
    "datetime.timezone",
    "decimal.Decimal",
    # The same class: pandas 3 and pandas 2 give it different homes.
    "pandas.Interval",
    "pandas._libs.interval.Interval",
)

# Modules that were renamed after version 0.1, old name to new. Its model files name the old ones,
# and could not be read without this table.
_MOVED = {
    "fairpca.moments": "fairpca.moments.group_moments",
    "fairpca.solve.solution": "fairpca.solvers.solution",
}
# Parameters of `FairPCA` that version 0.1 did not have, with the value that describes what it did.
# Without them an older model could not be shown, cloned or fitted further.
_SINCE_0_1 = {"center": "group", "shrinkage": None, "prove": False}
#: Version of the layout of a model file. Raise it when a reader of today would misunderstand what
#: a later version writes; files of a later version are refused. In version 1 the preparation
#: was stored as objects, of which skops reads and writes about a thousand a second.
FORMAT = 2
# Tells a model file from anything else that skops wrote.
_KIND = "fairpca model"
# Libraries whose version may change a number.
_LIBRARIES = ("fairpca", "numpy", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """Return the versions of Python and of every library a number depends on.

    Model files and audits carry them, so that a number that changed can be traced.
    """
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed as a package"
    return found


@dataclass(frozen=True)
class SavedModel:
    """What a model file holds.

    Attributes
    ----------
    model : estimator
        Fitted.
    feature_names : tuple of str
        Columns the model was fitted on, in order.
    preparation : Preparation or None
        How those columns come from a table's.
    versions : dict
        Of Python and the libraries that wrote the file.
    notes : tuple of str
        What was done to the data.
    label_names : dict of str to dict
        Names of the labels of group columns: by column, from the text of a label in the table to
        the name it has in the model.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from fairpca import FairPCA
    >>> from fairpca.persistence import load_model, save_model
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> model = FairPCA(1).fit(X, sensitive_features=["a", "b"] * 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/model.skops", model, notes=("made up",))
    ...     saved = load_model(f"{folder}/model.skops")
    >>> saved.feature_names, saved.notes
    (('x0', 'x1', 'x2'), ('made up',))
    """

    model: Any
    feature_names: tuple[str, ...]
    preparation: Preparation | None
    versions: dict[str, str]
    notes: tuple[str, ...] = ()
    label_names: dict[str, dict[str, str]] = field(default_factory=dict)


def save_model(
    path: str | Path,
    model: Any,
    *,
    feature_names: Any = None,
    preparation: Preparation | None = None,
    notes: tuple[str, ...] = (),
    label_names: Mapping[str, Mapping[str, str]] | None = None,
    moments: bool = False,
) -> None:
    """Write a fitted model, without pickle, whole or not at all.

    Parameters
    ----------
    path : str or Path
    model : estimator
        Fitted: `FairPCA`, an estimator of `fairpca.methods`, or one of scikit-learn. A `FairPCA`
        that has only counted rows with `partial_fit` is solved first.
    feature_names : sequence of str, optional
        Default: the model's `feature_names_in_`, or x0, x1, ...
    preparation : Preparation, optional
        Kept beside the model, so that new rows of a table can be transformed.
    notes : tuple of str, default=()
        What was done to the data.
    label_names : dict of str to dict, optional
        Names that labels of the table got before the fit, by group column; see `SavedModel`.
    moments : bool, default=False
        False stores the projection of a `FairPCA` and every fitted attribute: components, means,
        sizes, losses and dual weights of the groups, the certificate. True also stores what
        `partial_fit` needs to go on, the scatter matrix of every group: k n^2 numbers for k groups
        and n columns, which say far more about the people in the table than the projection does.

    Raises
    ------
    ValueError
        Where the model could not be loaded again: an estimator of another library, a search, a
        forest, or group labels of a type that a file cannot hold. Nothing is written then.

    See Also
    --------
    load_model : Reads the file.
    fairpca.GroupMoments.save : Stores moments without a model.

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
    skops = _skops()
    if isinstance(model, str | Path):
        raise ValueError(f"model={str(model)!r} is a path; write save_model(path, model).")
    check_is_fitted(model)
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    if feature_names is None:
        feature_names = [f"x{j}" for j in range(model.n_features_in_)]
    content = {
        "kind": _KIND,
        "format": FORMAT,
        "versions": versions(),
        "feature_names": [str(name) for name in feature_names],
        "preparation": preparation and json.dumps(preparation.to_dict()),
        "notes": list(notes),
        "label_names": {name: dict(pairs) for name, pairs in (label_names or {}).items()},
        "model": _stored_form(model, moments=moments),
    }
    refusal = (
        f"{type(model).__name__} cannot be saved: a model file holds estimators of fairpca and "
        "those of scikit-learn that are made of arrays and numbers, with group labels that are "
        "text, numbers, dates, times in whole microseconds, durations, decimals or intervals; "
        "write other group labels as text and fit again, save best_estimator_ of a search, and "
        "keep what else there is with joblib"
    )
    with damage_named(refusal):
        data = skops.dumps(content)
        foreign = _foreign_types(skops, data)
        if foreign:
            raise ValueError(f"it contains {', '.join(sorted(foreign))}")
        again = skops.loads(data, trusted=list(TRUSTED_TYPES))["model"]
        if getattr(again, "groups_", None) != getattr(model, "groups_", None):
            raise ValueError(f"the group labels {model.groups_} would come back changed")
    with atomic_write(path) as file:
        file.write(data)


def load_model(path: str | Path) -> SavedModel:
    """Read a model file without running anything in it.

    Parameters
    ----------
    path : str or Path
        Written by `save_model` or ``fairpca fit``, by this version or an earlier one.

    Returns
    -------
    SavedModel

    Raises
    ------
    ValueError
        Naming the file, where it is damaged, asks for a type that is not trusted, or is not a
        model file at all.

    See Also
    --------
    save_model : Writes the file.

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
    ...     load_model(f"{folder}/model.skops").model
    FairPCA(n_components=1)
    """
    skops = _skops()
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a directory; pass a model file written by `fairpca fit`.")
    data = path.read_bytes()
    if not data.startswith(b"PK"):
        raise ValueError(f"{path} is not a model file: models are written by `fairpca fit`.")
    with damage_named(f"{path} is not a readable model file"):
        data = _with_new_homes(data)
        foreign = _foreign_types(skops, data)
    if foreign:
        raise ValueError(
            f"{path} was refused: it asks for {', '.join(sorted(foreign)[:4])}, which no model of "
            "this package contains. Nothing in it was run."
        )
    with damage_named(f"{path} is not a readable model file"):
        content = skops.loads(data, trusted=list(TRUSTED_TYPES))
    if not isinstance(content, dict) or content.get("kind") != _KIND:
        raise ValueError(f"{path} is not a model written by `fairpca fit` or `save_model`.")
    if content.get("format") not in range(1, FORMAT + 1):
        raise ValueError(
            f"{path} has model format {content.get('format')!r} and this version reads formats up "
            f"to {FORMAT}; it was written with {content.get('versions')}; upgrade fairpca."
        )
    with damage_named(f"{path} is damaged"):
        model, preparation = content["model"], content["preparation"]
        if content["format"] > 1:
            preparation = preparation and json.loads(preparation)
        if type(model).__name__ == "FairPCA":
            model.__dict__.update(_SINCE_0_1 | vars(model))
        return SavedModel(
            model=model,
            feature_names=tuple(str(name) for name in content["feature_names"]),
            preparation=None if preparation is None else Preparation.from_dict(preparation),
            versions=dict(content["versions"]),
            notes=tuple(str(note) for note in content["notes"]),
            # Models of version 0.1 do not remember them.
            label_names={
                str(column): {str(code): str(name) for code, name in pairs.items()}
                for column, pairs in content.get("label_names", {}).items()
            },
        )


def _skops() -> Any:
    return require("skops.io", extra="app", purpose="saving and reading model files")


def _stored_form(model: Any, *, moments: bool) -> Any:
    """Return a copy of a model as it goes into a file; the model itself stays as it is.

    It has labels of the standard library instead of pandas' own times, which skops cannot read
    back; they are equal and hash alike, so counting on finds the same groups. Arrays of other
    libraries become NumPy arrays. With `moments` it keeps what `partial_fit` has counted.
    """
    stored = copy.copy(model)
    if "_moments" in vars(model) and not moments:
        # After `partial_fit`, looking at a result solves; without moments nobody could later.
        check_is_fitted(model, "components_")
        stored.__dict__.update(vars(model), _moments=None, _last_weights=None)
    # Where labels of a pipeline go (`set_fit_request`), skops cannot write; a model that is read
    # projects, and who fits it again says it again.
    for name in ("_lives_on", "_metadata_request"):
        stored.__dict__.pop(name, None)
    for name, value in vars(stored).items():
        stored.__dict__[name] = _stored_value(value, moments=moments)
    return stored


def _stored_value(value: Any, *, moments: bool) -> Any:
    """Return an attribute as it goes into a file; steps of a pipeline are models themselves."""
    if type(value) in (list, tuple):
        return type(value)(_stored_value(part, moments=moments) for part in value)
    if isinstance(value, dict):
        # Copied, not made anew: a Bunch is a dictionary, too.
        stored = copy.copy(value)
        stored.update({key: _stored_value(part, moments=moments) for key, part in value.items()})
        return stored
    # What holds the models of a calibration, or scores those of a search, is no estimator itself.
    helper = type(value).__module__.startswith("sklearn.") and hasattr(value, "__dict__")
    if isinstance(value, BaseEstimator) or helper:
        return _stored_form(value, moments=moments)
    return fetched(value) if is_foreign(value) else _standard_labels(value)


def _standard_labels(value: Any) -> Any:
    """Return a fitted attribute with pandas' times replaced by those of the standard library."""
    if type(value) in (list, tuple):
        return type(value)(_standard_labels(part) for part in value)
    if isinstance(value, GroupMoments):
        return replace(value.on_host(), labels=_standard_labels(value.labels))
    # The classes of pandas are told by their methods: pandas need not be installed.
    if isinstance(value, datetime.datetime) and hasattr(value, "to_pydatetime"):
        return value.to_pydatetime(warn=False)
    if isinstance(value, datetime.timedelta) and hasattr(value, "to_pytimedelta"):
        return value.to_pytimedelta()
    return value


def _foreign_types(skops: Any, data: bytes) -> set[str]:
    """Return the types a file asks for that are not trusted; nothing is built."""
    found = set(skops.get_untrusted_types(data=data))
    return found - set(TRUSTED_TYPES)


def _with_new_homes(data: bytes) -> bytes:
    """Return a model file whose types have the modules they have today."""

    def moved(entry: dict[str, Any]) -> dict[str, Any]:
        module = entry.get("__module__")
        return {**entry, "__module__": _MOVED[module]} if module in _MOVED else entry

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        written = archive.read("schema.json")
        schema = json.loads(written, object_hook=moved)
        # Of any other file nothing else is read here: its members may be larger than memory.
        if schema == json.loads(written):
            return data
        members = {name: archive.read(name) for name in archive.namelist()}
    members["schema.json"] = json.dumps(schema).encode()
    renamed = io.BytesIO()
    with zipfile.ZipFile(renamed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return renamed.getvalue()
