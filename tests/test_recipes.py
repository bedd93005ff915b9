"""The pages for other projects' users: every block of code runs, one after the other.

In a process of their own: the libraries on these pages warn about one another and bring threads
and a BLAS of their own, which other tests would count.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs" / "guide"
PAGES = ["elsewhere.md", "fairlearn.md", "fields.md", "single_cells.md"]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_runs(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.S)
    assert blocks
    command = [sys.executable, "-W", "ignore", "-c", "\n".join(blocks)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
