"""The four tables of the paper as the authors' scripts build them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairpca import GroupMoments
from fairpca.datasets import (
    DataUnavailableError,
    fetch_bank_marketing,
    fetch_credit_default,
    fetch_crop_mapping,
    fetch_lfw_faces,
)

FloatArray = NDArray[np.float64]

#: Rows of corn and of other crops, and features, in the paper's crop matrix.
CROP_SHAPE = (39162, 286672, 173)


@dataclass(frozen=True)
class PaperTable:
    """One data set: standardised rows, who is in A, and what the paper does with it.

    Attributes
    ----------
    key, title : str
    make : callable
        Returns rows and the mask of group A.
    overall : bool
        Whether M is centred on the overall mean (faces) or each group on its own.
    table_r : tuple of int
        Ranks of the paper's Table 1.
    curve_r : tuple of int
        Ranks of the curves.
    ratio_r : tuple of int
        Ranks at which the published methods are compared by their loss ratio.
    synthetic : bool
        Whether a random matrix of the same shape stands in for the data.
    """

    key: str
    title: str
    make: Callable[[], tuple[FloatArray, NDArray[np.bool_]]] = field(repr=False)
    overall: bool
    table_r: tuple[int, ...]
    curve_r: tuple[int, ...]
    ratio_r: tuple[int, ...]
    synthetic: bool = False

    @property
    def name(self) -> str:
        """The key, marked when the rows are not data."""
        return f"{self.key} (synthetic)" if self.synthetic else self.key

    @functools.cached_property
    def loaded(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Rows and the mask of group A."""
        return self.make()

    @functools.cached_property
    def moments(self) -> GroupMoments:
        """Moments of A (position 0) and B (position 1)."""
        rows, in_a = self.loaded
        return GroupMoments.from_array(rows, np.where(in_a, 0, 1))

    @property
    def gram(self) -> FloatArray:
        """The matrix M.T M of the M that the paper's reconstruction error refers to."""
        moments = self.moments
        return moments.pooled().scatter[0] if self.overall else moments.scatter.sum(axis=0)

    @functools.cached_property
    def groups(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """M, A and B, rows by rows, as the authors' scripts hold them in memory."""
        rows, in_a = self.loaded
        first, second = (part - part.mean(axis=0) for part in (rows[in_a], rows[~in_a]))
        whole = rows - rows.mean(axis=0) if self.overall else np.vstack([first, second])
        return whole, first, second

    def forget(self) -> None:
        """Let go of the large arrays."""
        for name in ("loaded", "moments", "groups"):
            self.__dict__.pop(name, None)


def paper_tables(*, quick: bool, download: bool) -> tuple[list[PaperTable], dict[str, str]]:
    """Return the tables at hand, and for every missing one the reason."""
    found: list[PaperTable] = []
    missing: dict[str, str] = {}
    for build in (_bank, _credit, _crop, _faces):
        try:
            found.append(build(quick, download))
        except (DataUnavailableError, ImportError) as error:
            missing[build.__name__.strip("_")] = str(error)
    return found, missing


def _bank(quick: bool, download: bool) -> PaperTable:
    bunch = fetch_bank_marketing(variant="paper", download_if_missing=download)
    rows = bunch.data, bunch.sensitive_features == "A"
    every = tuple(range(1, 16))
    return PaperTable("BM", "Bank Marketing", lambda: rows, False, (2, 4, 8), every, every)


def _credit(quick: bool, download: bool) -> PaperTable:
    bunch = fetch_credit_default(variant="paper", download_if_missing=download)
    rows = bunch.data, bunch.sensitive_features == "A"
    every = tuple(range(1, 23))
    return PaperTable("DCC", "Credit Card Clients", lambda: rows, False, (5, 10, 15), every, every)


def _crop(quick: bool, download: bool) -> PaperTable:
    ranks = (30, 60, 120)
    curve = (*range(1, 11), *range(15, 171, 5))
    try:
        bunch = fetch_crop_mapping(variant="paper", download_if_missing=download)
        rows = bunch.data, bunch.sensitive_features == "A"
        return PaperTable("CM", "Crop Mapping", lambda: rows, False, ranks, curve, ranks)
    except DataUnavailableError:
        stand_in = functools.partial(synthetic_crop, 150 if quick else 1)
        # Nothing is claimed of a stand-in: the short version draws a few of its points.
        some = (1, 2, 5, 10, *ranks, 170) if quick else curve
        compared = ranks[:1] if quick else ranks
        return PaperTable("CM", "Crop Mapping", stand_in, False, ranks, some, compared, True)


def _faces(quick: bool, download: bool) -> PaperTable:
    bunch = fetch_lfw_faces(variant="paper", download_if_missing=download)
    rows = bunch.data, bunch.sensitive_features == "A"
    ranks = (50, 100, 200)
    curve = (1, 50) if quick else (*range(1, 11), 15, 20, 30, 50, 75, 100, 150, 200, 300, 400)
    return PaperTable(
        "LFW", "Faces in the Wild", lambda: rows, True, ranks, curve, () if quick else ranks
    )


def synthetic_crop(divide: int = 1) -> tuple[FloatArray, NDArray[np.bool_]]:
    """A random matrix of the crop table's shape (or a fraction of its rows), standardised.

    The two groups share most of a decaying spectrum and differ in the rest. Only the running
    times say anything about the real table; errors and losses do not.
    """
    corn, other, n = CROP_SHAPE
    sizes = (corn // divide, other // divide)
    rng = np.random.default_rng(525)
    scale = 0.95 ** np.arange(n)
    common = np.linalg.qr(rng.standard_normal((n, n)))[0]
    rows = np.empty((sum(sizes), n))
    start = 0
    for m in sizes:
        own = np.linalg.qr(common + 0.5 * rng.standard_normal((n, n)) / np.sqrt(n))[0]
        root = (own * scale) @ common.T
        for block in range(start, start + m, 8192):
            stop = min(block + 8192, start + m)
            rows[block:stop] = rng.standard_normal((stop - block, n)) @ root.T
        start += m
    rows -= rows.mean(axis=0)
    rows /= rows.std(axis=0, ddof=1)
    return rows, np.arange(len(rows)) < sizes[0]
