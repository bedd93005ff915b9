"""The pages about the methods: whoever adds a method is told that it needs one."""

import re
from pathlib import Path

import pytest

from fairpca import methods

PAGES = Path(__file__).parents[2] / "docs" / "methods"


def test_every_method_has_a_page_and_no_page_is_left_over():
    pages = {path.stem for path in PAGES.glob("*.md")} - {"index"}
    assert pages == set(methods.__all__)


def test_the_index_leads_to_every_page():
    index = (PAGES / "index.md").read_text("utf-8")
    tables, listed = index.split("```{toctree}")
    assert set(re.findall(r"^\| \[(\w+)\]\(\1\.md\)", tables, re.M)) == set(methods.__all__)
    assert re.findall(r"^[A-Z]\w+$", listed, re.M) == sorted(methods.__all__)


@pytest.mark.parametrize("name", methods.__all__)
def test_a_page_says_by_whom_what_for_whom_and_when(name):
    text = (PAGES / f"{name}.md").read_text("utf-8")
    for part in ("**By** ", "**What it optimises:** ", "**Groups:** ", "**Use it when** "):
        assert part in text, part
    assert f"{{py:class}}`fairpca.methods.{name}`" in text
    assert f"from fairpca.methods import {name}\n" in text
