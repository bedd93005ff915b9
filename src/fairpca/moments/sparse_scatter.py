"""Mean and centred scatter of the sparse rows of one group by a sparse product.

Rows that are copied into dense blocks cost m n^2 multiplications, however few of their entries are
stored. A sparse product costs the squares of the stored entries of every row: 500,000 rows of
2,000 columns with a hundredth of the entries take 2.5 s instead of a minute on two cores.

A sparse matrix cannot be centred before it is squared, and the mean is taken away afterwards. That
loses digits where the mean of a column is large beside its deviation, and for this most of the
column must be stored: the mean square is at least the squared mean over the share of stored
entries. Such columns are few, and are centred as dense ones.

It is an idea of its own: `row_scatter` centres blocks of rows before it squares them.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fairpca._linalg import FloatArray
from fairpca._threads import available_threads, in_threads

# A multiplication of a sparse product takes as long as this many of a dense one (measured on two
# cores with 300 to 5,000 columns: from 60 to 100). If it is wrong, counting takes longer.
_SPARSE_COST = 75
# A column is centred as a dense one if its squared mean is more than this share of its mean
# square; of the others at least half is left, and subtracting costs one bit.
_LARGE_MEAN = 0.5
# Dense columns take at most this many times the memory of the stored entries. Without weights two
# would do: more than half of their entries are stored.
_MOST_DENSE = 4
# The product is made in at least this many parts, which threads share, and in parts of at most
# this many entries, which are in memory twice.
_PARTS, _PART_ENTRIES = 16, 2_000_000


def count_sparse(
    rows: Any, sample_weight: FloatArray | None, mean: FloatArray, scatter: FloatArray
) -> float | None:
    """Write the mean and scatter of one group of sparse rows, and return its weight.

    Parameters
    ----------
    rows : csr_array of shape (m, n)
        Any numeric dtype; not changed.
    sample_weight : ndarray of shape (m,) or None
    mean : ndarray of shape (2, n)
        Zeros, to be filled with the mean and with what rounding left of it.
    scatter : ndarray of shape (n, n)
        Zeros, to be filled.

    Returns
    -------
    float or None
        None, and nothing is written, where dense blocks are faster or take less memory.
    """
    m, n = rows.shape
    lengths = np.diff(rows.indptr).astype(float)
    if _SPARSE_COST * np.dot(lengths, lengths) >= m * float(n) ** 2:
        return None
    weights = np.ones(m) if sample_weight is None else sample_weight
    total, root = float(weights.sum()), np.sqrt(weights)
    # One line a column, its entries in the order of the rows; repeated entries are added up.
    columns = rows.astype(float).T.tocsr()
    columns.sum_duplicates()
    scaled = columns if sample_weight is None else columns.multiply(root[None, :]).tocsr()
    square = np.asarray(scaled.multiply(scaled).sum(axis=1))
    middle = columns @ weights / (total or 1.0)
    dense = np.flatnonzero(total * middle**2 > _LARGE_MEAN * square)
    if len(dense) * m > _MOST_DENSE * columns.nnz:
        return None
    scaled_rows = scaled.T.tocsr()
    parts = max(_PARTS, -(-n * n // _PART_ENTRIES))
    # Its product with itself is what the mean adds to the squares.
    away = np.sqrt(total) * middle

    @np.errstate(invalid="ignore", over="ignore")
    def part(start: int) -> None:
        lines = slice(start, None, parts)
        scatter[lines] = (scaled[lines] @ scaled_rows).toarray() - np.outer(away[lines], away)

    # Every so many columns instead of neighbours: the common words of a text stand side by side.
    tasks = [functools.partial(part, start) for start in range(min(parts, n))]
    in_threads(tasks, available_threads())
    mean[0] = middle
    if len(dense):
        # Centred before they are scaled: the root of a weight is rounded.
        lines = (columns[dense].toarray() - middle[dense, None]) * root
        # What rounding left of the mean is taken away from the squares, as in dense blocks.
        mean[1, dense] = rest = lines @ root / total
        scatter[:, dense] = scaled @ lines.T - np.outer(total * middle, rest)
        scatter[dense] = scatter[:, dense].T
        scatter[dense[:, None], dense] = lines @ lines.T - total * np.outer(rest, rest)
    return total
