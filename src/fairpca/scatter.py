"""Mean and centred scatter of every group from rows, in float64, for the price of one X.T @ X.

The safe way is by blocks: copy a block into a float64 buffer, centre it on its own mean, square
it, and merge blocks by the pairwise update of Chan, Golub and LeVeque. Squaring first and
subtracting ``m mean mean.T`` afterwards loses every digit once the mean is large against the
spread; it is used only where it is checked to cost at most a digit or two, because it needs no
copy of the rows at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca.arrays import FloatArray, IntArray
from fairpca.blocks import RowSet, centred_moments, is_plain, length, squares

# Squared mean over variance up to which centring may follow the squaring: less than two digits.
SAFE_OFFSET = 50.0
# Rows looked at before deciding whether to try.
SAMPLE_ROWS = 64
# Entries of scatter centred in one go.
_AT_ONCE = 100_000
# A difference keeps its digits while it is at least this share of what it is taken from.
_SAFE_SHARE = 1 / 64


@dataclass(frozen=True)
class Scatter:
    """Rows, weight, mean and centred scatter of each of c cells."""

    count: IntArray
    weight: FloatArray
    mean: FloatArray
    scatter: FloatArray


@np.errstate(invalid="ignore", over="ignore")
def group_scatter(
    rows: Any, codes: IntArray, count: IntArray, sample_weight: FloatArray | None = None
) -> Scatter:
    """Accumulate the scatter of every cell.

    Parameters
    ----------
    rows : array of shape (m, n)
        Any numeric dtype; read block by block, never copied whole.
    codes : ndarray of shape (m,)
        The cell of every row, 0..c-1.
    count : ndarray of shape (c,)
        Rows of every cell.
    sample_weight : ndarray of shape (m,), optional
    """
    n, n_cells = rows.shape[1], len(count)
    sets = _RowSets(codes, count)
    found = Scatter(count, np.zeros(n_cells), np.zeros((n_cells, n)), np.zeros((n_cells, n, n)))
    left = sets.cells
    if sets and sample_weight is None and is_plain(rows) and _looks_safe(rows):
        left = _squared_first(rows, sets, found)
    moments = centred_moments(rows, [sets[cell] for cell in left], sample_weight) if left else []
    for cell, of_cell in zip(left, moments, strict=True):
        found.weight[cell], found.mean[cell] = of_cell.weight, of_cell.mean
        found.scatter[cell] = of_cell.scatter
    clear_dust(found.weight, found.mean, found.scatter)
    return found


class _RowSets(Mapping[int, RowSet]):
    """The rows of every cell that occurs: a slice where they are consecutive.

    Indices are looked up when they are asked for: the largest cell's may never be needed.
    """

    def __init__(self, codes: IntArray, count: IntArray) -> None:
        self.count = count
        self.cells: list[int] = np.flatnonzero(count).tolist()
        edges = [0, *np.cumsum(count).tolist()]
        self._found: dict[int, RowSet] = {}
        # Short keys compare fast and are sorted by radix.
        short = np.int8 if len(count) < 2**7 else np.int16
        keys: IntArray = codes.astype(short) if len(count) < 2**15 else codes
        self._keys = keys
        # The first rows mostly tell.
        first = keys[:64]
        self._consecutive = bool((first[1:] >= first[:-1]).all() and (keys[1:] >= keys[:-1]).all())
        if self._consecutive:
            self._found = {cell: slice(edges[cell], edges[cell + 1]) for cell in self.cells}
        elif len(self.cells) > 4:
            order = np.argsort(self._keys, kind="stable")
            self._found = {cell: order[edges[cell] : edges[cell + 1]] for cell in self.cells}

    def __getitem__(self, cell: int) -> RowSet:
        if cell not in self._found:
            self._found[cell] = np.flatnonzero(self._keys == cell)
        return self._found[cell]

    def __iter__(self) -> Iterator[int]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)

    def subtracted(self, n_features: int) -> int | None:
        """Return the cell better found by subtraction from all rows than by gathering it.

        Either way the other cells are gathered. Squaring an entry costs about 3 + n / 40 times
        what gathering it does (measured from 16 to 1764 columns).
        """
        largest = int(np.argmax(self.count))
        rest = int(self.count.sum()) - int(self.count[largest])
        pays = rest * (3 + n_features / 40) < int(self.count[largest])
        return largest if pays and not self._consecutive else None


def _looks_safe(rows: FloatArray) -> bool:
    """Whether a sample of rows promises that squaring first will pass its check.

    Failing that check afterwards would mean squaring everything twice.
    """
    sample = rows[:: max(len(rows) // SAMPLE_ROWS, 1)]
    mean = np.einsum("ij->j", sample) / len(sample)
    variance = np.einsum("ij,ij->j", sample, sample) / len(sample) - mean**2
    return bool(np.all(mean**2 <= 0.7 * SAFE_OFFSET * variance))


def _squared_first(rows: FloatArray, sets: _RowSets, found: Scatter) -> list[int]:
    """Fill in moments by squaring rows as they are; return the cells for which that is unsafe.

    Where the largest group is scattered among the others and gathering its rows would cost more
    than squaring the others twice, all rows are squared in place and the others subtracted.
    """
    largest = sets.subtracted(rows.shape[1])
    asked = [slice(0, len(rows)) if cell == largest else sets[cell] for cell in sets]
    for cell, picks, (sums, product) in zip(sets, asked, squares(rows, asked), strict=True):
        found.weight[cell], found.mean[cell] = length(picks), sums
        found.scatter[cell] = product
    mean, scatter = found.mean, found.scatter
    mean /= np.maximum(found.weight, 1.0)[:, None]
    weighted = found.weight[:, None] * mean
    # Few large matrices or many small ones at a time.
    step = max(_AT_ONCE // rows.shape[1] ** 2, 1)
    for start in range(0, len(scatter), step):
        part = slice(start, start + step)
        scatter[part] -= weighted[part, :, None] * mean[part, None, :]
    # The diagonal is now the weight times the variance.
    safe = np.all(weighted * mean <= SAFE_OFFSET * np.einsum("kii->ki", scatter), axis=1)
    left = [cell for cell in sets if not safe[cell]]
    if largest is not None and (left or not _subtract(found, largest, sets.cells)):
        left = sorted({*left, largest})
    return left


def _subtract(found: Scatter, whole: int, cells: list[int]) -> bool:
    """Take all other cells' rows out of the cell `whole`; return whether that was safe."""
    parts = [cell for cell in cells if cell != whole]
    weight = found.weight[whole] - found.weight[parts].sum()
    if weight <= _SAFE_SHARE * found.weight[whole]:
        return False
    before = found.mean[whole].copy()
    mean = (before * found.weight[whole] - found.weight[parts] @ found.mean[parts]) / weight
    scatter = found.scatter[whole]
    least = _SAFE_SHARE * np.diag(scatter)
    scatter -= weight * np.outer(mean - before, mean - before)
    for cell in parts:
        shift = found.mean[cell] - before
        scatter -= found.scatter[cell]
        scatter -= np.outer(found.weight[cell] * shift, shift)
    found.weight[whole], found.mean[whole] = weight, mean
    return bool(np.all(np.diag(scatter) >= least))


def clear_dust(weight: FloatArray, mean: FloatArray, scatter: FloatArray) -> None:
    """Set constant columns of every cell's scatter to exactly zero, in place.

    A constant column leaves the rounding of its own mean behind; a criterion that divides by the
    group's variance would take that dust for data. So would it take squares that underflowed.
    """
    squares = np.einsum("kii->ki", scatter)
    dust = weight[:, None] * (16 * np.finfo(float).eps * mean) ** 2
    dust = np.maximum(dust, np.finfo(float).tiny * np.maximum(weight, 1.0)[:, None])
    # An infinite square is no dust: the caller refuses it.
    constant = (squares <= dust) & np.isfinite(squares)
    if constant.any():
        scatter[constant] = 0.0
        np.swapaxes(scatter, 1, 2)[constant] = 0.0
