"""Single cells: the PCA of scanpy with one group, and what several batches get."""

import anndata as ad
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import fairpca.scverse
from fairpca import FairPCA

KEY = "X_fairpca"
# Scanpy takes seconds to import; anndata sets an option of pandas that pandas 3 no longer has.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment' option"),
]


def counts(m=220, n=240, seed=0):
    """Sparse counts of two batches, ten to one, that differ in which genes vary."""
    rng = np.random.default_rng(seed)
    small = np.arange(m) % 11 == 10
    programmes = rng.gamma(0.5, 2.0, (2, 6, n)) * (rng.random((2, 6, n)) < 0.1)
    rate = 0.05 + np.einsum("mp,mpn->mn", rng.gamma(0.5, 1.0, (m, 6)), programmes[small * 1])
    return np.log1p(rng.poisson(rate).astype(float)), small


@pytest.fixture(scope="module")
def cells():
    """The counts, and what is known of cells and genes; texts that every version can write."""
    X, small = counts()
    obs = pd.DataFrame(index=pd.Index([f"c{i}" for i in range(len(X))], dtype=object))
    obs["batch"] = pd.Categorical.from_codes(small * 1, pd.Index(["large", "small"], dtype=object))
    obs["all"] = 1
    obs["half"] = np.arange(len(X)) % 2
    var = pd.DataFrame(index=pd.Index([f"g{j}" for j in range(X.shape[1])], dtype=object))
    var["chosen"] = np.arange(X.shape[1]) % 3 > 0
    return X, obs, var


def annotated(cells, make=np.asarray, **more):
    X, obs, var = cells
    return ad.AnnData(make(X), obs=obs.copy(), var=var.copy(), **more)


def assert_same_up_to_sign(ours, theirs):
    signs = np.sign(np.sum(ours.varm[KEY] * theirs.varm["sc"], axis=0))
    np.testing.assert_allclose(ours.varm[KEY], theirs.varm["sc"] * signs, atol=1e-6)
    scale = np.abs(theirs.obsm["sc"]).max()
    np.testing.assert_allclose(ours.obsm[KEY], theirs.obsm["sc"] * signs, atol=1e-6 * scale)
    for name in ("variance", "variance_ratio"):
        np.testing.assert_allclose(ours.uns[KEY][name], theirs.uns["sc"][name], rtol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix, sp.csr_array])
def test_one_group_is_the_pca_of_scanpy(cells, make):
    import scanpy as sc

    adata = annotated(cells, make, layers={"twice": sp.csr_matrix(2 * cells[0] ** 2)})
    for options in ({}, {"mask_var": "chosen"}, {"layer": "twice"}):
        fairpca.scverse.pca(adata, 8, groupby="all", **options)
        sc.pp.pca(adata, 8, key_added="sc", svd_solver="arpack", **options)
        assert_same_up_to_sign(adata, adata)
        assert adata.obsm[KEY].dtype == adata.obsm["sc"].dtype == np.float32
        if "mask_var" in options:
            assert not adata.varm[KEY][~adata.var["chosen"]].any()


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix])
@pytest.mark.parametrize("mask", [None, "chosen"])
def test_files_that_stay_on_the_disk(cells, make, mask, tmp_path, monkeypatch):
    monkeypatch.setattr(fairpca.scverse, "_CELLS", 37)
    annotated(cells, make).write_h5ad(tmp_path / "cells.h5ad")
    backed, memory = ad.read_h5ad(tmp_path / "cells.h5ad", backed="r"), annotated(cells)
    for adata in (backed, memory):
        fairpca.scverse.pca(adata, 8, groupby="batch", mask_var=mask)
    np.testing.assert_allclose(backed.varm[KEY], memory.varm[KEY], atol=1e-7)
    np.testing.assert_allclose(backed.obsm[KEY], memory.obsm[KEY], atol=1e-4)
    for refused in (lambda: backed, lambda: backed[10:100]):
        with pytest.raises(ValueError, match=r"adata\.to_memory"):
            fairpca.scverse.pca(refused(), 3, groupby="batch", copy=True)
    backed.file.close()


def test_what_is_stored_survives_a_file(cells, tmp_path):
    adata = annotated(cells, sp.csr_matrix)
    options = {"mask_var": "chosen", "shrinkage": "auto", "max_harm": 0.1}
    assert fairpca.scverse.pca(adata, 5, groupby=["batch", "half"], **options) is None
    found = adata.uns[KEY]
    assert found["groups"][["batch", "half"]].to_numpy().tolist() == [
        ["large", "0"], ["large", "1"], ["small", "0"], ["small", "1"],
    ]  # fmt: skip
    assert found["groups"].index[2] == "small, 0"
    assert found["groups"]["cells"].sum() == adata.n_obs
    assert found["certificate"]["lower_bound"] <= found["certificate"]["value"]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = ad.read_h5ad(tmp_path / "cells.h5ad").uns[KEY]
    np.testing.assert_array_equal(again["groups"]["losses"], found["groups"]["losses"])
    assert again["certificate"]["value"] == found["certificate"]["value"]
    assert again["params"]["groupby"].tolist() == ["batch", "half"]


@pytest.mark.parametrize("lazy", [False, True])
def test_it_is_fair_pca_of_the_same_rows_and_projects_new_cells(cells, lazy):
    import dask.array as da

    make = (lambda X: da.from_array(X, chunks=(60, X.shape[1]))) if lazy else np.asarray
    adata = annotated(cells, make)
    other = fairpca.scverse.pca(
        adata, 5, groupby="batch", criterion="error", key_added="mine", copy=True
    )
    assert "mine" not in adata.obsm
    model = FairPCA(5, criterion="error").fit(cells[0], sensitive_features=adata.obs["batch"])
    np.testing.assert_allclose(other.varm["mine"], model.components_.T, atol=1e-9)
    np.testing.assert_allclose(other.uns["mine"]["groups"]["errors"], model.group_errors_)
    new = counts(seed=0)[0][:7] + 0.25
    projected = (new - other.uns["mine"]["mean"]) @ other.varm["mine"]
    np.testing.assert_allclose(projected, model.transform(new), atol=1e-9)


def test_neighbours_of_the_cells_that_scanpy_ships():
    import scanpy as sc

    adata = sc.datasets.pbmc68k_reduced()
    fairpca.scverse.pca(adata, 10, groupby="bulk_labels", mask_var="highly_variable")
    sc.pp.neighbors(adata, use_rep=KEY, method="gauss")
    assert adata.obsp["connectivities"].shape == (700, 700)
    assert adata.uns[KEY]["params"]["use_highly_variable"]
    # A batch without cells of some declared category.
    few = adata[adata.obs["bulk_labels"].isin(["Dendritic", "CD34+"])].copy()
    few.obs["kind"] = pd.Categorical(
        few.obs["bulk_labels"], adata.obs["bulk_labels"].cat.categories
    )
    fairpca.scverse.pca(few, 3, groupby="kind")
    assert few.uns[KEY]["groups"].index.tolist() == ["CD34+", "Dendritic"]


def test_wrong_arguments_are_named(cells):
    adata = annotated(cells)
    adata.obs["gaps"] = np.where(np.arange(adata.n_obs) % 200 == 1, np.nan, 1.0)
    for change, match in [
        ({"groupby": "site"}, "adata.obs has no 'site'; it has .*'batch'"),
        ({"groupby": "gaps"}, "2 missing label"),
        ({"layer": "raw"}, "adata.layers has no 'raw'"),
        ({"mask_var": "best"}, "adata.var has no 'best'"),
        ({"n_comps": 0}, "=0 must be between 1"),
        ({"criterion": "best"}, "criterion='best'"),
    ]:
        with pytest.raises(ValueError, match=match):
            fairpca.scverse.pca(adata, **{"groupby": "batch", "n_comps": 3, **change})
