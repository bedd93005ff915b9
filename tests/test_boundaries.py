"""The rooms of the design, kept by reading the import graph."""

import ast
import subprocess
import sys
from pathlib import Path

import fairpca

SOURCE = Path(fairpca.__file__).parent
HEAVY = (
    "pandas polars pyarrow matplotlib plotly dask pyspark torch cvxpy jinja2 typer rich skops "
    "pooch anndata scanpy xarray"
).split()


def module_name(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imports(path, *, top_level_only=False):
    """Return the modules a file imports to run; of a package the submodules it names."""
    tree = ast.parse(path.read_text())
    tree.body = [n for n in tree.body if ast.unparse(getattr(n, "test", n)) != "TYPE_CHECKING"]
    nodes = tree.body if top_level_only else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULES else node.module)
    return found


def internal(path):
    return {name for name in imports(path) if name.split(".")[0] == "fairpca"}


def room(*names):
    """Return the files of packages and modules."""
    wanted = tuple(f"fairpca.{name}" for name in names)
    return [
        p
        for m, p in MODULES.items()
        if m in wanted or m.startswith(tuple(f"{w}." for w in wanted))
    ]


def assert_never(files, *forbidden):
    assert files
    wrong = tuple(f"fairpca.{name}" for name in forbidden)
    for path in files:
        for name in internal(path):
            assert not any(name == w or name.startswith(f"{w}.") for w in wrong), (path, name)


def test_nobody_imports_in_a_circle():
    # What a function imports is imported when it is called.
    graph = {
        name: {other for other in imports(path, top_level_only=True) if other in MODULES} - {name}
        for name, path in MODULES.items()
    }
    # The package's own lazy table of names is followed by nobody.
    graph["fairpca"] = set()
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done or name not in graph:
            return
        path.append(name)
        for other in sorted(graph[name]):
            visit(other)
        path.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)


def test_covariances_know_no_solver_and_no_file():
    assert_never(room("covariances"), "solvers", "io", "distributed", "estimator", "fitting")


def test_solvers_know_no_rows():
    assert_never(room("solvers"), "moments", "io", "distributed", "base", "estimator", "fitting")
    assert_never(room("_arrays", "_check"), "moments", "covariances", "solvers", "criteria")


def test_moments_know_no_engine():
    for path in room("moments"):
        assert not imports(path) & {"dask", "pyspark", "pyarrow", "pandas", "polars"}
    assert_never(room("moments"), "covariances", "solvers", "io", "distributed", "estimator")


def test_readers_do_not_solve():
    assert_never(room("io", "distributed"), "solvers", "estimator", "fitting")


def test_computing_does_not_render():
    computing = [p for p in MODULES.values() if p not in room("plots", "report", "cli")]
    renderers = ("fairpca.plots", "fairpca.report", "fairpca.cli")
    for path in computing:
        for name in imports(path, top_level_only=True):
            assert not str(name).startswith(renderers), (path.name, name)


def sets_attributes(path):
    """Return the assignments to fitted attributes (``self.x_ = ...``) of a file."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        targets = node.targets if isinstance(node, ast.Assign) else []
        found += [
            t.attr
            for target in targets
            for t in ast.walk(target)
            if isinstance(t, ast.Attribute) and t.attr.endswith("_") and not t.attr.endswith("__")
        ]
    return found


def test_only_estimators_set_fitted_attributes():
    for path in room(
        "moments", "covariances", "solvers", "io", "distributed", "fitting", "criteria"
    ):
        assert not sets_attributes(path), path


def test_nobody_asks_which_kind_of_oracle_it_has():
    for path in MODULES.values():
        assert "isinstance(oracle" not in path.read_text(), path


def test_heavy_libraries_are_imported_where_they_are_needed():
    for path in MODULES.values():
        if path in room("cli"):
            continue
        top = {str(name).split(".")[0] for name in imports(path, top_level_only=True)}
        assert not top & set(HEAVY), (path.name, top & set(HEAVY))


def test_importing_the_package_is_light():
    report = f"print([m for m in {HEAVY!r} if m in sys.modules])"
    # pandas and pyarrow may be pulled in by scikit-learn itself; compare with it alone.
    code = f"import sys, sklearn.linear_model; {report}\n"
    code += f"import fairpca; [getattr(fairpca, n) for n in fairpca.__all__]; {report}"
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    theirs, loaded = (set(ast.literal_eval(line)) for line in shown.splitlines())
    assert loaded <= theirs


def test_the_public_face_is_reachable_and_nothing_else_shows():
    code = (
        "import fairpca\n"
        "names = 'plots datasets methods io metrics report solvers distributed'.split()\n"
        "names += ['scverse', 'xarray']\n"
        "assert all(getattr(fairpca, name).__name__ == f'fairpca.{name}' for name in names)\n"
        "assert dir(fairpca) == sorted(fairpca.__all__)\n"
        "import fairpca.solvers.descent as descent\n"
        "import fairpca.auditing, fairpca.comparison, fairpca.paths\n"
        "functions = fairpca.solve, fairpca.audit, fairpca.compare, fairpca.component_path\n"
        "assert all(callable(function) for function in functions)\n"
        "assert descent.__name__ == 'fairpca.solvers.descent'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_house_stays_small():
    root = [path.name for path in MODULES.values() if path.parent == SOURCE]
    assert len(root) <= 17, sorted(root)
    assert len(MODULES) <= 81, sorted(MODULES)
    assert not list(SOURCE.rglob("utils.py"))
    lines = [line for path in MODULES.values() for line in path.read_text().splitlines()]
    assert sum("isinstance" in line for line in lines) <= 110


def test_no_two_classes_have_one_name():
    homes = {}
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                # A leading underscore makes no other name.
                homes.setdefault(node.name.lstrip("_"), []).append(module)
    assert not {name: found for name, found in homes.items() if len(found) > 1}
