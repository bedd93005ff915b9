"""The pages for other projects' users: every block of code runs, one after the other."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ["elsewhere.md", "fairlearn.md", "fields.md", "single_cells.md"]

# The libraries on these pages warn about one another.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.S)
    assert blocks
    names = {"__name__": "__main__"}
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"{page}, block {number}", "exec"), names)
