"""Model files without pickle: the model, what it was fitted on, and how its columns were made.

A file is written by skops: arrays and a description of objects, never code. Reading constructs
only the types listed here (and those of numpy and scikit-learn that skops knows); a file that asks
for anything else is refused before any of it is built.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpca._checks import require
from fairpca.auditing.provenance import versions
from fairpca.io.preparation import Preparation
from fairpca.moments.storage import atomic_write, damage_named

#: Types of this package a model file may contain.
TRUSTED_TYPES = (
    "fairpca.estimator.FairPCA",
    "fairpca.moments.group_moments.GroupMoments",
    "fairpca.solvers.solution.Certificate",
)

# Where version 0.1 kept them; its model files name these homes.
_MOVED = {
    "fairpca.moments": "fairpca.moments.group_moments",
    "fairpca.solve.solution": "fairpca.solvers.solution",
}
FORMAT = 1
_KIND = "fairpca model"
_PURPOSE = "saving and reading model files"


@dataclass(frozen=True)
class SavedModel:
    """A model file's content.

    Attributes
    ----------
    model : FairPCA
    feature_names : tuple of str
        Columns the model was fitted on, in order.
    preparation : Preparation or None
        How those columns come from a table's.
    versions : dict
        Of Python and the libraries that wrote the file.
    notes : tuple of str
        What was done to the data.
    """

    model: Any
    feature_names: tuple[str, ...]
    preparation: Preparation | None
    versions: dict[str, str]
    notes: tuple[str, ...] = ()


def save_model(
    path: str | Path,
    model: Any,
    *,
    feature_names: Any = None,
    preparation: Preparation | None = None,
    notes: tuple[str, ...] = (),
) -> None:
    """Write a fitted model atomically, without pickle.

    Parameters
    ----------
    path : path
    model : FairPCA
        Fitted.
    feature_names : sequence of str, optional
        Default: the model's `feature_names_in_`, or x0, x1, ...
    preparation : Preparation, optional
        Kept beside the model, so that new rows of a table can be transformed.
    notes : tuple of str
        What was done to the data.
    """
    skops = require("skops.io", extra="app", purpose=_PURPOSE)
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    if feature_names is None:
        feature_names = [f"x{j}" for j in range(model.n_features_in_)]
    content = {
        "kind": _KIND,
        "format": FORMAT,
        "versions": versions(),
        "feature_names": [str(name) for name in feature_names],
        "preparation": None if preparation is None else _plain(preparation.to_dict()),
        "notes": list(notes),
        "model": model,
    }
    data = skops.dumps(content)
    with atomic_write(path) as file:
        file.write(data)


def _plain(value: Any) -> Any:
    """Return nested data with lists for tuples, which skops reads back as they were."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def load_model(path: str | Path) -> SavedModel:
    """Read a model file; raises ValueError for anything else, without running what is in it."""
    skops = require("skops.io", extra="app", purpose=_PURPOSE)
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a directory; pass a model file written by `fairpca fit`.")
    data = _moved(path.read_bytes(), path)
    foreign = _foreign_types(skops, data, path)
    if foreign:
        raise ValueError(
            f"{path} was refused: it asks for {', '.join(sorted(foreign)[:4])}, which no model of "
            "this package contains. Nothing in it was run."
        )
    try:
        content = skops.loads(data, trusted=list(TRUSTED_TYPES))
    except Exception as error:
        raise ValueError(f"{path} is not a readable model file: {_first_line(error)}") from None
    if not isinstance(content, dict) or content.get("kind") != _KIND:
        raise ValueError(f"{path} is not a model written by `fairpca fit` or `save_model`.")
    if content.get("format") != FORMAT:
        raise ValueError(
            f"{path} has model format {content.get('format')!r} and this version reads {FORMAT}; "
            f"it was written by fairpca {content.get('versions', {}).get('fairpca', '?')}."
        )
    try:
        preparation = content["preparation"]
        return SavedModel(
            model=content["model"],
            feature_names=tuple(str(name) for name in content["feature_names"]),
            preparation=None if preparation is None else Preparation.from_dict(preparation),
            versions=dict(content["versions"]),
            notes=tuple(str(note) for note in content["notes"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {_first_line(error)}") from None


def _moved(data: bytes, path: Path) -> bytes:
    """Return a model file whose types have the homes they have today."""
    if not data.startswith(b"PK"):
        raise ValueError(f"{path} is not a model file: models are written by `fairpca fit`.")
    with damage_named(f"{path} is not a readable model file", "fit the model again."):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        schema = json.loads(members["schema.json"])
        if not _rename(schema):
            return data
        members["schema.json"] = json.dumps(schema).encode()
        renamed = io.BytesIO()
        with zipfile.ZipFile(renamed, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return renamed.getvalue()


def _rename(schema: Any) -> bool:
    """Change the homes of moved types in place; return whether there were any."""
    if isinstance(schema, list):
        return any([_rename(entry) for entry in schema])
    if not isinstance(schema, dict):
        return False
    found = any([_rename(entry) for entry in schema.values()])
    home = _MOVED.get(str(schema.get("__module__")))
    if home is not None:
        schema["__module__"] = home
    return found or home is not None


def _foreign_types(skops: Any, data: bytes, path: Path) -> set[str]:
    try:
        found = set(skops.get_untrusted_types(data=data))
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise ValueError(f"{path} is not a readable model file: {_first_line(error)}") from None
    return found - set(TRUSTED_TYPES)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
