"""The pages of the site: every block of Python runs, one after the other from top to bottom.

Pages with libraries of other projects run in a process of their own: those warn about one another
and bring threads and a BLAS of their own, which other tests would count. The rest would spend most
of its time starting processes, and runs here.
"""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import sklearn

DOCS = Path(__file__).parents[1] / "docs"
# Made by Sphinx, or scripts that Sphinx runs.
GENERATED = {"_build", "auto_gallery", "gallery", "generated"}
PAGES = {
    path.relative_to(DOCS).as_posix(): re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    for path in sorted(DOCS.rglob("*.md"))
    if not GENERATED & set(path.relative_to(DOCS).parts) and (text := path.read_text("utf-8"))
}
OF_OTHERS = re.compile(
    r"^(?:import|from) (?:aif360|anndata|dask|distributed|fairlearn|faiss|onnx\w*|pyspark|scanpy|"
    r"skl2onnx|torch|cupy|xarray|xeofs)\b|fairpca\.distributed",
    re.M,
)


def run_apart(code, folder):
    """Run code in a process of its own, and return what it prints."""
    command = [sys.executable, "-W", "ignore", "-c", code]
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def run_here(page, code, capsys):
    """Run code in this process and return what it prints; settings and pictures are put back."""
    with warnings.catch_warnings(), sklearn.config_context():
        warnings.simplefilter("ignore")
        exec(compile(code, page, "exec"), {"__name__": "__main__"})
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
    return capsys.readouterr().out


def test_the_pages_are_found():
    assert PAGES["start/python.md"]
    assert sum(map(bool, PAGES.values())) >= 5


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks])
def test_every_block_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    code = "\n".join(PAGES[page])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    apart = OF_OTHERS.search(code)
    printed = run_apart(code, tmp_path) if apart else run_here(page, code, capsys)
    if page.startswith("start/"):
        # What a block prints stands below it as comments.
        shown = re.findall(r"^# (?!Your own)(.*)$", code, re.M)
        assert printed.splitlines() == shown
