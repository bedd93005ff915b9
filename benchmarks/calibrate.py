"""The crossovers in use, beside what this machine says about smaller and larger ones.

A wrong crossover costs time and changes no result. Every line solves one problem near a crossover
with the constant as it is, and with a smaller and a larger one in its place; times are those of
one thread, so that a busy machine may measure too.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

from benchmarks.choices import moments_like
from benchmarks.race import say
from fairpca import FairPCA, GroupMoments
from fairpca._arrays import one_blas_thread
from fairpca.covariances import dense, eigenpairs
from fairpca.solvers import many_groups

# Module, name, a smaller and a larger value, problems (columns, groups, components) beside it.
CROSSOVERS = (
    (dense, "_PAIR_FULL_TO", 80, 300, ((100, 2, 10), (150, 2, 10), (200, 2, 10))),
    (dense, "_MANY_FULL_SQUARE", 1000, 4000, ((100, 4, 8), (200, 4, 16))),
    (eigenpairs, "KRYLOV_FROM", 150, 400, ((200, 2, 10), (300, 2, 10))),
    (eigenpairs, "KRYLOV_SHARE", 1 / 20, 1 / 6, ((400, 2, 20), (400, 2, 40))),
    (many_groups, "_OWN_SHARE", 1 / 12, 1 / 2, ((300, 8, 10), (500, 8, 30))),
)
SPECTRA = ("exponential", "power")


def run(quick: bool) -> list[dict[str, Any]]:
    """Solve every problem with three values of its constant; return a row each."""
    rows = []
    for module, name, smaller, larger, shapes in CROSSOVERS:
        in_use = getattr(module, name)
        for n, k, r in shapes[:1] if quick else shapes:
            for spectrum in SPECTRA[:1] if quick else SPECTRA:
                say(f"{name}: {n} x {k} {spectrum} r={r} ...")
                values = (in_use, smaller, larger)
                best = _times(module, name, values, FairPCA(r), moments_like(n, k, spectrum))
                rows.append(
                    {
                        "constant": name,
                        "in use": in_use,
                        "case": f"{n} x {k} {spectrum} r={r}",
                        "ms": 1e3 * best[in_use],
                        "smaller": smaller,
                        "takes": best[smaller] / best[in_use],
                        "larger": larger,
                        "takes then": best[larger] / best[in_use],
                    }
                )
    return rows


def _times(
    module: Any, name: str, values: tuple[float, ...], model: FairPCA, moments: GroupMoments
) -> dict[float, float]:
    """Return the best time of the processor of a fit with every value of a constant."""
    best = dict.fromkeys(values, float("inf"))
    in_use = getattr(module, name)
    # The first round pays for imports and page faults, and is not counted.
    for counted in (False, True, True, True):
        for value in best:
            setattr(module, name, value)
            try:
                with one_blas_thread(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    begin = time.process_time()
                    model.fit_moments(moments)
                    taken = time.process_time() - begin
            finally:
                setattr(module, name, in_use)
            if counted:
                best[value] = min(best[value], taken)
    return best
