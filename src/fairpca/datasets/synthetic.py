"""Data whose fair projection is known: the two-dimensional picture, three lines, shared subspaces.

The rows of every group have *exactly* the covariance that is asked for (up to rounding), so the
stated optimum is the optimum of the sample and not only of its population.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import linprog
from sklearn.utils import Bunch, check_random_state

from fairpca._linalg import FloatArray, symmetric

# The end of every description.
_KNOWN = """
`optimum` is the smallest worst-group loss over all projections of rank `n_components`,
`lower_bound` what the dual proves, `components` a projection that attains the optimum (rows; None
where only the value is known).
"""


def make_illustration(
    n_samples: tuple[int, int] = (160, 40),
    *,
    angles: tuple[float, float] = (20.0, 95.0),
    variances: tuple[tuple[float, float], tuple[float, float]] = ((9.0, 0.5), (4.0, 0.3)),
    random_state: Any = None,
) -> Bunch:
    """Two elongated groups in the plane, the picture every talk on Fair PCA begins with.

    Parameters
    ----------
    n_samples : pair of int, default=(160, 40)
        Rows of groups "A" and "B", at least 3 each.
    angles : pair of float, default=(20.0, 95.0)
        Direction in which each group is longest, in degrees.
    variances : pair of pairs, default=((9.0, 0.5), (4.0, 0.3))
        Variance along and across that direction, along at least as large.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows; an int gives the same rows every time.

    Returns
    -------
    Bunch
        `data`, `sensitive_features`, `n_components` (1), `optimum`, `lower_bound`, `components`,
        `angle` (of the fair direction, degrees), `DESCR`.

    Notes
    -----
    A unit vector at angle x costs group i ``d_i sin(x - a_i)**2``, d_i being the difference of its
    two variances. On the shorter way from a_1 to a_2 the two costs meet where
    ``sqrt(d_1) sin(x - a_1) = sqrt(d_2) sin(a_2 - x)``.

    Examples
    --------
    >>> from fairpca import FairPCA
    >>> from fairpca.datasets import make_illustration
    >>> known = make_illustration(random_state=0)
    >>> fair = FairPCA(1).fit(known.data, sensitive_features=known.sensitive_features)
    >>> bool(abs(fair.certificate_.value - known.optimum) < 1e-12)
    True
    """
    covariances = []
    for angle, (along, across) in zip(np.deg2rad(angles), variances, strict=True):
        if not along >= across >= 0:
            raise ValueError(
                f"variances={variances!r}: in each pair the first must be at least the second, "
                "and none negative."
            )
        axis = np.array([np.cos(angle), np.sin(angle)])
        covariances.append(across * np.eye(2) + (along - across) * np.outer(axis, axis))
    first, second = (np.sqrt(along - across) for along, across in variances)
    # Directions are lines: the angle between them is at most 90 degrees.
    between = np.deg2rad((angles[1] - angles[0] + 90.0) % 180.0 - 90.0)
    turn = np.arctan2(second * np.sin(between), first + second * np.cos(between))
    angle = np.deg2rad(angles[0]) + turn
    return _known(
        "Two elongated groups in the plane.",
        covariances,
        n_samples,
        ("A", "B"),
        random_state,
        n_components=1,
        optimum=float((first * np.sin(turn)) ** 2),
        components=np.array([[np.cos(angle), np.sin(angle)]]),
        angle=float(np.rad2deg(angle) % 180.0),
    )


def make_three_lines(
    n_samples: int | Sequence[int] = 20, *, n_features: int = 3, random_state: Any = None
) -> Bunch:
    """Three groups on lines at 0, 60 and 120 degrees: the bound is 1/2, the optimum 3/4.

    Every group has unit variance along its line and none elsewhere, and one component is kept. No
    matter how many further features there are, every direction of space is at least 60 degrees
    from some line, while the dual (and every convex relaxation) believes in a loss of 1/2: three
    groups are not always exact, whatever the number of features.

    Parameters
    ----------
    n_samples : int or sequence of 3 int, default=20
        Rows per group, more than `n_features`.
    n_features : int, default=3
        At least 2; the lines lie in the plane of the first two.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows; an int gives the same rows every time.

    Returns
    -------
    Bunch
        `data`, `sensitive_features`, `n_components` (1), `optimum` (0.75), `lower_bound` (0.5),
        `components`, `DESCR`.

    Examples
    --------
    >>> from fairpca.datasets import make_three_lines
    >>> known = make_three_lines(random_state=0)
    >>> known.data.shape, known.lower_bound, known.optimum
    ((60, 3), 0.5, 0.75)
    """
    if n_features < 2:
        raise ValueError(f"n_features={n_features} must be at least 2: the lines need a plane.")
    directions = np.zeros((3, n_features))
    angles = np.deg2rad([0.0, 60.0, 120.0])
    directions[:, 0], directions[:, 1] = np.cos(angles), np.sin(angles)
    return _known(
        "Three lines at 0, 60 and 120 degrees.",
        [np.outer(line, line) for line in directions],
        n_samples,
        ("0", "60", "120"),
        random_state,
        n_components=1,
        optimum=0.75,
        lower_bound=0.5,
        # On one line; the two others are 60 degrees away and lose sin(60)^2 each.
        components=directions[:1],
    )


def make_shared_subspace(
    n_samples: int | Sequence[int] = (400, 60, 60, 60),
    *,
    n_features: int = 12,
    n_shared: int = 3,
    shared_variance: float = 1.0,
    private_variance: float | Sequence[float] = 2.0,
    noise_variance: float = 0.05,
    random_state: Any = None,
) -> Bunch:
    """Several sources that share a subspace, each with one loud direction of its own.

    Rows of source i are ``z A.T + s_i b_i.T + noise``: the columns of A are common to all sources,
    b_i belongs to source i alone, and all of them are orthogonal. Each source's own PCA wants b_i,
    which is noise to everybody else; ordinary PCA follows the largest source. As long as the
    private variances are equal and below `shared_variance` times the number of sources, keeping
    exactly the shared subspace is optimal and every source loses ``private - shared``.

    Parameters
    ----------
    n_samples : int or sequence of int, default=(400, 60, 60, 60)
        Rows per source, more than `n_features`; an int means four equal sources.
    n_features : int, default=12
        At least `n_shared` plus the number of sources.
    n_shared : int, default=3
        Dimension of the shared subspace, and the rank the optimum is stated for.
    shared_variance : float, default=1.0
        Variance of every source in every direction of the shared subspace.
    private_variance : float or sequence of float, default=2.0
        Variance of each source in its own direction: one for all, or one a source.
    noise_variance : float, default=0.05
        Variance added to all of them, in every direction.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows; an int gives the same rows every time.

    Returns
    -------
    Bunch
        `data`, `sensitive_features`, `n_components` (= n_shared), `optimum`, `lower_bound`,
        `components` (None unless the shared subspace is optimal), `shared` (n_shared, n_features),
        `private` (k, n_features), `DESCR`.

    Notes
    -----
    In the basis of A and the b_i all covariances are diagonal, so losses depend on a projector
    only through its diagonal there. By Schur and Horn that diagonal can be any point of the cube
    with sum r: the problem is a linear program in as many variables as there are directions, and
    its value is the optimum.

    Examples
    --------
    >>> from fairpca.datasets import make_shared_subspace
    >>> known = make_shared_subspace(random_state=0)
    >>> known.data.shape, round(known.optimum, 12)
    ((580, 12), 1.0)
    """
    rng = check_random_state(random_state)
    k = 4 if isinstance(n_samples, int | np.integer) else len(n_samples)
    if n_features < n_shared + k:
        raise ValueError(
            f"n_features={n_features} must be at least n_shared + number of sources, "
            f"{n_shared + k}."
        )
    private = np.broadcast_to(np.asarray(private_variance, dtype=float), (k,))
    axes = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    # One row per source: variance along each of the common axes.
    spectra = np.full((k, n_features), float(noise_variance))
    spectra[:, :n_shared] += shared_variance
    spectra[np.arange(k), n_shared + np.arange(k)] += private
    shared = axes[:, :n_shared].T
    own = np.sort(spectra, axis=1)[:, ::-1][:, :n_shared].sum(axis=1)
    optimum = _diagonal_optimum(spectra, own, n_shared)
    loss_of_shared = float((own - spectra[:, :n_shared].sum(axis=1)).max())
    # The linear program stops at its solver's tolerance. Where both agree, this loss is exact.
    exact = loss_of_shared <= optimum + 1e-9 * max(optimum, 1.0)
    return _known(
        "Sources with a shared subspace and one private direction each.",
        [symmetric((axes * row) @ axes.T) for row in spectra],
        n_samples,
        [f"source {i + 1}" for i in range(k)],
        rng,
        n_components=n_shared,
        optimum=loss_of_shared if exact else optimum,
        components=shared if exact else None,
        shared=shared,
        private=axes[:, n_shared : n_shared + k].T,
    )


def _diagonal_optimum(spectra: FloatArray, own: FloatArray, r: int) -> float:
    """Return the smallest worst loss for covariances that are diagonal in one basis.

    The variables are the diagonal of the projector in that basis, and the worst loss itself, which
    is minimised. `spectra` has one row of variances per group, `own` the sums of the r largest.
    """
    k, n = spectra.shape
    found = linprog(
        np.r_[np.zeros(n), 1.0],
        A_ub=np.hstack([-spectra, -np.ones((k, 1))]),
        b_ub=-own,
        A_eq=np.r_[np.ones(n), 0.0][None],
        b_eq=[float(r)],
        bounds=[(0, 1)] * n + [(None, None)],
        method="highs",
    )
    if found.fun is None:
        raise ValueError(f"n_shared={r}: no projection of that rank exists ({found.message}).")
    return float(found.fun)


def _known(
    about: str,
    covariances: Sequence[FloatArray],
    n_samples: int | Sequence[int],
    labels: Sequence[str],
    random_state: Any,
    **answer: Any,
) -> Bunch:
    """Draw rows with exactly these covariances and state the answer beside them.

    `answer` has `n_components`, `optimum`, `components`, and `lower_bound` where the dual proves
    less than the optimum.
    """
    equal = isinstance(n_samples, int | np.integer)
    sizes = np.full(len(labels), n_samples) if equal else np.asarray(n_samples)
    if len(sizes) != len(labels):
        raise ValueError(f"n_samples={n_samples!r} must have {len(labels)} entries.")
    rng = check_random_state(random_state)
    rows = [_rows(matrix, int(m), rng) for matrix, m in zip(covariances, sizes, strict=True)]
    return Bunch(
        data=np.vstack(rows),
        sensitive_features=np.repeat(np.array(labels), sizes),
        DESCR=about + _KNOWN,
        **{"lower_bound": answer["optimum"], **answer},
    )


def _rows(covariance: FloatArray, m: int, rng: np.random.RandomState) -> FloatArray:
    """Draw `m` rows of mean zero whose covariance (dividing by m) is exactly `covariance`."""
    n = len(covariance)
    if m <= n:
        raise ValueError(
            f"n_samples: a group of {m} rows cannot have a given covariance of {n} features; use "
            f"more than {n} rows per group."
        )
    draws = rng.standard_normal((m, n))
    # The columns of Q are orthonormal, and combinations of centred columns are centred: so Q has
    # mean zero and covariance I / m. The second centring removes what rounding left.
    white = np.linalg.qr(draws - draws.mean(axis=0))[0]
    white -= white.mean(axis=0)
    values, vectors = np.linalg.eigh(covariance)
    # Rounding makes zero eigenvalues slightly negative, and these have no square root.
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(np.sqrt(m) * white @ root.T)
