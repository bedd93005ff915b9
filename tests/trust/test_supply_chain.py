"""No network while importing or fitting, and the oldest versions we claim are those we test."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

OFFLINE = """
import sys

def hook(event, arguments):
    # The interpreter itself reports every use of a socket, whatever library asks for it.
    if event.startswith("socket."):
        raise AssertionError(f"the network was asked for: {event} {arguments}")

sys.addaudithook(hook)

import numpy as np
import fairpca
from fairpca import FairPCA, GroupMoments, audit
import fairpca.methods, fairpca.persistence, fairpca.datasets

X = np.sin(np.arange(240.0)).reshape(60, 4)
g = np.arange(60) % 3
for k in (2, 3):
    model = FairPCA(2).fit(X, sensitive_features=g % k)
    model.transform(X)
model.partial_fit(X, sensitive_features=g).certificate_
print("done")
"""


def test_importing_and_fitting_asks_for_no_network():
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OFFLINE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout.strip() == "done", found.stderr


def test_the_oldest_versions_are_the_ones_tested():
    """`.ci/oldest.txt` pins exactly the lower bounds of the dependencies."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        wanted = tomllib.load(file)["project"]["dependencies"]
    pins = dict(
        line.split("==")
        for line in (ROOT / ".ci" / "oldest.txt").read_text().split()
        if "==" in line
    )
    for requirement in wanted:
        name, lowest = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()
        assert (pins[name] + ".0").startswith(lowest + "."), requirement


def test_what_the_tests_import_is_in_the_source_archive():
    with open(ROOT / "pyproject.toml", "rb") as file:
        packed = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    imports = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
    used = {
        name for path in ROOT.glob("tests/**/*.py") for name in imports.findall(path.read_text())
    }
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} & used
    assert folders >= {"experiments", "tools"}
    assert {f"/{name}" for name in folders} <= set(packed)
