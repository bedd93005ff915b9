"""What the pictures of sections 2 to 4 show: the plane, the joint numerical range, phi."""

from __future__ import annotations

from typing import Any

import numpy as np

import fairpca
from experiments.baselines import eigopt_on_gram
from experiments.tables import FloatArray
from fairpca.datasets import make_illustration, make_three_lines
from fairpca.fitting import pose
from fairpca.solvers.two_groups import RootSearch


def illustration() -> dict[str, Any]:
    """Two groups in the plane, the direction of PCA and the fair one, with both losses."""
    known = make_illustration(random_state=3)
    moments = fairpca.GroupMoments.from_array(known.data, known.sensitive_features)
    covariances = moments.covariances
    pooled = np.linalg.eigh(moments.pooled().scatter[0])[1][:, -1]
    fair = fairpca.solve(covariances, 1)
    own = np.linalg.eigvalsh(covariances)[:, -1]
    directions = {"pca": pooled, "fair": fair.components[0]}
    return {
        "rows": known.data.tolist(),
        "labels": known.sensitive_features.tolist(),
        "directions": {name: line.tolist() for name, line in directions.items()},
        "losses": {
            name: (own - np.einsum("i,kij,j->k", line, covariances, line)).tolist()
            for name, line in directions.items()
        },
        "known_optimum": known.optimum,
        "known_angle": known.angle,
        "found": fair.certificate.value,
    }


def random_pair() -> tuple[FloatArray, int]:
    """The random example of the authors' script: 200 and 150 rows of 100 features, r = 10.

    The recipe is theirs; the random numbers are ours, because MATLAB's cannot be drawn here.
    """
    rng = np.random.default_rng(0)
    groups = rng.standard_normal((200, 100)), rng.standard_normal((150, 100))
    # As there: products of raw rows, neither centred nor standardised.
    return np.array([rows.T @ rows / len(rows) for rows in groups]), 10


def numerical_range() -> dict[str, Any]:
    """Outline of W_r(H_A, H_B) of the random pair, its optimum and both groups' own points."""
    covariances, r = random_pair()
    offsets = np.linalg.eigvalsh(covariances)[:, ::-1][:, :r].sum(axis=1)
    h_a, h_b = (c / r * np.eye(len(s)) - s for c, s in zip(offsets, covariances, strict=True))
    found = fairpca.joint_numerical_range(h_a, h_b, r, n_angles=128)
    best = fairpca.solve(covariances, r)
    own = [_point(offsets, covariances, r, weights) for weights in ([1.0, 0.0], [0.0, 1.0])]
    return {
        "outline": found.outline.tolist(),
        "r": r,
        "n_angles": len(found.angles),
        "optimum": best.losses.tolist(),
        "own": own,
        "largest_dent": _largest_dent(found.points),
    }


def _point(
    offsets: FloatArray, covariances: FloatArray, r: int, weights: list[float]
) -> list[float]:
    vectors = np.linalg.eigh(np.tensordot(weights, covariances, axes=1))[1][:, -r:]
    kept = np.einsum("nr,knr->k", vectors, covariances @ vectors)
    return [float(v) for v in offsets - kept]


def _largest_dent(points: FloatArray) -> float:
    """How far the outline turns the wrong way, relative to its size; zero for a convex set."""
    steps = np.roll(points, -1, axis=0) - points
    after = np.roll(steps, -1, axis=0)
    turn = steps[:, 0] * after[:, 1] - steps[:, 1] * after[:, 0]
    return float(max(0.0, -turn.min()) / np.ptp(points, axis=0).prod())


def phi_curve() -> dict[str, Any]:
    """Phi of the random pair past both ends of [0, 1], and the points two searches look at."""
    covariances, r = random_pair()
    offsets = np.linalg.eigvalsh(covariances)[:, ::-1][:, :r].sum(axis=1)
    t = np.linspace(-0.2, 1.2, 281)
    weights = np.stack([t, 1 - t], axis=1)
    spectra = np.linalg.eigvalsh(np.tensordot(weights, covariances, axes=1))
    values = weights @ offsets - spectra[:, -r:].sum(axis=1)
    brent: list[list[float]] = []
    eigopt_on_gram(covariances, r, 1e-8, brent)
    # The root finder itself: a pair of this size is solved in a subspace, which shows less.
    problem = pose(covariances, r)
    search = RootSearch(problem)
    ours, _ = search.run(max_iter=50)
    return {
        "t": t.tolist(),
        "phi": values.tolist(),
        "r": r,
        "brent": brent,
        "ours": [[step["t"], step["phi"]] for step in search.history],
        "t_star": ours.t,
        "phi_star": ours.value,
        # Concave: no second difference is positive beyond rounding.
        "largest_second_difference": float(np.diff(values, 2).max()),
    }


def three_lines() -> dict[str, Any]:
    """The counter-example to the closing remark, and all directions of space tried on a grid."""
    known = make_three_lines(random_state=0)
    covariances = fairpca.GroupMoments.from_array(known.data, known.sensitive_features).covariances
    bound = float(fairpca.phi(covariances, 1, np.full(3, 1 / 3)))
    polar, around = np.meshgrid(np.linspace(0, np.pi / 2, 181), np.linspace(0, np.pi, 361))
    directions = np.stack(
        [np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar)], axis=-1
    ).reshape(-1, 3)
    losses = 1 - np.einsum("di,kij,dj->dk", directions, covariances, directions)
    ours = fairpca.solve(covariances, 1).certificate
    return {
        "dual": bound,
        "best_on_grid": float(losses.max(axis=1).min()),
        "value": ours.value,
        "proven": ours.lower_bound,
    }
