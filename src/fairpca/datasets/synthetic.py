"""Data whose fair projection is known: the two-dimensional picture, three lines, shared subspaces.

The rows of every group have *exactly* the covariance that is asked for (up to rounding), so the
stated optimum is the optimum of the sample and not only of its population.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from sklearn.utils import Bunch, check_random_state

from fairpca._arrays import FloatArray, symmetric
from fairpca.datasets.loading import description

_Seed: TypeAlias = int | np.random.RandomState | None
# The end of every description.
_KNOWN = """

`optimum` is the smallest worst-group loss over all projections of rank `n_components`,
`lower_bound` what the dual proves, `components` a projection that attains the optimum (rows).
"""


def make_illustration(
    n_samples: tuple[int, int] = (160, 40), *, random_state: _Seed = None
) -> Bunch:
    """Two elongated groups in the plane, the picture every talk on Fair PCA begins with.

    Group "A" is longest at 20 degrees (variances 9 along, 0.5 across), "B" at 95 (4 and 0.3). A
    unit vector at angle x costs group i ``d_i sin(x - a_i)**2``, d_i being the difference of its
    two variances. Between the two directions the costs meet where
    ``sqrt(d_1) sin(x - a_1) = sqrt(d_2) sin(a_2 - x)``.

    Parameters
    ----------
    n_samples : pair of int, default=(160, 40)
        Rows of groups "A" and "B", at least 3 each.
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
    angles = np.deg2rad([20.0, 95.0])
    along, across = np.array([9.0, 4.0]), np.array([0.5, 0.3])
    axes = np.column_stack([np.cos(angles), np.sin(angles)])
    lines = (along - across)[:, None, None] * axes[:, :, None] * axes[:, None, :]
    first, second = np.sqrt(along - across)
    between = angles[1] - angles[0]
    turn = np.arctan2(second * np.sin(between), first + second * np.cos(between))
    angle = angles[0] + turn
    answer: dict[str, object] = {"optimum": float((first * np.sin(turn)) ** 2)}
    answer |= {"angle": float(np.rad2deg(angle))}
    answer |= {"components": np.array([[np.cos(angle), np.sin(angle)]])}
    covariances = lines + across[:, None, None] * np.eye(2)
    return _known(make_illustration, covariances, n_samples, ("A", "B"), random_state, **answer)


def make_three_lines(
    n_samples: int | Sequence[int] = 20, *, n_features: int = 3, random_state: _Seed = None
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
    lines = np.zeros((3, n_features))
    angles = np.deg2rad([0.0, 60.0, 120.0])
    lines[:, 0], lines[:, 1] = np.cos(angles), np.sin(angles)
    covariances = lines[:, :, None] * lines[:, None, :]
    # A component on one line; the two others are 60 degrees away and lose sin(60)^2 each.
    answer = dict(optimum=0.75, lower_bound=0.5, components=lines[:1])
    labels = ("0", "60", "120")
    return _known(make_three_lines, covariances, n_samples, labels, random_state, **answer)


def make_shared_subspace(
    n_samples: Sequence[int] = (400, 60, 60, 60), *, random_state: _Seed = None
) -> Bunch:
    """Several sources that share a subspace, each with one loud direction of its own.

    Rows of source i are ``z A.T + s_i b_i.T + noise`` in twelve columns: the three columns of A
    are common to all sources, b_i belongs to source i alone and has twice the variance, and all of
    them are orthogonal. Each source's own PCA wants b_i; ordinary PCA follows the largest source.
    Keeping exactly the shared subspace is optimal: a projector that takes a share of some b_i
    gives up as much of A, which costs every other source.

    Parameters
    ----------
    n_samples : sequence of int, default=(400, 60, 60, 60)
        Rows of two to nine sources, more than twelve each.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows; an int gives the same rows every time.

    Returns
    -------
    Bunch
        As from `make_illustration`, without `angle`, and with `shared` (3, 12) and `private`
        (number of sources, 12).

    Examples
    --------
    >>> from fairpca.datasets import make_shared_subspace
    >>> known = make_shared_subspace(random_state=0)
    >>> known.data.shape, known.optimum
    ((580, 12), 1.0)
    """
    rng, k = check_random_state(random_state), len(n_samples)
    if not 2 <= k <= 9:
        raise ValueError(f"n_samples={n_samples!r} must have 2 to 9 entries, one a source.")
    axes = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    # One row per source: variance along each of the common axes.
    spectra = np.full((k, 12), 0.05)
    spectra[:, :3] += 1.0
    spectra[np.arange(k), 3 + np.arange(k)] += 2.0
    covariances = np.stack([symmetric((axes * row) @ axes.T) for row in spectra])
    shared, private = axes[:, :3].T, axes[:, 3 : 3 + k].T
    labels = [f"source {i + 1}" for i in range(k)]
    answer = dict(optimum=1.0, components=shared, shared=shared, private=private)
    return _known(make_shared_subspace, covariances, n_samples, labels, rng, **answer)


def _known(
    maker: Callable[..., Bunch],
    covariances: FloatArray,
    n_samples: int | Sequence[int],
    labels: Sequence[str],
    random_state: _Seed,
    **answer: object,
) -> Bunch:
    """Draw rows with exactly these covariances and state the answer beside them."""
    sizes, n = np.broadcast_to(n_samples, len(labels)), covariances.shape[1]
    if sizes.min() <= n:
        raise ValueError(
            f"n_samples={n_samples!r} must be more than {n} rows for each group: fewer cannot "
            f"have a given covariance of {n} features."
        )
    rng = check_random_state(random_state)
    rows = [_rows(matrix, int(m), rng) for matrix, m in zip(covariances, sizes, strict=True)]
    return Bunch(
        data=np.vstack(rows),
        sensitive_features=np.repeat(np.array(labels), sizes),
        DESCR=description(maker) + _KNOWN,
        n_components=len(answer["components"]),  # type: ignore[arg-type]
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
