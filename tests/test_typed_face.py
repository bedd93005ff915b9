"""A user's script with the public calls passes ``mypy --strict``."""

import inspect
import pkgutil
import re
import subprocess
import sys

import pytest

import fairpca

SCRIPT = """
from pathlib import Path

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import fairpca
from fairpca import methods, metrics, plots

rng = np.random.default_rng(0)
X: NDArray[np.float64] = rng.normal(size=(90, 4))
labels: list[str] = ["a", "b", "c"] * 30
model: fairpca.FairPCA = fairpca.FairPCA(2, shrinkage="auto", max_harm=0.02)
model = model.fit(X, sensitive_features=labels, sample_weight=np.ones(90))
losses: NDArray[np.float64] = model.group_losses_
proof: fairpca.Certificate = model.certificate_
optimal: bool = proof.optimal
Z = model.inverse_transform(model.transform(X))
moments: fairpca.GroupMoments = fairpca.GroupMoments.from_array(X, labels)
same: fairpca.FairPCA = fairpca.FairPCA(2).fit_moments(moments.merge(moments))
solution: fairpca.Solution = fairpca.solve(moments.covariances, 1, criterion="error")
bound = fairpca.phi(moments.covariances, 1, np.full(3, 1 / 3))
path: fairpca.ComponentPath = fairpca.component_path(moments)
crossed: fairpca.CrossFit = fairpca.cross_fit(X, labels, n_components=2, blocks=range(90))
low: NDArray[np.float64] = crossed.change("FairPCA", than="PCA").low
audit: fairpca.Audit = fairpca.audit(X, labels, 2, reducers={"mine": model}, ranks=[1, 2])
kind: str = audit.advice.kind
page: str = audit.to_html(Path("page.html"), title="A table")
worst: float = audit.at("PCA", on="new").worst_loss
place: int | None = fairpca.compare(X, labels, [model])["FairPCA"].place
errors: NDArray[np.float64] = metrics.group_errors(model, X, sensitive_features=labels)
gap: float = metrics.mean_gap(model, X, sensitive_features=labels)
errors = metrics.findings([[1.0, 0.0, 0.0, 0.0]], moments).error
sparse = fairpca.FairPCA(2).fit(scipy.sparse.csr_array(X), sensitive_features={"side": labels})
other = methods.BalancedPCA(2).fit(X, sensitive_features=labels)
folds: fairpca.Audit = fairpca.audit([moments, moments], reducers=[other])
display: plots.GroupLossDisplay = audit.plot()
apart = fairpca.MaxMinDistanceAnalysis(2).fit(X, labels)
frame = model.groups_frame()
audit.verdict().upper()
"""


@pytest.mark.slow
def test_a_script_with_the_public_calls_passes_mypy(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    code = ["-m", "mypy", "--strict", "--follow-imports=silent", str(tmp_path / "script.py")]
    done = subprocess.run([sys.executable, *code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_same_script_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(SCRIPT, "script.py", "exec"), {"__name__": "script"})
    assert fairpca.__version__


def _annotations(thing, name):
    """Yield the places of a public name's face, each with its annotation as written."""
    if inspect.ismodule(thing):
        for public in getattr(thing, "__all__", ()):
            yield from _annotations(pkgutil.resolve_name(f"{name}.{public}"), f"{name}.{public}")
    elif inspect.isclass(thing):
        for base in [base for base in thing.__mro__ if base.__module__.startswith("fairpca")]:
            noted = inspect.get_annotations(base)
            for member in [n for n in noted | vars(base) if n == "__init__" or n[0] != "_"]:
                yield f"{base.__name__}.{member}", noted.get(member)
                yield from _annotations(vars(base).get(member), f"{base.__name__}.{member}")
    else:
        for wrapping in ("fget", "func", "__func__"):
            thing = getattr(thing, wrapping, thing)
        if inspect.isfunction(thing):
            signature = inspect.signature(thing)
            yield f"{name}()", signature.return_annotation
            for given in [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]:
                yield f"{name}({given.name})", given.annotation


def test_hardly_a_public_annotation_is_any():
    found = dict(_annotations(fairpca, "fairpca"))
    vague = [place for place, written in found.items() if re.search(r"\bAny\b", str(written))]
    assert len(found) > 500
    assert len(vague) <= 12, vague
