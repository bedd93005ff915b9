"""Every public name has a page of the reference, and every example of a docstring runs."""

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
REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
# Spark starts slowly: `distributed/test_spark.py` runs these examples in the session it has.
ELSEWHERE = {"fairpca.distributed.spark"}


def public_names(module):
    """Return what a module and the public modules in it offer: full names and objects."""
    found = {}
    for name in module.__all__:
        full = f"{module.__name__}.{name}"
        value = getattr(module, name, None)
        if value is None or isinstance(value, ModuleType):
            found |= public_names(importlib.import_module(full))
        elif name != "__version__":
            found[full] = value
    return found


def listed_names():
    """Return the full names that `autosummary` turns into pages."""
    found = []
    for page in sorted(REFERENCE.glob("*.md")):
        tables = re.findall(
            r"^\.\. currentmodule:: (\S+)\n\n\.\. autosummary::\n(?:   :.*\n)*\n((?:   \S+\n)+)",
            page.read_text("utf-8"),
            re.M,
        )
        found += [f"{module}.{name}" for module, names in tables for name in names.split()]
    return found


PUBLIC = public_names(fairpca)
DOCUMENTED = {name: value for name, value in PUBLIC.items() if callable(value)}


def sections(value):
    """Return the sections of a numpydoc docstring, text by title; "" is the part before them."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.getdoc(value), flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def test_the_public_names_are_found():
    assert {"fairpca.FairPCA", "fairpca.metrics.group_losses"} <= set(PUBLIC)
    assert {"fairpca.distributed.spark.moments", "fairpca.methods.RADA"} <= set(PUBLIC)


def test_every_public_name_has_a_page_and_no_page_is_left_over():
    listed = listed_names()
    assert len(listed) == len(set(listed))
    assert not set(listed) - set(PUBLIC)
    # An object that two modules offer has one page, under the name it has in `fairpca`.
    shown = {id(PUBLIC[name]) for name in listed}
    assert not [name for name, value in PUBLIC.items() if id(value) not in shown]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_docstring_has_every_parameter_and_an_example(name):
    value = DOCUMENTED[name]
    found = sections(value)
    # What a record holds are its attributes and the arguments of its class at once.
    known = found.get("Parameters", "") + found.get("Attributes", "")
    is_error = isinstance(value, type) and issubclass(value, BaseException)
    parameters = {} if is_error else inspect.signature(value).parameters
    missing = [
        parameter.name
        for parameter in parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and not re.search(rf"^(\w+, )*{parameter.name}\b", known, re.M)
    ]
    assert not missing
    assert ">>> " in found.get("Examples", "")


def test_every_command_has_its_help_on_a_page():
    import typer.main

    from fairpca.cli import _app

    page = (REFERENCE / "command_line.md").read_text("utf-8")
    shown = re.findall(r"^```\{command-help\} ?(\w*)$", page, re.M)
    assert shown == ["", *typer.main.get_command(_app()).commands]


def test_the_page_about_installing_names_every_extra():
    root = REFERENCE.parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    page = (root / "docs" / "start" / "install.md").read_text("utf-8")
    shown = re.findall(r"^\| `(\w+)` \|", page, re.M)
    assert sorted(shown) == sorted(project["optional-dependencies"])


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_the_root_lead_to_files(name):
    root = REFERENCE.parents[1]
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (root / name).read_text("utf-8"))
    assert not [link for link in links if "://" not in link and not (root / link).exists()]


def modules_with_examples():
    """Return the modules of the package whose text holds an example."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        if ">>> " in path.read_text("utf-8"):
            yield name.removesuffix(".__init__")


@pytest.mark.parametrize("name", [m for m in modules_with_examples() if m not in ELSEWHERE])
def test_examples_of_docstrings_run(name, tmp_path, monkeypatch):
    if name.startswith("fairpca.datasets.") and name != "fairpca.datasets.synthetic":
        folder = data_dir()
        if folder is None:
            pytest.skip("needs published tables: set FAIRPCA_DATA to the directory of them")
        monkeypatch.setenv("FAIRPCA_DATA", os.fspath(folder))
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted
    assert not done.failed
