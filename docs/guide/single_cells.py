"""The numbers of docs/guide/single_cells.md: what a small batch gets from three projections.

Run with the extra `scverse` and scanpy: ``python docs/guide/single_cells.py`` for the table,
``... umap`` for neighbours and UMAP, ``... time`` for the time on 50,000 sparse cells, ``... new``
for what their small batch gets on new cells.
"""

import sys
import time
import warnings

import anndata as ad
import numpy as np
import scanpy as sc
import scipy.sparse as sp

import fairpca.scverse
from fairpca import FairPCA, GroupMoments, NoisyGroupWarning, cross_fit
from fairpca.methods import BalancedPCA
from fairpca.metrics import group_errors

FITS = {"PCA": FairPCA(shrinkage=1.0), "balanced PCA": BalancedPCA(), "FairPCA": FairPCA()}


def synthetic(m=50_000, n=2_000, seed=0, kept=0.45):
    """Return log-normalised counts of two batches, ten to one, and which cells the small one has.

    Both have 20 programmes of genes in common and 20 of their own.
    """
    rng = np.random.default_rng(seed)
    small = np.arange(m) % 11 == 10
    base = rng.gamma(0.3, 0.2, n)
    common, *own = (rng.gamma(0.3, 1.0, (20, n)) * (rng.random((20, n)) < 0.05) for _ in range(3))
    blocks = []
    for start in range(0, m, 5000):
        inside = small[start : start + 5000]
        uses = rng.gamma(0.5, 0.3, (2, len(inside), 20))
        rate = (
            base + uses[0] @ common + np.where(inside[:, None], uses[1] @ own[1], uses[1] @ own[0])
        )
        counts = rng.binomial(rng.poisson(rate), kept)
        block = sp.csr_matrix(counts, dtype=np.float32)
        totals = np.maximum(np.asarray(block.sum(axis=1)).ravel(), 1)
        block = sp.csr_matrix(sp.diags((1e3 / totals).astype(np.float32)) @ block)
        block.data = np.log1p(block.data)
        blocks.append(block)
    return sp.vstack(blocks).tocsr(), small


def ten_to_one():
    """Return 240 dendritic cells and 24 B cells of those that scanpy ships."""
    adata = sc.datasets.pbmc68k_reduced()
    labels = adata.obs["bulk_labels"].astype(str).to_numpy()
    rows = np.r_[np.flatnonzero(labels == "Dendritic"), np.flatnonzero(labels == "CD19+ B")[:24]]
    return adata.X[rows].astype(float), labels[rows]


def table(title, X, labels, r, group=None):
    """Print worst loss, loss and error of one group, in hand and on new cells."""
    in_hand = {
        name: fit.set_params(n_components=r).fit(X, sensitive_features=labels)
        for name, fit in FITS.items()
    }
    new = cross_fit(X, labels, r, fits=FITS)
    g = in_hand["PCA"].groups_.index(group) if group is not None else None
    print(f"\n{title}, {r} components")
    for f, name in enumerate(FITS):
        model = in_hand[name]
        losses, errors = new.losses[f, 0], new.errors[f, 0]
        at = int(np.nanargmax(new.losses[0, 0])) if g is None else g
        line = [model.group_losses_.max(), model.group_losses_[at], np.nanmax(losses), losses[at]]
        line += [errors[at], float(np.average(errors, weights=new.counts))]
        print(f"{name:14s}", *(f"{value:10.3f}" for value in line), model.groups_[at])
    for name in ("balanced PCA", "FairPCA"):
        gain = new.improvement(name, "PCA")
        print(f"  {name} over PCA: {gain.value:.3f} ({gain.low:.3f} to {gain.high:.3f})")
    gain = new.improvement("FairPCA", "balanced PCA")
    print(f"  FairPCA over balanced PCA: {gain.value:.3f} ({gain.low:.3f} to {gain.high:.3f})")


def timing(rounds=3):
    """Print the time of `scanpy.pp.pca` with ARPACK and of ours, by turns."""
    X, small = synthetic()
    adata = ad.AnnData(X)
    adata.obs["small"] = small
    print(f"{X.shape} {X.nnz / np.prod(X.shape):.3f} of the entries stored, {X.dtype}")
    for _ in range(rounds):
        begin = time.perf_counter()
        sc.pp.pca(adata, 50, svd_solver="arpack")
        middle = time.perf_counter()
        fairpca.scverse.pca(adata, 50, groupby="small")
        end = time.perf_counter()
        print(f"scanpy {middle - begin:.1f} s, ours {end - middle:.1f} s", flush=True)
    print(adata.uns["X_fairpca"]["certificate"]["text"])
    print(adata.uns["X_fairpca"]["groups"][["cells", "loss", "error"]])


def new_cells():
    """Print the error of the small batch in the half of 50,000 cells that no fit has seen."""
    X, small = synthetic()
    half = np.arange(len(small)) % 2 == 0
    old, new = (GroupMoments.from_array(X[rows], small[rows]) for rows in (half, ~half))
    for name, fit in FITS.items():
        model = fit.set_params(n_components=50).fit_moments(old)
        errors = group_errors(model, new)
        print(f"{name:14s} losses in hand {model.group_losses_}, errors on new cells {errors}")


def umap():
    """Run what follows a PCA in scanpy."""
    adata = sc.datasets.pbmc68k_reduced()
    fairpca.scverse.pca(adata, 20, groupby="bulk_labels", mask_var="highly_variable")
    sc.pp.neighbors(adata, use_rep="X_fairpca")
    sc.tl.umap(adata)
    print(adata.obsm["X_umap"].shape, np.isfinite(adata.obsm["X_umap"]).all())


if __name__ == "__main__":
    warnings.simplefilter("ignore", NoisyGroupWarning)
    if "umap" in sys.argv:
        umap()
    elif "time" in sys.argv:
        timing()
    elif "new" in sys.argv:
        new_cells()
    else:
        print("worst loss, loss of the group in hand; worst loss, loss, error of it, error on new")
        adata = sc.datasets.pbmc68k_reduced()
        X = adata.X[:, adata.var["highly_variable"]].astype(float)
        table("pbmc68k_reduced, ten cell types", X, adata.obs["bulk_labels"].astype(str), 20)
        X, labels = ten_to_one()
        table("240 dendritic, 24 B cells", X, labels, 10, "CD19+ B")
        X, small = synthetic(11_000, 500)
        table("11,000 x 500, ten to one", X.toarray().astype(float), small, 20, True)
