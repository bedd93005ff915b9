"""Use the installed wheel as a person would who has the core dependencies and nothing else."""

import importlib.util
import pickle
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import fairpca
from fairpca import FairPCA, GroupMoments

# What every extra brings; all of them have to be absent for this to show anything.
EXTRAS = [
    "skops",
    "pandas",
    "matplotlib",
    "typer",
    "anndata",
    "xarray",
    "dask",
    "pyspark",
    "cvxpy",
]


def says(line, call, *arguments):
    """Check that a call fails for a missing library and says what to install."""
    said = f"nothing: {call} works without the extra {line}"
    try:
        call(*arguments)
    except ImportError as error:
        said = str(error)
    assert f'pip install ".[{line}]"' in said, said


def main():
    """Import, fit, transform, save, load; then ask for what is not there."""
    present = [name for name in EXTRAS if importlib.util.find_spec(name)]
    assert not present, f"not an empty environment: {present}"
    assert "site-packages" in fairpca.__file__, fairpca.__file__
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(200, 6)) * [3, 2, 1, 1, 1, 1], np.repeat(["a", "b"], 100)
    X[:100] = X[:100, ::-1]
    model = FairPCA(2).fit(X, sensitive_features=group)
    Z = model.transform(X)
    assert model.certificate_.optimal
    moments = GroupMoments.from_array(X, group)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "moments.npz")
        moments.save(path)
        again = FairPCA(2).fit_moments(GroupMoments.load(path))
        np.testing.assert_allclose(again.transform(X), Z, atol=1e-9)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), Z)
        says("app", fairpca.persistence.save_model, Path(folder, "model.skops"), model)
    fairpca.audit(X, group, 2)
    fairpca.methods.BalancedPCA(2).fit(X, sensitive_features=group)
    says("scverse", partial(fairpca.scverse.pca, None, 2, groupby="batch"))
    says("xarray", fairpca.xarray.FairEOF(2).fit, None)
    says("app", fairpca.compare(X, group, [FairPCA(2)]).to_frame)
    from fairpca.cli import run

    assert run(["--version"]) == 2, "the command line works without typer"
    print(f"fairpca {fairpca.__version__} works with Python {sys.version.split()[0]} alone")


if __name__ == "__main__":
    main()
