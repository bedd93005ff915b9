"""Unit vectors in three dimensions at which two quadratic forms vanish together.

Two conics that have a common point have it on a degenerate member of their pencil: a pair of
lines. So the real roots of a cubic give line pairs, and each line meets a conic in the roots of a
quadratic. A common point exists whenever the zero pair lies in the joint numerical range, which
is convex for real vectors from three dimensions on (Brickman 1961).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairpca.arrays import FloatArray

_CLEAN_UP = 4


def common_zeros(forms: FloatArray) -> Iterator[FloatArray]:
    """Yield unit vectors x with ``x @ F @ x`` near zero for all forms of rank at most two.

    Parameters
    ----------
    forms : ndarray of shape (m, 3, 3)
        Symmetric; of any number, but spanning no more than two dimensions up to rounding.
    """
    _, size, rows = np.linalg.svd(forms.reshape(len(forms), 9), full_matrices=False)
    if size[0] == 0:
        yield np.array([1.0, 0.0, 0.0])
        return
    first = rows[0].reshape(3, 3)
    if len(size) < 2 or size[1] <= 1e-12 * size[0]:
        pencil, both = [first], first[None]
    else:
        second = rows[1].reshape(3, 3)
        both = np.array([first, second])
        pencil = [np.cos(a) * first + np.sin(a) * second for a in _degenerate(first, second)]
    for member in pencil:
        for plane in _planes(member):
            for x in _on_plane(both, plane):
                yield _cleaned(both, x)


def _degenerate(first: FloatArray, second: FloatArray) -> list[float]:
    """Return the angles at which cos(a) first + sin(a) second is singular."""
    # det is a cubic form in (cos a, sin a): four samples fix it, and no root escapes to infinity.
    angles = np.array([0.0, 0.25, 0.5, 0.75]) * np.pi
    c, s = np.cos(angles), np.sin(angles)
    samples = [np.linalg.det(x * first + y * second) for x, y in zip(c, s, strict=True)]
    powers = np.stack([c**3, c**2 * s, c * s**2, s**3], axis=1)
    cubic = np.linalg.solve(powers, samples)
    found = []
    # Both charts: roots in tan(a) near infinity are roots in cot(a) near zero.
    for coefficients, swap in ((cubic[::-1], False), (cubic, True)):
        if np.abs(coefficients).max() == 0:
            return [0.0]
        for root in np.roots(coefficients):
            if abs(root.imag) <= 1e-6 * (1 + abs(root)) and abs(root) <= 1.5:
                angle = float(np.arctan(root.real))
                found.append(0.5 * np.pi - angle if swap else angle)
    return found


def _planes(member: FloatArray) -> Iterator[FloatArray]:
    """Yield bases (3, 2) of the planes on which a nearly singular form vanishes."""
    values, vectors = np.linalg.eigh(member)
    middle = int(np.argmin(np.abs(values)))
    low, high = (i for i in range(3) if i != middle)
    a, b = np.sqrt(abs(values[low])), np.sqrt(abs(values[high]))
    size = np.hypot(a, b)
    if size == 0:
        yield vectors[:, :2]
        return
    if values[low] * values[high] > 0:
        # Definite up to the null direction: it vanishes on a line only; keep a plane through it.
        for other in (low, high):
            yield vectors[:, [middle, other]]
        return
    for sign in (1.0, -1.0):
        inside = (b * vectors[:, low] + sign * a * vectors[:, high]) / size
        yield np.column_stack([vectors[:, middle], inside])


def _on_plane(both: FloatArray, plane: FloatArray) -> Iterator[FloatArray]:
    """Yield the zeros on a plane of whichever form is larger there."""
    inside = plane.T @ (both @ plane)
    form = inside[int(np.argmax(np.linalg.norm(inside, axis=(1, 2))))]
    values, vectors = np.linalg.eigh(form)
    # Touching conics: rounding may make a semidefinite form definite.
    low, high = max(-values[0], 0.0), max(values[1], 0.0)
    if low + high == 0:
        yield plane[:, 0]
        return
    sine, cosine = np.sqrt(low / (low + high)), np.sqrt(high / (low + high))
    for sign in (1.0, -1.0):
        x = plane @ (cosine * vectors[:, 0] + sign * sine * vectors[:, 1])
        yield x / np.linalg.norm(x)


def _cleaned(both: FloatArray, x: FloatArray) -> FloatArray:
    for _ in range(_CLEAN_UP):
        image = both @ x
        system = np.vstack([2 * image, 2 * x])
        residual = np.append(image @ x, x @ x - 1.0)
        x = x - np.linalg.lstsq(system, residual, rcond=1e-12)[0]
        x = x / np.linalg.norm(x)
    return x
