"""Adult, also known as Census Income (Kohavi and Becker, 1996)."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._linalg import AnyArray
from fairpca.datasets.bunch import Table, expect
from fairpca.datasets.cache import Remote, need, obtain

_DESCR = """\
Adult (Census Income)
---------------------
48,842 people of the US Current Population Survey of 1994: age, work, education, family, origin,
capital gains, hours; the target is an income above 50,000 dollars (11,687 have it). B. Becker and
R. Kohavi, UCI Machine Learning Repository, data set 2, CC BY 4.0.

Categories become 0/1 columns named ``column=level``; a missing value ("?") is a level of its own.
`education` repeats `education-num` and is left out. `fnlwgt`, how many people a row stands for, is
no feature: it is in `sample_weight`, which FairPCA accepts.

What is questionable
* The threshold of 50,000 dollars was the 76th percentile of 1994, and about the 88th of Black and
  the 89th of female respondents: results of fairness methods depend on it. Ding, Hardt, Miller and
  Schmidt, "Retiring Adult" (2021), recommend newer tables.
* Only people with some income and some hours of work were kept.
* Sex is binary; race has five levels, of which "Other" and "Amer-Indian-Eskimo" are below 1 %.
"""

_NAMES = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip
_NUMERIC = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_CATEGORICAL = ("workclass", "marital-status", "occupation", "relationship", "native-country")
# Recorded by several public projects that pin these two files; not computed by us.
_MEMBERS = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
_ROWS = {"adult.data": 32561, "adult.test": 16281}

_REMOTES = (
    Remote(
        "adult.zip",
        "https://archive.ics.uci.edu/static/public/2/adult.zip",
        check=lambda path: _check_archive(path),
    ),
)


def fetch_adult(
    *,
    sensitive: str | Sequence[str] | None = "sex",
    data_home: str | Path | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load the Adult census sample, grouped by sex.

    Parameters
    ----------
    sensitive : {"sex", "race"}, both, or None, default="sex"
        What makes the groups; its columns are then no features. None keeps all columns and makes
        no groups.
    data_home : path, optional
        Directory of data files; default FAIRPCA_DATA, then the user's cache directory.
    download_if_missing : bool, default=True
    return_X_y : bool, default=False
        Return ``(data, target)`` only.
    as_frame : bool, default=False
        Return pandas objects.

    Returns
    -------
    Bunch
        `data`, `target` (1 = above 50,000 dollars), `sensitive_features`, `sensitive_names`,
        `sample_weight`, `feature_names`, `frame`, `filename`, `DESCR`.

    Notes
    -----
    Accepted files: `adult.zip` of the UCI repository, or `adult.data` with `adult.test` beside it.
    The archive is verified by the SHA-256 of its two members, as several public projects record
    them; files placed by hand are verified by structure (32,561 and 16,281 rows of 15 columns).
    """
    path = obtain(
        "fetch_adult",
        accepted=("adult.data", "adult.zip"),
        remotes=_REMOTES,
        data_home=data_home,
        download_if_missing=download_if_missing,
    )
    return _table(_read(path)).bunch(
        sensitive, descr=_DESCR, filename=path, as_frame=as_frame, return_X_y=return_X_y
    )


def _table(frame: Any) -> Table:
    columns: dict[str, AnyArray] = {name: frame[name].to_numpy() for name in _NUMERIC}
    columns["sex=Male"] = (frame["sex"] == "Male").to_numpy()
    restates: dict[str, tuple[str, ...]] = {"sex": ("sex=Male",), "race": ()}
    for name in ("race", *_CATEGORICAL):
        for level in sorted(set(frame[name])):
            columns[f"{name}={level}"] = (frame[name] == level).to_numpy()
    restates["race"] = tuple(name for name in columns if name.startswith("race="))
    groupings = {name: frame[name].to_numpy().astype(str) for name in ("sex", "race")}
    target = frame["income"].str.startswith(">").to_numpy().astype(np.int64)
    weight = frame["fnlwgt"].to_numpy().astype(float)
    return Table(columns, groupings, restates, target, "income", {"sample_weight": weight})


def _read(path: Path) -> Any:
    pd = need("pandas")
    parts = []
    if path.suffix != ".zip":
        expect((path.parent / "adult.test").exists(), path, "adult.test must lie beside it")
    for name, rows in _ROWS.items():
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                content = archive.read(_member(archive, name, path))
        else:
            content = (path.parent / name).read_bytes()
        # The test file opens with a comment line and ends its labels with a full stop.
        skip = 1 if content.startswith(b"|") else 0
        part = pd.read_csv(
            io.BytesIO(content), header=None, names=_NAMES, skiprows=skip, skipinitialspace=True
        )
        expect(part.shape == (rows, len(_NAMES)), path, f"{name} has shape {part.shape}")
        expect(not part["income"].isna().any(), path, f"{name} has rows without a label")
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> str:
    for member in archive.namelist():
        if Path(member).name == name:
            return member
    raise ValueError(f"{path}: the archive has no {name}")


def _check_archive(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for name, expected in _MEMBERS.items():
            content = archive.read(_member(archive, name, path))
            found = hashlib.sha256(content).hexdigest()
            expect(found == expected, path, f"{name} has SHA-256 {found}, not {expected}")
