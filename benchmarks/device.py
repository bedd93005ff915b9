"""Rows on an accelerator: a fit there beside PCA there and beside a fit on the processor.

``python -m benchmarks device`` needs PyTorch with a CUDA device. Times are medians of five, with
the device waited for; rows and labels are tensors on it. "PCA there" is scikit-learn's PCA with
``svd_solver="covariance_eigh"`` on the same tensor, under ``array_api_dispatch``. "processor" is
one fit of the same rows as a NumPy array, on all cores. The last line counts 50 GB of rows in
single precision that pass through the device in batches; beside it stands the copy alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.race import say
from fairpca import FairPCA, GroupMoments

# Columns up to which a fit on the processor is made too; it takes minutes past that.
_PROCESSOR_TO = 5000


def _tables(torch: Any, quick: bool) -> Iterator[tuple[str, Any, Any, int, tuple[int, ...]]]:
    """Yield a name, rows, codes, the number of groups and the ranks."""
    if not quick:
        from fairpca.datasets import fetch_lfw_faces

        faces = fetch_lfw_faces(download_if_missing=False)
        codes = np.unique(np.asarray(faces.sensitive_features).ravel(), return_inverse=True)[1]
        rows = torch.as_tensor(np.asarray(faces.data, dtype=float), device="cuda")
        yield "faces", rows, torch.as_tensor(codes, device="cuda"), 2, (50, 200)
    torch.manual_seed(0)
    shapes = [(325_834, 173, 2, 30)]
    shapes += [] if quick else [(10_000_000, 50, 8, 10), (20_000, 8_000, 2, 50)]
    for m, n, k, r in shapes:
        scales = torch.linspace(3, 0.5, n, device="cuda", dtype=torch.float64)
        rows = torch.randn(m, n, dtype=torch.float64, device="cuda") * scales
        codes = torch.randint(0, k, (m,), device="cuda")
        rows[codes == 1] = rows[codes == 1].flip(1)
        yield f"{m:,} x {n}", rows, codes, k, (r,)


def _streamed(torch: Any, gigabytes: int = 50) -> dict[str, Any]:
    """Return the line of a table in host memory that is copied to the device in batches."""
    m, n = 2_500_000, 100
    rng = np.random.default_rng(0)
    batch = rng.standard_normal((m // 10, n), dtype=np.float32)
    batch *= np.linspace(3, 0.5, n, dtype=np.float32)
    say(f"filling {gigabytes} GB of memory ...")
    table = np.empty((gigabytes, m, n), dtype=np.float32)
    for part in table.reshape(-1, *batch.shape):
        part[:] = batch
    labels = rng.integers(0, 2, m)
    place = torch.empty(0, device="cuda")

    def copied() -> None:
        for rows in table:
            torch.as_tensor(rows, device="cuda")

    def counted() -> GroupMoments:
        return GroupMoments.from_batches(((rows, labels) for rows in table), like=place)

    taken: dict[str, list[float]] = {"copy": [], "count": []}
    say("measuring the copy and the count ...")
    for _ in range(3):
        for name, task in (("copy", copied), ("count", counted)):
            torch.cuda.synchronize()
            began = time.perf_counter()
            task()
            torch.cuda.synchronize()
            taken[name].append(1e3 * (time.perf_counter() - began))
    copy, count = (float(np.median(taken[name])) for name in ("copy", "count"))
    say(f"copy {taken['copy']} ms, count {taken['count']} ms")
    return {
        "rows": f"{gigabytes * m:,} x {n}, {gigabytes} GB in batches",
        "groups": 2,
        "copy alone ms": copy,
        "counted ms": count,
    }


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
        here, labels = X.cpu().numpy(), codes.cpu().numpy()
        for r in ranks:
            say(f"measuring {name}, {r} components ...")
            product, _ = timed(lambda X=X: X.T @ X)
            with sklearn.config_context(array_api_dispatch=True):
                fit, model = timed(
                    lambda r=r, X=X, c=codes: FairPCA(r).fit(X, sensitive_features=c)
                )
                pca, _ = timed(lambda r=r, X=X: PCA(r, svd_solver="covariance_eigh").fit(X))
            alone = apart = np.nan
            if X.shape[1] <= _PROCESSOR_TO:
                began = time.perf_counter()
                plain = FairPCA(r).fit(here, sensitive_features=labels)
                alone = 1e3 * (time.perf_counter() - began)
                found = model.components_.cpu().numpy()
                apart = np.abs(found.T @ found - plain.components_.T @ plain.components_).max()
            lines.append(
                {
                    "rows": name,
                    "groups": k,
                    "r": r,
                    "X.T @ X ms": product,
                    "fit there ms": fit,
                    "PCA there ms": pca,
                    "processor ms": alone,
                    "gap": model.certificate_.gap,
                    "apart": float(apart),
                }
            )
        del X
    if not quick:
        lines.append(_streamed(torch))
    device = torch.cuda.get_device_name()
    say(f"{device}, PyTorch {torch.__version__}, scikit-learn {sklearn.__version__}")
    return lines
