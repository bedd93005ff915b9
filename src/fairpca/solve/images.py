"""An orthonormal basis that is widened, with the matrices compressed to it.

Products with the matrices are the expensive part, so each direction meets them once: widening Q
costs products with the new columns only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairpca.arrays import FloatArray, expand, symmetric


class ImagedBasis:
    """The basis Q, the compressions Q.T S_i Q and, where asked for, the images S_i Q.

    `basis` has shape (n, q), `compressed` has shape (k, q, q).

    Parameters
    ----------
    products : callable
        Maps columns (n, q) to ``S_i @ columns`` for every matrix, shape (k, n, q).
    n_matrices, n_features : int
    keep_images : bool
    """

    def __init__(
        self,
        products: Callable[[FloatArray], FloatArray],
        n_matrices: int,
        n_features: int,
        *,
        keep_images: bool,
    ) -> None:
        self._products = products
        self._keep_images = keep_images
        self.n_features = n_features
        self.basis: FloatArray = np.empty((n_features, 0))
        self._images: FloatArray = np.empty((n_matrices, n_features, 0))
        self.compressed: FloatArray = np.empty((n_matrices, 0, 0))

    @property
    def width(self) -> int:
        """Dimension of the span."""
        return int(self.basis.shape[1])

    def widen(self, columns: FloatArray) -> bool:
        """Add the span of unit columns; return whether it added a direction."""
        wider = expand(self.basis, columns)
        fresh = wider[:, self.width :]
        if not fresh.shape[1]:
            return False
        images = self._products(fresh)
        corner = symmetric(fresh.T @ images)
        side = self.basis.T @ images
        self.compressed = np.block([[self.compressed, side], [np.swapaxes(side, 1, 2), corner]])
        if self._keep_images:
            self._images = np.concatenate([self._images, images], axis=2)
        self.basis = wider
        return True
