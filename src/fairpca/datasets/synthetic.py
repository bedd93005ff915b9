"""Data whose fair projection is known: the two-dimensional picture, three lines, shared subspaces.

The rows of every group have *exactly* the covariance that is asked for (up to rounding), so the
stated optimum is the optimum of the sample and not only of its population.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from fairpca._arrays import FloatArray, symmetric
from fairpca.datasets.loading import description

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

    A unit vector at angle x costs group i ``d_i sin(x - a_i)**2``, d_i being the difference of its
    two variances. On the shorter way from a_1 to a_2 the two costs meet where
    ``sqrt(d_1) sin(x - a_1) = sqrt(d_2) sin(a_2 - x)``.

    Parameters
    ----------
    n_samples : pair of int, default=(160, 40)
        Rows of groups "A" and "B", at least 3 each.
    angles, variances : pair of float, pair of pairs of float
        Direction in which each group is longest, in degrees, and variance along and across it.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows; an int gives the same rows every time.

    Returns
    -------
    Bunch
        `data`, `sensitive_features`, `n_components` (1), `optimum`, `lower_bound`, `components`,
        `angle` (of the fair direction, degrees), `DESCR`.

    Examples
    --------
    >>> from fairpca import FairPCA, datasets
    >>> known = datasets.make_illustration(random_state=0)
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
    answer = {
        "n_components": 1,
        "optimum": float((first * np.sin(turn)) ** 2),
        "components": np.array([[np.cos(angle), np.sin(angle)]]),
        "angle": float(np.rad2deg(angle) % 180.0),
    }
    return _known(make_illustration, covariances, n_samples, ("A", "B"), random_state, answer)


def make_three_lines(
    n_samples: int | Sequence[int] = 20, *, n_features: int = 3, random_state: Any = None
) -> Bunch:
    """Three groups on lines at 0, 60 and 120 degrees: the bound is 1/2, the optimum 3/4.

    Every group has unit variance along its line and none elsewhere, and one component is kept. No
    matter how many further features there are, every direction of space is at least 60 degrees
    from some line, while the dual (and every convex relaxation) believes in a loss of 1/2. The
    Bunch has the entries of `make_illustration`, but no angle.

    Parameters
    ----------
    n_samples, n_features : int, default=20, 3
        Rows per group, or three such numbers, more than `n_features`; these are at least 2.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows; an int gives the same rows every time.

    Examples
    --------
    >>> from fairpca.datasets import make_three_lines
    >>> known = make_three_lines(random_state=0)
    >>> known.data.shape, known.lower_bound, known.optimum
    ((60, 3), 0.5, 0.75)
    """
    if n_features < 2:
        raise ValueError(f"n_features={n_features} must be at least 2: the lines need a plane.")
    angles = np.deg2rad([0.0, 60.0, 120.0])
    directions = np.column_stack([np.cos(angles), np.sin(angles), np.zeros((3, n_features - 2))])
    covariances, labels = [np.outer(line, line) for line in directions], ("0", "60", "120")
    # A component on one line; the two others are 60 degrees away and lose sin(60)^2 each.
    answer = dict(n_components=1, optimum=0.75, lower_bound=0.5, components=directions[:1])
    return _known(make_three_lines, covariances, n_samples, labels, random_state, answer)


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
    b_i belongs to source i alone, and all of them are orthogonal. Each source's own PCA wants b_i;
    ordinary PCA follows the largest source. As long as the private variances are equal and below
    `shared_variance` times the number of sources, keeping exactly the shared subspace is optimal.

    In the basis of A and the b_i all covariances are diagonal, so losses depend on a projector
    only through its diagonal there. By Schur and Horn that diagonal can be any point of the cube
    with sum r: the problem is a linear program, and its value is the optimum.

    Parameters
    ----------
    n_samples : int or sequence of int, default=(400, 60, 60, 60)
        Rows per source, more than `n_features`; an int means four equal sources.
    n_features, n_shared : int, default=12, 3
        At least `n_shared` plus the number of sources; dimension of the shared subspace, and the
        rank the optimum is stated for.
    shared_variance, noise_variance : float, default=1.0, 0.05
        Variance of every source along the shared subspace, and added to it in every direction.
    private_variance : float or sequence of float, default=2.0
        Variance of each source in its own direction: one for all, or one a source.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows; an int gives the same rows every time.

    Returns
    -------
    Bunch
        As from `make_illustration`, without `angle`, and with `shared` (n_shared, n_features) and
        `private` (k, n_features); `components` is None unless the shared subspace is optimal.

    Examples
    --------
    >>> from fairpca.datasets import make_shared_subspace
    >>> known = make_shared_subspace(random_state=0)
    >>> known.data.shape, round(known.optimum, 12)
    ((580, 12), 1.0)
    """
    from fairpca.methods.sdr import least_worst

    rng = check_random_state(random_state)
    k = np.size(n_samples) if np.ndim(n_samples) else 4
    if not 1 <= n_shared <= n_features - k:
        raise ValueError(
            f"n_shared={n_shared}, the rank of the optimum, must be at least 1, and with the "
            f"number of sources, {k}, at most n_features={n_features}."
        )
    private = np.asarray(private_variance, dtype=float)
    lowest = min(shared_variance, noise_variance, private.min(initial=0.0))
    if private.shape not in ((), (k,)) or lowest < 0:
        raise ValueError(
            f"shared_variance={shared_variance}, noise_variance={noise_variance} and "
            f"private_variance={private_variance!r} must be at least 0, and the last one number "
            f"or one for each of {k} sources."
        )
    axes = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    # One row per source: variance along each of the common axes.
    spectra = np.full((k, n_features), float(noise_variance))
    spectra[:, :n_shared] += shared_variance
    spectra[np.arange(k), n_shared + np.arange(k)] += private
    shared = axes[:, :n_shared].T
    own = np.sort(spectra, axis=1)[:, ::-1][:, :n_shared].sum(axis=1)
    losses, unit = own[:, None] / n_shared - spectra, float(spectra.max())
    optimum, _, _ = least_worst(losses, total=n_shared, unit=unit)
    loss_of_shared = float((own - spectra[:, :n_shared].sum(axis=1)).max())
    # The linear program stops at its solver's tolerance. Where both agree, this loss is exact.
    exact = loss_of_shared <= optimum + 1e-9 * max(optimum, 1.0)
    covariances = [symmetric((axes * row) @ axes.T) for row in spectra]
    labels = [f"source {i + 1}" for i in range(k)]
    answer = {
        "n_components": n_shared,
        "optimum": loss_of_shared if exact else optimum,
        "components": shared if exact else None,
        "shared": shared,
        "private": axes[:, n_shared : n_shared + k].T,
    }
    return _known(make_shared_subspace, covariances, n_samples, labels, rng, answer)


def _known(
    maker: Callable[..., Bunch],
    covariances: Sequence[FloatArray],
    n_samples: int | Sequence[int],
    labels: Sequence[str],
    random_state: Any,
    answer: dict[str, Any],
) -> Bunch:
    """Draw rows with exactly these covariances and state the answer beside them."""
    sizes = np.asarray(n_samples) if np.ndim(n_samples) else np.full(len(labels), n_samples)
    n = len(covariances[0])
    if sizes.dtype.kind not in "iu" or len(sizes) != len(labels) or sizes.min() <= n:
        raise ValueError(
            f"n_samples={n_samples!r} must be a whole number, or must have {len(labels)} entries, "
            f"one a group: more than {n} rows each, as fewer cannot have a given covariance of "
            f"{n} features."
        )
    rng = check_random_state(random_state)
    rows = [_rows(matrix, int(m), rng) for matrix, m in zip(covariances, sizes, strict=True)]
    return Bunch(
        data=np.vstack(rows),
        sensitive_features=np.repeat(np.array(labels), sizes),
        DESCR=description(maker) + _KNOWN,
        **{"lower_bound": answer["optimum"], **answer},
    )


def _rows(covariance: FloatArray, m: int, rng: np.random.RandomState) -> FloatArray:
    """Draw `m` rows of mean zero whose covariance (dividing by m) is exactly `covariance`."""
    draws = rng.standard_normal((m, len(covariance)))
    # The columns of Q are orthonormal, and combinations of centred columns are centred: so Q has
    # mean zero and covariance I / m. The second centring removes what rounding left.
    white = np.linalg.qr(draws - draws.mean(axis=0))[0]
    white -= white.mean(axis=0)
    values, vectors = np.linalg.eigh(covariance)
    # Rounding makes zero eigenvalues slightly negative, and these have no square root.
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(np.sqrt(m) * white @ root.T)
