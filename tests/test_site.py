"""Every public name has a page of the reference, and every example of a docstring runs."""

import dataclasses
import doctest
import importlib
import inspect
import os
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import fairpca

from data_dir import data_dir

SOURCE = Path(fairpca.__file__).parent
ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs/reference"
# Spark starts slowly: `distributed/test_spark.py` runs these examples in the session it has.
ELSEWHERE = {"fairpca.distributed.spark"}


def public_names(module):
    """Return what a module and the public modules in it offer: full names and objects."""
    found = {}
    for name in module.__all__:
        full, value = f"{module.__name__}.{name}", getattr(module, name, None)
        if value is None or isinstance(value, ModuleType):
            found |= public_names(importlib.import_module(full))
        elif callable(value):
            found[full] = value
    return found


PUBLIC = public_names(fairpca)
LISTED = [
    f"{module}.{name}"
    for page in sorted(REFERENCE.glob("*.md"))
    for module, names in re.findall(
        r"^\.\. currentmodule:: (\S+)\n\n\.\. autosummary::\n(?:   :.*\n)*\n((?:   \S+\n)+)",
        page.read_text("utf-8"),
        re.M,
    )
    for name in names.split()
]
EXAMPLES = [
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text("utf-8")
]


def test_every_public_name_has_a_page_and_no_page_is_left_over():
    assert len(LISTED) == len(set(LISTED)) > 60
    assert not set(LISTED) - set(PUBLIC)
    # An object that two modules offer has one page, under the name it has in `fairpca`.
    shown = {id(PUBLIC[name]) for name in LISTED}
    assert not [name for name, value in PUBLIC.items() if id(value) not in shown]


@pytest.mark.parametrize("name", PUBLIC)
def test_the_docstring_has_every_parameter(name):
    value, text = PUBLIC[name], inspect.getdoc(PUBLIC[name])
    is_error = isinstance(value, type) and issubclass(value, BaseException)
    taken = {} if is_error else inspect.signature(value).parameters
    named = [p.name for p in taken.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    # What a record holds are its attributes and the arguments of its class at once.
    known = re.findall(r"^([\w, *]+)(?: :|$)", text.partition("Examples\n---")[0], re.M)
    assert not set(named) - set(", ".join(known).split(", "))
    # What functions and estimators return is in their example.
    if name.count(".") == 1 and not dataclasses.is_dataclass(value) and not is_error:
        assert ">>> " in text


def test_pages_name_every_command_and_every_extra():
    typer = pytest.importorskip("typer.main")
    from fairpca.cli.app import app

    page = (REFERENCE / "command_line.md").read_text("utf-8")
    shown = re.findall(r"^```\{command-help\} ?(\w*)$", page, re.M)
    assert shown == ["", *typer.get_command(app).commands]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    page = (ROOT / "docs/start/install.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.M)) == {*project["optional-dependencies"]}


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_the_root_lead_to_files(name):
    links = re.findall(r"(?:\]\(|src=\"|srcset=\")([^)#\"]+)", (ROOT / name).read_text("utf-8"))
    assert not [link for link in links if "://" not in link and not (ROOT / link).exists()]


@pytest.mark.parametrize("name", [m for m in EXAMPLES if m not in ELSEWHERE])
def test_examples_of_docstrings_run(name, tmp_path, monkeypatch):
    if name in ("fairpca.datasets.people", "fairpca.datasets.pixels"):
        if data_dir() is None:
            pytest.skip("needs published tables: set FAIRPCA_DATA to the directory of them")
        monkeypatch.setenv("FAIRPCA_DATA", os.fspath(data_dir()))
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted
    assert not done.failed
