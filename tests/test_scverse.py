"""Single cells: the PCA of scanpy with one group, and what several batches get."""

import anndata as ad
import numpy as np
import pandas as pd
import pytest
import scanpy as sc
import scipy.sparse as sp
from sklearn.decomposition import PCA

import fairpca.scverse
from fairpca import FairPCA
from fairpca.methods import BalancedPCA
from fairpca.moments import memory

KEY = "X_fairpca"
# anndata sets an option of pandas that pandas 3 no longer has.
pytestmark = pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment' option")


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
    var["few"] = np.arange(X.shape[1]) % 15 == 0
    return X, obs, var


def annotated(cells, make=np.asarray, **more):
    X, obs, var = cells
    return ad.AnnData(make(X), obs=obs.copy(), var=var.copy(), **more)


def stored(cells, path, make):
    """Return the cells in a file that is open."""
    annotated(cells, make).write_h5ad(path)
    return ad.read_h5ad(path, backed="r")


def assert_same_up_to_sign(ours, theirs, key=KEY):
    signs = np.sign(np.sum(ours.varm[key] * theirs.varm["sc"], axis=0))
    np.testing.assert_allclose(ours.varm[key], theirs.varm["sc"] * signs, atol=1e-6)
    scale = np.abs(theirs.obsm["sc"]).max()
    np.testing.assert_allclose(ours.obsm[key], theirs.obsm["sc"] * signs, atol=1e-6 * scale)
    for name in ("variance", "variance_ratio"):
        np.testing.assert_allclose(ours.uns[key][name], theirs.uns["sc"][name], rtol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix, sp.csr_array])
@pytest.mark.parametrize("mask", [None, "chosen"])
def test_one_group_is_the_pca_of_scanpy(cells, make, mask):
    adata = annotated(cells, make)
    fairpca.scverse.pca(adata, "all", 8, mask_var=mask)
    sc.pp.pca(adata, 8, mask_var=mask, key_added="sc", svd_solver="arpack")
    assert_same_up_to_sign(adata, adata)
    assert adata.obsm[KEY].dtype == adata.obsm["sc"].dtype == np.float32
    if mask:
        assert not adata.varm[KEY][~adata.var["chosen"]].any()


def test_one_group_of_a_layer_is_the_pca_of_scanpy(cells):
    adata = annotated(cells, layers={"twice": sp.csr_matrix(2 * cells[0] ** 2)})
    fairpca.scverse.pca(adata, "all", 8, layer="twice")
    sc.pp.pca(adata, 8, layer="twice", key_added="sc")
    assert_same_up_to_sign(adata, adata)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix])
@pytest.mark.parametrize("mask", [None, "chosen"])
def test_files_that_stay_on_the_disk(cells, make, mask, tmp_path, monkeypatch):
    # A few rows at a time, so that there are many pieces.
    monkeypatch.setattr(fairpca.scverse, "_PIECE", 5000)
    backed = stored(cells, tmp_path / "cells.h5ad", make)
    fairpca.scverse.pca(backed, "all", 8, mask_var=mask)
    memory = annotated(cells)
    sc.pp.pca(memory, 8, mask_var=mask, key_added="sc")
    assert_same_up_to_sign(backed, memory)
    fairpca.scverse.pca(backed, "batch", 8, mask_var=mask)
    fairpca.scverse.pca(memory, "batch", 8, mask_var=mask)
    mine, theirs = (a.uns[KEY]["groups"] for a in (backed, memory))
    np.testing.assert_allclose(mine["loss"], theirs["loss"], rtol=1e-7)
    np.testing.assert_allclose(backed.obsm[KEY], memory.obsm[KEY], atol=1e-4)
    backed.file.close()


def test_a_sparse_file_is_multiplied_with_or_counted(cells, tmp_path, monkeypatch):
    """Both ways of knowing covariances give the same; for products no piece is made dense."""
    backed = stored(cells, tmp_path / "cells.h5ad", sp.csr_matrix)
    monkeypatch.setattr(fairpca.scverse, "_PIECE", 5000)
    monkeypatch.setattr(fairpca.covariances.implicit, "_SPARSE_FROM", 0)
    dense = []
    as_array = sp.csr_array.toarray
    monkeypatch.setattr(
        sp.csr_array, "toarray", lambda self: dense.append(self.shape[1]) or as_array(self)
    )
    solved = []
    for factor in (0, 1000):
        monkeypatch.setattr(fairpca.covariances.implicit, "_ENTRIES", factor)
        fairpca.scverse.pca(backed, "batch", 8)
        solved.append(backed.uns[KEY]["certificate"])
        # Where rows are multiplied with, columns far from zero alone are dense: here are none.
        assert any(dense) == (factor > 0)
    assert solved[0]["value"] == pytest.approx(solved[1]["value"], rel=1e-9)
    assert solved[0]["optimal"]
    backed.file.close()


def test_what_is_stored_survives_a_file(cells, tmp_path):
    adata = annotated(cells, sp.csr_matrix)
    fairpca.scverse.pca(adata, ["batch", "half"], 5, mask_var="chosen", shrinkage="auto")
    found = adata.uns[KEY]
    assert found["groups"][["batch", "half"]].to_numpy().tolist() == [
        ["large", "0"], ["large", "1"], ["small", "0"], ["small", "1"],
    ]  # fmt: skip
    assert found["groups"]["cells"].sum() == adata.n_obs
    assert found["groups"]["weight"].sum() == pytest.approx(1)
    assert found["certificate"]["lower_bound"] <= found["certificate"]["value"]
    assert found["params"]["groupby"] == ["batch", "half"]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = ad.read_h5ad(tmp_path / "cells.h5ad").uns[KEY]
    np.testing.assert_array_equal(again["groups"]["loss"], found["groups"]["loss"])
    assert again["certificate"]["value"] == found["certificate"]["value"]
    assert again["params"]["criterion"] == "loss"


def test_it_is_fair_pca_of_the_same_rows_and_projects_new_cells(cells):
    adata = annotated(cells)
    fairpca.scverse.pca(adata, "batch", 5, criterion="error", key_added="mine")
    model = FairPCA(5, criterion="error").fit(cells[0], sensitive_features=adata.obs["batch"])
    np.testing.assert_allclose(adata.varm["mine"], model.components_.T, atol=1e-9)
    np.testing.assert_allclose(adata.uns["mine"]["groups"]["error"], model.group_errors_)
    new = counts(seed=0)[0][:7] + 0.25
    projected = (new - adata.uns["mine"]["mean"]) @ adata.varm["mine"]
    np.testing.assert_allclose(projected, model.transform(new), atol=1e-9)


def test_the_small_batch_gains_over_pca_and_over_balanced_pca_on_new_cells():
    X, small = counts(m=2200, n=100)
    old = np.arange(2200) % 2 == 0
    adata = ad.AnnData(X[old])
    adata.obs["small"] = small[old]
    fairpca.scverse.pca(adata, "small", 6)
    bases = {
        "PCA": PCA(6).fit(X[old]).components_,
        "balanced": BalancedPCA(6).fit(X[old], sensitive_features=small[old]).components_,
        "fair": adata.varm[KEY].T,
    }
    new = (X - X[old].mean(axis=0))[~old & small]
    errors = {
        name: np.mean(np.sum((new - new @ U.T @ U) ** 2, axis=1)) for name, U in bases.items()
    }
    assert errors["fair"] < errors["PCA"]
    worst = {
        name: fairpca.metrics.group_losses(U, X[old], sensitive_features=small[old]).max()
        for name, U in bases.items()
    }
    assert worst["fair"] < worst["balanced"] < worst["PCA"]


def test_neighbours_of_the_cells_that_scanpy_ships():
    adata = sc.datasets.pbmc68k_reduced()
    assert fairpca.scverse.pca(adata, "bulk_labels", 10, mask_var="highly_variable") is None
    sc.pp.neighbors(adata, use_rep=KEY, method="gauss")
    assert adata.obsp["connectivities"].shape == (700, 700)
    params = adata.uns[KEY]["params"]
    assert params["use_highly_variable"]
    pca = sc.pp.pca(adata, 10, copy=True).varm["PCs"].T
    labels, X = adata.obs["bulk_labels"], adata.X.astype(float)
    used = adata.var["highly_variable"].to_numpy()
    worst = fairpca.metrics.group_losses(pca[:, used], X[:, used], sensitive_features=labels).max()
    assert adata.uns[KEY]["certificate"]["value"] < worst


def test_a_copy_leaves_the_cells_alone(cells):
    adata = annotated(cells)
    other = fairpca.scverse.pca(adata, "batch", 3, copy=True)
    assert KEY in other.obsm
    assert KEY not in adata.obsm


def test_categories_of_other_cells_are_no_mistake(cells):
    adata = annotated(cells)[cells[1]["batch"] == "large"].copy()
    adata.obs["batch"] = adata.obs["batch"].cat.add_categories(["elsewhere"])
    fairpca.scverse.pca(adata, "batch", 3)
    assert adata.uns[KEY]["groups"].index.tolist() == ["large"]


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_an_audit_of_cells(cells, make):
    adata = annotated(cells, make)
    options = {"ranks": [4], "n_bootstrap": 0, "leave_one_out": False}
    found = fairpca.scverse.audit(adata, "batch", 4, mask_var="few", **options)
    few = cells[0][:, adata.var["few"]]
    expected = fairpca.audit(few, cells[1]["batch"], 4, **options)
    np.testing.assert_allclose(found.at("FairPCA").loss, expected.at("FairPCA").loss, rtol=1e-7)
    assert found.group_columns == ("batch",)
    new, dense = (audit.new_rows.at("PCA").loss for audit in (found, expected))
    np.testing.assert_allclose(new, dense, rtol=1e-6)


def test_an_audit_of_a_file_reads_it_once(cells, tmp_path, monkeypatch):
    backed = stored(cells, tmp_path / "cells.h5ad", sp.csr_matrix)
    monkeypatch.setattr(fairpca.scverse, "_PIECE", 5000)
    options = {"mask_var": "few", "ranks": [4], "n_bootstrap": 0, "leave_one_out": False}
    found = fairpca.scverse.audit(backed, "batch", 4, **options)
    adata = annotated(cells, sp.csr_matrix)
    folds = fairpca.scverse._Cells.of(adata, "batch", None, options.pop("mask_var")).folds(5)
    memory = fairpca.audit(folds, None, 4, **options)
    for name in ("PCA", "FairPCA"):
        np.testing.assert_allclose(found.at(name).loss, memory.at(name).loss, rtol=1e-7)
        new, expected = (audit.new_rows.at(name).loss for audit in (found, memory))
        np.testing.assert_allclose(new, expected, rtol=1e-6)
    backed.file.close()


def test_rows_of_a_dask_array_stay_lazy_until_they_are_counted(cells):
    import dask.array as da

    adata = annotated(cells, lambda X: da.from_array(X, chunks=(60, X.shape[1])))
    memory = annotated(cells)
    for each in (adata, memory):
        fairpca.scverse.pca(each, ["batch", "half"], 3, mask_var="few")
    np.testing.assert_allclose(adata.varm[KEY], memory.varm[KEY], atol=1e-9)
    np.testing.assert_allclose(adata.obsm[KEY], memory.obsm[KEY], atol=1e-5)
    options = {"mask_var": "few", "ranks": [4], "n_bootstrap": 0, "leave_one_out": False}
    losses = [
        fairpca.scverse.audit(a, "batch", 4, **options).at("PCA").loss for a in (adata, memory)
    ]
    np.testing.assert_allclose(*losses, rtol=1e-7)


def test_an_audit_computes_every_chunk_of_a_dask_array_once(cells):
    """Slices of 500 rows computed a chunk of 4,000 ten times, and sparse chunks not at all."""
    import dask.array as da

    computed = []

    def sparse(chunk):
        computed.append(chunk.shape)
        return sp.csr_matrix(chunk)

    def lazy(X):
        rows = da.from_array(X, chunks=(60, X.shape[1]))
        return rows.map_blocks(sparse, dtype=X.dtype, meta=sp.csr_matrix((0, 0), dtype=X.dtype))

    adata, memory = annotated(cells, lazy), annotated(cells)
    options = {"mask_var": "few", "ranks": [4], "n_bootstrap": 0, "leave_one_out": False}
    for n_folds in (5, 0):
        computed.clear()
        got, want = (
            fairpca.scverse.audit(each, "batch", 4, n_folds=n_folds, **options)
            for each in (adata, memory)
        )
        np.testing.assert_allclose(got.at("PCA").loss, want.at("PCA").loss, rtol=1e-7)
        assert (got.new_rows is None) == (n_folds == 0)
        assert len(computed) == -(-adata.n_obs // 60)


def test_how_a_dask_array_is_cut_changes_no_audit(cells):
    import dask.array as da

    options = {"mask_var": "few", "ranks": [4], "n_bootstrap": 0, "leave_one_out": False}
    found = [
        fairpca.scverse.audit(
            annotated(cells, lambda X, rows=rows: da.from_array(X, chunks=(rows, X.shape[1]))),
            "batch",
            4,
            **options,
        )
        for rows in (60, 35)
    ]
    errors = (each.new_rows.at("PCA").error for each in found)
    np.testing.assert_allclose(*errors, rtol=1e-6)


def test_which_genes_were_used_can_be_written(cells, tmp_path):
    adata = annotated(cells)
    fairpca.scverse.pca(adata, "batch", 3, mask_var=adata.var["few"])
    np.testing.assert_array_equal(adata.uns[KEY]["params"]["mask_var"], adata.var["few"])
    adata.write_h5ad(tmp_path / "cells.h5ad")


def test_an_audit_says_when_genes_are_too_many(cells, monkeypatch):
    monkeypatch.setattr(memory, "default_limit", lambda: 10**5)
    with pytest.raises(MemoryError, match=r"240 genes in 2 group.*mask_var='highly_variable'"):
        fairpca.scverse.audit(annotated(cells, sp.csr_matrix), "batch", 3)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"groupby": "site"}, "groupby='site' is not in adata.obs; there are: 'batch'"),
        ({"groupby": []}, r"groupby=\[\] names no column"),
        ({"groupby": "gaps"}, "groupby='gaps' has no label for 2 cell.*'c1'.*notna"),
        ({"layer": "raw"}, "layer='raw' is not in adata.layers; there are: none"),
        ({"mask_var": "best"}, "mask_var='best' is not in adata.var; there are: 'chosen'"),
        ({"mask_var": np.ones(3)}, "mask_var has dtype float64"),
        ({"n_comps": 0}, "n_comps=0 must be an integer from 1"),
        ({"n_comps": 241}, "n_comps=241 .* 240"),
        ({"criterion": "best"}, "criterion='best'"),
        ({"adata": np.ones((3, 3))}, "adata is a ndarray"),
    ],
)
def test_wrong_arguments_are_named(cells, change, match):
    adata = annotated(cells)
    adata.obs["gaps"] = np.where(np.arange(adata.n_obs) % 200 == 1, np.nan, 1.0)
    arguments = {"adata": adata, "groupby": "batch", "n_comps": 3, **change}
    with pytest.raises(ValueError, match=match):
        fairpca.scverse.pca(**arguments)


def test_a_copy_of_an_open_file_is_refused(cells, tmp_path):
    backed = stored(cells, tmp_path / "cells.h5ad", np.asarray)
    with pytest.raises(ValueError, match="copy=True of a file"):
        fairpca.scverse.pca(backed, "batch", 3, copy=True)
    backed.file.close()


def test_a_part_of_an_open_file_is_refused_before_it_is_read(cells, tmp_path):
    opened = stored(cells, tmp_path / "cells.h5ad", np.asarray)
    with pytest.raises(ValueError, match=r"adata\.to_memory"):
        fairpca.scverse.pca(opened[10:100], "batch", n_comps=2)


def test_labels_may_have_the_name_of_a_number(cells):
    table = annotated(cells)
    table.obs["loss"] = table.obs["batch"].astype(str)
    fairpca.scverse.pca(table, "loss", n_comps=2)
    groups = table.uns["X_fairpca"]["groups"]
    assert list(groups["loss (2)"]) == ["large", "small"]
    assert groups["loss"].dtype == float
