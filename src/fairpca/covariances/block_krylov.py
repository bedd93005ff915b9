"""Leading eigenpairs of every mixture of matrices that are known by expensive products only.

One pass over the rows multiplies all matrices with a block of columns. Every block is kept,
orthonormal, with its images; whatever mixture is asked about next, Rayleigh-Ritz in the span of
all blocks costs no pass. A pass is made only to add the residuals of the pairs that are not yet
good enough, which is the next step of a block Krylov method, for several mixtures at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca._linalg import (
    FloatArray,
    dot,
    expand,
    is_foreign,
    joined,
    orthonormal,
    outside,
    placed,
    symmetric,
)
from fairpca.covariances.eigenpairs import EigenPairs, full_pairs

# Residuals, relative to the smallest value found, at which the largest pair left is known: where
# it is clearly smaller, and where it is nearly as large. Before the first, a pair is a random one:
# its residual says nothing about what is larger.
_CLEARLY_LEFT, _NEARLY_LEFT = 1e-3, 1e-6


class ProjectedBasis:
    """An orthonormal basis Q that is widened, with all matrices compressed to it.

    Products with the matrices are the expensive part, so each direction meets them once: widening
    Q costs products with the new columns only.

    `basis` has shape (n, q), `compressed` has shape (k, q, q); both live at `place`.

    Parameters
    ----------
    products : callable
        Maps columns (n, q) to ``S_i @ columns`` for every matrix, shape (k, n, q).
    n_matrices, n_features : int
    place : array of another library, optional
        Where the basis and what is computed with it live; here by default.
    """

    # Whether the products with all columns stay in memory.
    _keeps_images = False

    def __init__(
        self,
        products: Callable[[FloatArray], FloatArray],
        n_matrices: int,
        n_features: int,
        *,
        place: Any = None,
    ) -> None:
        self._products = products
        self.n_features = n_features
        self.basis: Any = placed(np.empty((n_features, 0)), place)
        self._images: FloatArray = np.empty((n_matrices, n_features, 0))
        self.compressed: Any = placed(np.empty((n_matrices, 0, 0)), place)

    @property
    def width(self) -> int:
        """Dimension of the span."""
        return int(self.basis.shape[1])

    def widen(self, columns: FloatArray) -> bool:
        """Add the span of unit columns; return whether it added a direction."""
        wider = expand(self.basis, placed(columns, self.basis))
        fresh = wider[:, self.width :]
        if not fresh.shape[1]:
            return False
        images = self._products(fresh)
        corner, side = symmetric(dot(fresh.T, images)), dot(self.basis.T, images)
        below = joined([side.mT if is_foreign(side) else np.swapaxes(side, 1, 2), corner], axis=2)
        self.compressed = joined([joined([self.compressed, side], axis=2), below], axis=1)
        if self._keeps_images:
            self._images = np.concatenate([self._images, images], axis=2)
        self.basis = wider
        return True

    def lifted(self, coordinates: FloatArray) -> Any:
        """Return ``basis @ coordinates``, where the basis lives."""
        return dot(self.basis, placed(coordinates, self.basis))

    def coordinates(self, columns: Any) -> Any:
        """Return ``basis.T @ columns``, where the basis lives."""
        return dot(self.basis.T, placed(columns, self.basis))


@dataclass(frozen=True)
class Mixture:
    """``sum_c weights[c] S_c + between.T @ between``."""

    weights: FloatArray
    between: FloatArray


@dataclass(frozen=True)
class Ritz:
    """Approximate leading pairs, and the residual of each as a column."""

    values: FloatArray
    vectors: FloatArray
    residuals: FloatArray
    # Whether the space is everything: then the pairs are exact and nothing is left outside.
    complete: bool

    def raised(self, r: int) -> FloatArray:
        """Return `r` values whose leading sums are not below those of the true eigenvalues.

        For pairs split from the rest at j >= r, with residuals R and nothing outside above b,
        the matrix is at most ``diag(values + R.T R / s)`` on the pairs and ``b + s`` outside, for
        any s > 0. With ``s = values[j] - b`` the outside does not reach the pairs, so the error is
        quadratic in the residual. What is outside is estimated by the next Ritz value, raised by
        its own residual: good once the iteration has converged, since the space was started with
        a random block, but no bound after the first steps. Where no split is wide enough each
        value is raised by the norm of its residual.
        """
        norms = np.linalg.norm(self.residuals, axis=0)
        if self.complete:
            return self.values[:r]
        best = self.values[:r] + norms[:r]
        for j in range(r, len(self.values)):
            room = self.values[j - 1] - (self.values[j] + norms[j])
            if room <= 0:
                continue
            part = self.residuals[:, :j]
            lifted = np.diag(self.values[:j]) + part.T @ part / room
            candidate = np.linalg.eigvalsh(symmetric(lifted))[::-1][:r]
            if candidate.sum() < best.sum():
                best = candidate
        return np.asarray(best)

    def pairs(self, r: int) -> EigenPairs:
        """Return the `r` leading pairs with raised values."""
        return EigenPairs(self.raised(r), self.vectors[:, :r])

    def slack(self, r: int) -> float:
        """Return how much the sum of the raised values exceeds that of the values."""
        return float(self.raised(r).sum() - self.values[:r].sum())


class SharedSpace(ProjectedBasis):
    """A basis with its images, shared by all mixtures; widening it is a pass over the rows.

    Parameters
    ----------
    products, n_matrices, n_features
        As in `ProjectedBasis`.
    max_columns : int
        The basis is cut back to the directions in use when it grows past this; a working
        memory of ``(c + 1) n max_columns`` numbers.
    """

    _keeps_images = True

    def __init__(
        self,
        products: Callable[[FloatArray], FloatArray],
        n_matrices: int,
        n_features: int,
        max_columns: int = 512,
    ) -> None:
        super().__init__(products, n_matrices, n_features)
        self.max_columns = max_columns
        self._cuts = 0

    @property
    def blind(self) -> bool:
        """Whether the random block is gone: what no mixture so far needed may then be unseen."""
        return self._cuts > 0

    def start(self, width: int) -> bool:
        """Begin with a random block: with probability one no direction is orthogonal to it.

        Returns whether this was the beginning.
        """
        if self.width:
            return False
        rng = np.random.default_rng(0)
        block = rng.standard_normal((self.n_features, min(width, self.n_features)))
        return self.widen(orthonormal(block))

    def images(self, columns: FloatArray) -> FloatArray:
        """Return ``S_c @ columns`` for every matrix; a pass only for what is not in the space."""
        inside = self.basis.T @ columns
        outside = columns - self.basis @ inside
        norms = np.linalg.norm(outside, axis=0)
        # Less than this is rounding of directions that were built from the space itself.
        new = norms > 1e-9 * np.linalg.norm(columns, axis=0)
        if new.any():
            self.widen(outside[:, new] / norms[new])
            inside = self.basis.T @ columns
        return np.asarray(self._images @ inside)

    def ritz(self, mixture: Mixture, r: int) -> Ritz:
        """Return up to `r` Ritz pairs of a mixture, without a pass."""
        shifted = mixture.between @ self.basis
        matrix = np.einsum("c,cpq->pq", mixture.weights, self.compressed) + shifted.T @ shifted
        pairs = full_pairs(symmetric(matrix)).head(r)
        values, rotation = pairs.values, pairs.vectors
        image = mixture.between.T @ (shifted @ rotation)
        for cell in np.flatnonzero(mixture.weights):
            image += mixture.weights[cell] * (self._images[cell] @ rotation)
        vectors = self.basis @ rotation
        complete = self.width >= self.n_features
        return Ritz(values, vectors, image - vectors * values, complete)

    def refine(self, mixtures: list[Mixture], r: int, spare: int, slack: float) -> bool:
        """Make one pass for the mixtures whose sum of `r` values is not known to `slack`.

        Returns whether there was anything left to improve.
        """
        found = [self.ritz(mixture, r + spare) for mixture in mixtures]
        blocks = []
        for ritz in found:
            if ritz.complete or (len(ritz.values) > r and ritz.slack(r) <= slack):
                continue
            norms = np.linalg.norm(ritz.residuals, axis=0)
            useful = norms > 1e-14 * max(float(ritz.values[0]), np.finfo(float).tiny)
            blocks.append(ritz.residuals[:, useful] / norms[useful])
        if not blocks:
            return False
        fresh = sum(block.shape[1] for block in blocks)
        # Never below what a restart keeps and two blocks: a Krylov space of one step goes nowhere.
        if self.width + fresh > max(self.max_columns, 3 * len(found) * (r + spare)):
            self._cut_back(np.hstack([ritz.vectors for ritz in found]))
        return self.widen(np.hstack(blocks))

    def overlooks(self, mixture: Mixture, r: int, spare: int, most: int) -> bool:
        """Whether the space lacks a direction among the `r` leading ones of a mixture.

        A space that was cut back holds what earlier mixtures needed, and pairs that are good there
        say nothing about the rest. So what the mixture has outside of them is looked at from a new
        random block, by Krylov steps of one pass each, until its largest value is known. The space
        is widened by what is larger than the r-th value found.

        Parameters
        ----------
        mixture : Mixture
        r, spare : int
            As in `refine`; the block has as many columns.
        most : int
            Most passes.

        Raises
        ------
        ValueError
            If so many passes do not tell.
        """
        found, n = self.ritz(mixture, r + spare), self.n_features
        if found.complete:
            return False
        limit = float(found.values[r - 1])
        block = np.random.default_rng(self._cuts).standard_normal((n, r + spare))
        basis = images = np.empty((n, 0))
        for _ in range(most):
            block = outside(found.vectors, block)
            wider = expand(basis, block / np.linalg.norm(block, axis=0))
            block = wider[:, basis.shape[1] :]
            if not block.shape[1]:
                return False
            image = np.tensordot(mixture.weights, self._products(block), axes=1)
            image += mixture.between.T @ (mixture.between @ block)
            images, basis = np.hstack([images, outside(found.vectors, image)]), wider
            pairs = full_pairs(symmetric(basis.T @ images)).head(r + spare)
            vectors, image = basis @ pairs.vectors, images @ pairs.vectors
            larger = pairs.values > limit * (1 + 1e-6) + np.finfo(float).tiny
            if larger.any():
                self.widen(vectors[:, larger])
                return True
            block = image - vectors * pairs.values
            norms = np.linalg.norm(block, axis=0)
            largest = float(pairs.values[0])
            clear = largest + norms[0] <= limit
            if norms[0] <= (_CLEARLY_LEFT if clear else _NEARLY_LEFT) * limit:
                return False
            block = block[:, norms > 0]
            if basis.shape[1] + block.shape[1] > max(self.max_columns, 3 * (r + spare)):
                basis, images = vectors, image
        raise ValueError(
            f"{most} passes over the rows do not tell the leading {r} components of {n:,} columns "
            "from the others; ask for fewer components (n_components)."
        )

    def _cut_back(self, keep: FloatArray) -> None:
        """Restart from some directions; their images are known."""
        self._cuts += 1
        turn = expand(np.empty((self.width, 0)), self.basis.T @ keep)
        self.basis = orthonormal(self.basis @ turn)
        self._images = self._images @ turn
        self.compressed = symmetric(turn.T @ self.compressed @ turn)
