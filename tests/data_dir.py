"""Where the real tables and the reference numbers are, or a skip that says how to get them."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_SHARED = Path(__file__).resolve().parents[2] / "shared"


def data_dir() -> Path | None:
    """Return FAIRPCA_DATA, else the shared directory beside the repository, else None."""
    for candidate in (os.environ.get("FAIRPCA_DATA"), _SHARED / "data"):
        if candidate and Path(candidate).is_dir():
            return Path(candidate)
    return None


def data_path(name: str) -> Path:
    """Return the path of a data file, or skip the test."""
    folder = data_dir()
    if folder is None or not (folder / name).exists():
        pytest.skip(f"needs {name}: set FAIRPCA_DATA to the directory that holds it")
    return folder / name


@cache
def reference(name: str) -> Any:
    """Return reference numbers, or skip the test."""
    path = _SHARED / "reference" / name
    if not path.exists():
        pytest.skip(f"needs the reference numbers {name} beside the repository")
    return json.loads(path.read_text())
