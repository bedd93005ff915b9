"""Rows on an accelerator: counting there, solving on the processor, beside PCA there.

``python -m benchmarks device`` needs PyTorch with a CUDA device. Times are medians of five, with
the device waited for. "PCA there" is scikit-learn's PCA with ``svd_solver="covariance_eigh"`` on
the same tensor, under ``array_api_dispatch``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.race import say
from fairpca import FairPCA, GroupMoments


def count_moments(X: Any, codes: Any, labels: tuple[str, ...]) -> GroupMoments:
    """Return the moments of the groups of a tensor, counted where it is.

    As in the gallery's example; `codes` is a tensor that says which label each row has.
    """
    counts, means, scatters = [], [], []
    for code in range(len(labels)):
        rows = X[codes == code].double()
        mean = rows.mean(0)
        rows -= mean
        counts.append(len(rows))
        means.append(mean.cpu().numpy())
        scatters.append((rows.T @ rows).cpu().numpy())
    count = np.array(counts)
    return GroupMoments(count, count.astype(float), np.array(means), np.array(scatters), labels)


def _tables(torch: Any, quick: bool) -> Iterator[tuple[str, Any, Any, int, tuple[int, ...]]]:
    """Yield a name, rows, codes, the number of groups and the ranks."""
    if not quick:
        from fairpca.datasets import fetch_lfw_faces

        faces = fetch_lfw_faces(download_if_missing=False)
        codes = np.unique(np.asarray(faces.sensitive_features).ravel(), return_inverse=True)[1]
        rows = torch.as_tensor(np.asarray(faces.data, dtype=float), device="cuda")
        yield "faces", rows, torch.as_tensor(codes, device="cuda"), 2, (50, 200)
    torch.manual_seed(0)
    shapes = [(325_834, 173, 2, 30)] if quick else [(325_834, 173, 2, 30), (10_000_000, 50, 8, 10)]
    for m, n, k, r in shapes:
        scales = torch.linspace(3, 0.5, n, device="cuda", dtype=torch.float64)
        rows = torch.randn(m, n, dtype=torch.float64, device="cuda") * scales
        codes = torch.randint(0, k, (m,), device="cuda")
        rows[codes == 1] = rows[codes == 1].flip(1)
        yield f"{m:,} x {n}", rows, codes, k, (r,)


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Return one line for each table and rank, in milliseconds."""
    # scikit-learn asks SciPy for this before it takes tensors.
    os.environ["SCIPY_ARRAY_API"] = "1"
    import sklearn
    import torch
    from sklearn.decomposition import PCA

    if not torch.cuda.is_available():
        raise SystemExit("benchmarks device: needs PyTorch with a CUDA device.")

    def timed(task: Callable[[], Any]) -> tuple[float, Any]:
        taken, found = [], task()
        for _ in range(5):
            torch.cuda.synchronize()
            began = time.perf_counter()
            found = task()
            torch.cuda.synchronize()
            taken.append(1e3 * (time.perf_counter() - began))
        return float(np.median(taken)), found

    lines = []
    for name, X, codes, k, ranks in _tables(torch, quick):
        labels = tuple(f"group {i}" for i in range(k))
        for r in ranks:
            say(f"measuring {name}, {r} components ...")
            product, _ = timed(lambda X=X: X.T @ X)
            count, moments = timed(lambda X=X, c=codes, names=labels: count_moments(X, c, names))
            solve, model = timed(lambda r=r, moments=moments: FairPCA(r).fit_moments(moments))
            with sklearn.config_context(array_api_dispatch=True):
                pca, _ = timed(lambda r=r, X=X: PCA(r, svd_solver="covariance_eigh").fit(X))
            lines.append(
                {
                    "rows": name,
                    "groups": k,
                    "r": r,
                    "X.T @ X ms": product,
                    "counting ms": count,
                    "solving ms": solve,
                    "PCA there ms": pca,
                    "gap": model.certificate_.gap,
                }
            )
        del X
    device = torch.cuda.get_device_name()
    say(f"{device}, PyTorch {torch.__version__}, scikit-learn {sklearn.__version__}")
    return lines
