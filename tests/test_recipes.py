"""The pages of the site: every block of Python runs, and prints what stands below it as comments.

Pages with libraries of other projects run in a process of their own: those warn about one another
and bring threads of their own. The rest would spend most of its time starting processes.
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
GENERATED = {"_build", "auto_gallery", "generated"}
PAGES = {
    path.relative_to(DOCS).as_posix(): blocks
    for path in sorted(DOCS.rglob("*.md"))
    if not GENERATED & set(path.relative_to(DOCS).parts)
    and (blocks := re.findall(r"^```python\n(.*?)^```", path.read_text("utf-8"), re.S | re.M))
}
OF_OTHERS = re.compile(
    r"^(?:import|from) (?:dask|fairlearn|faiss|onnx\w*|scanpy|skl2onnx|torch|xarray)\b", re.M
)


def run_apart(code, folder):
    """Run code in a process of its own, and return what it prints."""
    command = [sys.executable, "-W", "ignore", "-c", code]
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def run_here(code, page, capsys):
    """Run code in this process and return what it prints; settings are put back."""
    with warnings.catch_warnings(), sklearn.config_context():
        warnings.simplefilter("ignore")
        exec(compile(code, page, "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    code = "".join(f"{block}\nprint(chr(12))\n" for block in PAGES[page])
    monkeypatch.chdir(tmp_path)
    apart = OF_OTHERS.search(code)
    printed = run_apart(code, tmp_path) if apart else run_here(code, page, capsys)
    for block, found in zip(PAGES[page], printed.split("\f\n"), strict=False):
        # Comments at the end of a block are what it prints.
        if shown := re.search(r"(?:^# .*\n)+\Z", block, re.M):
            words = [line.removeprefix("# ").rstrip() for line in shown[0].splitlines()]
            assert [line.rstrip() for line in found.splitlines()] == words
