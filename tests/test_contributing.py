"""CONTRIBUTING.md and README.md: examples run, and reading lists are what a fit passes."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import fairpca
from fairpca import FairPCA
from fairpca.criteria import CRITERIA

PACKAGE = Path(fairpca.__file__).parent
PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
if not PAGE.exists():
    pytest.skip("the page is not part of this copy of the tree", allow_module_level=True)

PAGE_TEXT = PAGE.read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", PAGE_TEXT, re.M))
EXAMPLES = {
    title: code
    for title, text in SECTIONS.items()
    for code in re.findall(r"```python\n(.*?)```", text, re.S)
}


@pytest.fixture
def same_criteria():
    before = dict(CRITERIA)
    yield
    CRITERIA.clear()
    CRITERIA.update(before)


@pytest.mark.parametrize("title", sorted(EXAMPLES))
def test_examples_run(title, tmp_path, monkeypatch, same_criteria):
    monkeypatch.chdir(tmp_path)
    exec(compile(EXAMPLES[title], f"{PAGE.name}: {title}", "exec"), {"__name__": "__main__"})


def test_there_is_an_example_for_every_kind_of_addition():
    kinds = {"a criterion", "a method", "a file format", "an engine"}
    assert set(EXAMPLES) == {f"Add {kind}" for kind in kinds}


def reading_list(title):
    """Return the files of the numbered list of a section."""
    return re.findall(r"^\d+\. `([\w/]+\.py)`", SECTIONS[title], re.M)


def tables(k):
    """Yield 500 x 10 rows of k groups: an ordinary table, and one with tied eigenvalues.

    In the second the groups are evenly spaced lines in a plane, each in both directions.
    """
    rng = np.random.default_rng(0)
    shapes = [np.eye(10) + 0.3 * rng.normal(size=(10, 10)) for _ in range(k)]
    labels = np.repeat(np.arange(k), 500 // k)
    yield np.vstack([rng.normal(size=(500 // k, 10)) @ shape for shape in shapes]), labels
    angles = np.pi * labels / k
    lines = np.zeros((len(labels), 10))
    lines[:, 0], lines[:, 1] = np.cos(angles), np.sin(angles)
    yield lines * np.where(np.arange(len(labels)) % 2, 1.0, -1.0)[:, None], labels


def passed(k):
    """Return the files that fits of k groups pass."""
    found = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            found.add(Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix())

    for X, labels in tables(k):
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                FairPCA(1).fit(X, sensitive_features=labels)
        finally:
            sys.setprofile(before)
    return found


def test_two_groups_are_followed_in_nine_files():
    files = reading_list("Follow two groups from rows to certificate")
    assert len(files) == len(set(files)) <= 9
    assert not set(files) - passed(2)


def test_many_groups_are_followed_in_fourteen_files():
    files = {*reading_list("Follow two groups from rows to certificate")}
    files = files - {"solvers/two_groups.py"} | {*reading_list("Three and more groups")}
    assert len(files) <= 14
    assert not files - passed(4)


@pytest.mark.parametrize(
    "title", ["Follow two groups from rows to certificate", "Three and more groups"]
)
def test_names_in_a_reading_list_are_in_their_file(title):
    items = re.findall(r"^\d+\. `([\w/]+\.py)`:((?:.*\n)(?:   .*\n)*)", SECTIONS[title], re.M)
    assert [file for file, _ in items] == reading_list(title)
    missing = [
        f"{file}: {name}"
        for file, text in items
        for name in re.findall(r"`([\w.]+)`", text)
        if not re.search(rf"\b(def|class) {name.split('.')[-1]}\b", (PACKAGE / file).read_text())
    ]
    assert not missing


def test_every_file_that_the_page_names_exists():
    root = PAGE.parent
    named = set(
        re.findall(r"`((?:[\w.]+/)*[\w.]+\.(?:py|md)|(?:\w+/)+)`", PAGE.read_text("utf-8"))
    )
    missing = [name for name in named if not ((PACKAGE / name).exists() or (root / name).exists())]
    assert not missing
    assert len(named) > 30


COMMANDS = sorted(
    set(re.findall(r"`python -m ((?:tools|benchmarks|experiments)[\w.]*)", PAGE_TEXT))
)


def test_commands_exist():
    # All in one process: most of the time of each would be imports that the others share.
    code = (
        "import runpy, sys\n"
        f"for module in {COMMANDS!r}:\n"
        "    sys.argv = [module, '--help']\n"
        "    try: runpy.run_module(module, run_name='__main__', alter_sys=True)\n"
        "    except SystemExit as end: print(f'{module} ended with {end.code}')\n"
    )
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, cwd=PAGE.parent, capture_output=True, text=True, check=True)
    assert len(COMMANDS) >= 5
    for module in COMMANDS:
        text, end, rest = shown.stdout.partition(f"{module} ended with 0\n")
        assert text.startswith("usage:"), module
        assert end, module
        shown.stdout = rest


def test_the_readme_prints_what_it_shows():
    page = PAGE.with_name("README.md").read_text("utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.S)[1]
    shown = [line[2:] for line in code.splitlines() if line.startswith("# ")]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == shown
    assert not done.stderr
    assert len(page.splitlines()) < 120


def test_what_stands_beside_the_package_imports():
    # The commands import their parts only once they run.
    root = PAGE.parent
    parts = [
        f"{folder}.{file.stem}"
        for folder in ("benchmarks", "experiments", "tools")
        for file in sorted((root / folder).glob("*.py"))
        if file.stem not in ("__main__", "__init__")
    ]
    code = f"import importlib\nfor module in {parts!r}: importlib.import_module(module)"
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
    assert len(parts) > 15
