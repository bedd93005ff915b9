"""The order of the gallery, from the first question to the special ones, and what of it runs."""

import ast
import importlib.util
import os
from pathlib import Path

# A script that is not listed comes after the others, by its name.
ORDER = """
    plot_law_school plot_digit_one plot_new_speakers plot_token_vectors plot_populations plot_faces
    plot_credit_small_groups plot_price_of_fairness plot_iris_one_mean plot_compare_methods
    plot_two_notions plot_common_eofs plot_joint_numerical_range plot_three_lines
""".split()


class GalleryOrder:
    """The key by which sphinx-gallery sorts the scripts of a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, filename):
        """Return the place of a script."""
        name = filename.removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)

    def __repr__(self):
        """Return a text that stays the same, so that Sphinx does not build everything anew."""
        return "GalleryOrder"


def _missing(script):
    """Return what a script needs that is not here: libraries, or tables that are fetched."""
    text = script.read_text("utf-8")
    nodes = list(ast.walk(ast.parse(text)))
    modules = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    modules |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    roots = {module.partition(".")[0] for module in modules}
    missing = sorted(root for root in roots if importlib.util.find_spec(root) is None)
    tables = "fetch_" in text or "FAIRPCA_DATA" in text
    return missing + ["FAIRPCA_DATA"] * (tables and "FAIRPCA_DATA" not in os.environ)


def runnable(folder):
    """Return the pattern of the scripts that run here, and say which are shown without output."""
    names = []
    for script in sorted(Path(folder).glob("plot_*.py")):
        if missing := _missing(script):
            print(f"gallery: {script.name} is shown without output; it needs {', '.join(missing)}")
        else:
            names.append(script.stem)
    return rf"/({'|'.join(names)})\.py$"
