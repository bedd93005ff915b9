"""Problems with any number of groups: random families, and examples whose answer is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fairpca._arrays import FloatArray, symmetric


def _rotation(rng: np.random.Generator, n: int) -> FloatArray:
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def _with_spectrum(rotation: FloatArray, values: FloatArray) -> FloatArray:
    return symmetric((rotation * values) @ rotation.T)


def random_psd(rng: np.random.Generator, k: int, n: int) -> FloatArray:
    """Independent bases, eigenvalues uniform on (0, 1)."""
    return np.array([_with_spectrum(_rotation(rng, n), rng.random(n)) for _ in range(k)])


def wishart(rng: np.random.Generator, k: int, n: int) -> FloatArray:
    """Sample covariances of 2n rows with a decaying population spectrum, one basis for all."""
    colour = _rotation(rng, n) * np.sqrt(0.9 ** np.arange(n))
    rows = rng.standard_normal((k, 2 * n, n)) @ colour.T
    return symmetric(np.swapaxes(rows, 1, 2) @ rows / (2 * n))


def clustered(rng: np.random.Generator, k: int, n: int) -> FloatArray:
    """Independent bases, eigenvalues on three levels up to 1e-3."""
    levels = np.array([0.1, 1.0, 3.0])
    return np.array(
        [
            _with_spectrum(
                _rotation(rng, n), rng.choice(levels, n) + 1e-3 * rng.standard_normal(n) ** 2
            )
            for _ in range(k)
        ]
    )


def shared_basis(rng: np.random.Generator, k: int, n: int) -> FloatArray:
    """Nearly commuting: one basis with own eigenvalues, plus a small perturbation."""
    rotation = _rotation(rng, n)
    found = []
    for _ in range(k):
        noise = rng.standard_normal((n, n)) / np.sqrt(n)
        found.append(_with_spectrum(rotation, rng.random(n)) + 0.05 * noise @ noise.T)
    return symmetric(np.array(found))


FAMILIES: dict[str, Callable[[np.random.Generator, int, int], FloatArray]] = {
    "random": random_psd,
    "wishart": wishart,
    "clustered": clustered,
    "shared basis": shared_basis,
}


@dataclass(frozen=True)
class Instance:
    """One random problem and what it takes to build it again."""

    family: str
    seed: int
    covariances: FloatArray
    n_components: int

    def __str__(self) -> str:
        k, n, _ = self.covariances.shape
        return f"{self.family} seed={self.seed} k={k} n={n} r={self.n_components}"


def instance(family: str, seed: int, k: int, *, n_max: int = 60) -> Instance:
    """Return one problem: n uniform on 5..n_max, r uniform on 1..n/2."""
    rng = np.random.default_rng([seed, k, list(FAMILIES).index(family)])
    n = int(rng.integers(5, n_max + 1))
    r = int(rng.integers(1, n // 2 + 1))
    return Instance(family, seed, FAMILIES[family](rng, k, n), r)


def instances(k: int, count: int, *, first_seed: int = 0, n_max: int = 60) -> Iterator[Instance]:
    """Yield `count` problems with k groups, the families in turn."""
    names = list(FAMILIES)
    for index in range(count):
        yield instance(names[index % 4], first_seed + index, k, n_max=n_max)


def lines(k: int, n: int = 3) -> FloatArray:
    """Return k lines in the first coordinate plane, evenly spaced over 180 degrees.

    With one component the best worst loss is (1 + cos(pi / k)) / 2, the dual bound only 1/2.
    """
    angles = np.pi * np.arange(k) / k
    directions = np.zeros((k, n))
    directions[:, 0], directions[:, 1] = np.cos(angles), np.sin(angles)
    return directions[:, :, None] * directions[:, None, :]


def environments(n: int, k: int, seed: int, rank: int = 5) -> FloatArray:
    """Return the simulation of Fries, Reichstein, Blei and Peters 2026 (arXiv:2603.11304).

    Each matrix has `rank` directions that all share and `rank` of its own, with eigenvalues that
    are the same for all, uniform on (0.1, 1), and trace one.
    """
    rng = np.random.default_rng(seed)
    shared_values = rng.uniform(0.1, 1.0, rank)
    shared = np.linalg.qr(rng.standard_normal((n, rank)))[0]
    values = np.concatenate([shared_values, rng.uniform(0.1, 1.0, rank)])
    found = []
    for _ in range(k):
        own = rng.standard_normal((n, rank))
        own = np.linalg.qr(own - shared @ (shared.T @ own))[0]
        basis = np.hstack([shared, own])
        found.append((basis * values) @ basis.T / values.sum())
    return np.array(found)


def lemma_8_1() -> FloatArray:
    """Tantipongpipat et al. 2019, Lemma 8.1: max-min variance 26/17, relaxation 7/4."""
    return np.array(
        [[[2.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 2.0]], [[2.0, -1.0], [-1.0, 2.0]]]
    )


def forced_multiplicity(rng: np.random.Generator, k: int, n: int, copies: int) -> FloatArray:
    """Every eigenvalue of every weighted sum has this multiplicity: S_i x I in a random basis."""
    rotation = _rotation(rng, n * copies)
    small = random_psd(rng, k, n)
    return symmetric(np.array([rotation @ np.kron(s, np.eye(copies)) @ rotation.T for s in small]))
