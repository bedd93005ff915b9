"""Where vectors go: faiss, sentence-transformers and ONNX give what `transform` gives."""

import sys

import numpy as np
import pytest

from fairpca import FairPCA, methods
from fairpca.metrics import neighbours_kept

from tables import about_own_means


@pytest.fixture(scope="module", params=[False, True])
def model(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 20)) * np.linspace(3, 0.5, 20) + 2
    return FairPCA(5, whiten=request.param).fit(X, sensitive_features=np.arange(len(X)) % 3), X


@pytest.mark.slow
def test_faiss(model):
    faiss = pytest.importorskip("faiss")
    reducer, X = model
    X = X.astype(np.float32)
    transform, Z = reducer.to_faiss(), reducer.transform(X)
    np.testing.assert_allclose(transform.apply(X), Z, atol=1e-4)
    # What is rounded to float32 there is the same map.
    rows, shift = reducer._affine()
    np.testing.assert_allclose(X.astype(float) @ rows.T + shift, Z, atol=1e-6)
    index = faiss.IndexPreTransform(transform, faiss.IndexFlatL2(5))
    index.add(X)
    found = index.search(X[:20], 3)[1]
    nearest = np.argsort(((Z[:20, None] - Z) ** 2).sum(axis=2), axis=1)[:, :3]
    assert np.mean(found == nearest) > 0.98
    other = methods.BalancedPCA(2).fit(X, sensitive_features=np.arange(len(X)) % 2)
    np.testing.assert_allclose(other.to_faiss().apply(X), other.transform(X), atol=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_sentence_transformers(model):
    torch = pytest.importorskip("torch")
    pytest.importorskip("sentence_transformers")
    reducer, X = model
    layer, rows = reducer.to_sentence_transformers(), torch.tensor(X, dtype=torch.float32)
    found = layer({"sentence_embedding": rows})["sentence_embedding"].detach().numpy()
    np.testing.assert_allclose(found, reducer.transform(X), atol=1e-4)


@pytest.mark.slow
def test_onnx(model):
    convert, run = pytest.importorskip("skl2onnx"), pytest.importorskip("onnxruntime")
    reducer, X = model
    X = X.astype(np.float32)
    session = run.InferenceSession(
        convert.to_onnx(reducer.to_sklearn(), X[:1]).SerializeToString()
    )
    (found,) = session.run(None, {session.get_inputs()[0].name: X})
    np.testing.assert_allclose(found, reducer.transform(X), atol=1e-4)


@pytest.mark.parametrize("export", ["to_faiss", "to_sentence_transformers"])
def test_a_missing_library_is_named(model, export, monkeypatch):
    for name in ("faiss", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf'{export} needs .*pip install "fairpca\[vectors\]"'):
        getattr(model[0], export)()


@pytest.mark.parametrize("distinct", [True, False])
def test_neighbours_kept_against_all_pairs(distinct):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 6)) * [4, 3, 2, 1, 1, 1] + 1e4
    labels = rng.choice(["a", "b", "c"], 600)
    if not distinct:
        # Many rows are equal: whichever of those at one distance is found counts.
        X = np.round(X / 4)
    reducer = about_own_means(3).fit(X, sensitive_features=labels)
    Z, k = reducer.transform(X), 7
    far, near = (((rows[:, None] - rows) ** 2).sum(axis=2) for rows in (X, Z))
    for distances in (far, near):
        np.fill_diagonal(distances, np.inf)
    limit = np.sort(far, axis=1)[:, k - 1 : k] * (1 + 1e-9)
    closest = np.argsort(near, axis=1, kind="stable")[:, :k]
    hits = np.mean(np.take_along_axis(far, closest, axis=1) <= limit, axis=1)
    expected = [hits[labels == label].mean() for label in "abc"]
    found = neighbours_kept(reducer, X, labels, k)
    np.testing.assert_allclose(found, expected, atol=1e-12 if distinct else 0.05)
    # Rotations and shifts keep all neighbours.
    turned = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    np.testing.assert_array_equal(neighbours_kept(turned, X, labels, k), 1)
    with pytest.raises(ValueError, match="k=600 neighbours need more than 600 rows"):
        neighbours_kept(reducer, X, labels, 600)
