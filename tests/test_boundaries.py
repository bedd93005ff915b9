"""The rooms of the design, kept by reading the import graph."""

import ast
import subprocess
import sys
from pathlib import Path

import fairpca

SOURCE = Path(fairpca.__file__).parent
HEAVY = (
    "pandas polars pyarrow matplotlib plotly dask pyspark torch cvxpy jinja2 typer rich skops "
    "pooch"
).split()


def imports(path, *, top_level_only=False):
    """Return the modules a file imports."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
    return found


def internal(path):
    return {name for name in imports(path) if name.split(".")[0] == "fairpca"}


def files(*parts):
    room = SOURCE.joinpath(*parts)
    return [room] if room.suffix else sorted(room.rglob("*.py"))


def test_solve_knows_only_itself_arrays_and_threads():
    for path in files("solve"):
        for name in internal(path):
            leaf = name in ("fairpca.arrays", "fairpca.threads")
            assert leaf or name.startswith("fairpca.solve"), (path.name, name)
    for name in ("arrays.py", "threads.py"):
        assert not internal(SOURCE / name)


def test_moments_know_no_engine():
    names = "moments moments_file windows scatter blocks column_scatter groups labels threads"
    for name in (f"{stem}.py" for stem in names.split()):
        assert not imports(SOURCE / name) & {"dask", "pyspark", "pyarrow", "pandas", "polars"}
        assert not any(i.startswith("fairpca.solve") for i in internal(SOURCE / name))


def test_readers_do_not_solve():
    assert files("io")
    for room in ("io", "distributed"):
        for path in files(room):
            assert not any(i.startswith("fairpca.solve") for i in internal(path)), path.name


def test_computing_does_not_render():
    renderers = ("fairpca.plots", "fairpca.report", "fairpca.cli")
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in ("plots", "report", "cli"):
            continue
        for name in imports(path, top_level_only=True):
            assert not str(name).startswith(renderers), (path.name, name)


def test_heavy_libraries_are_imported_where_they_are_needed():
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0].startswith("cli"):
            continue
        top = {str(name).split(".")[0] for name in imports(path, top_level_only=True)}
        assert not top & set(HEAVY), (path.name, top & set(HEAVY))


def test_importing_the_package_is_light():
    report = f"print([m for m in {HEAVY!r} if m in sys.modules])"
    code = f"import sys, fairpca; [getattr(fairpca, n) for n in fairpca.__all__]; {report}"
    # pandas and pyarrow may be pulled in by scikit-learn itself; compare with it alone.
    base = f"import sys, sklearn.linear_model; {report}"
    loaded, theirs = (
        subprocess.run(
            [sys.executable, "-c", c], capture_output=True, text=True, check=True
        ).stdout
        for c in (code, base)
    )
    assert set(ast.literal_eval(loaded)) <= set(ast.literal_eval(theirs))


def test_no_utils():
    assert not list(SOURCE.rglob("utils.py"))
