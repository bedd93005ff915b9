"""How Sphinx builds the site: ``sphinx-build -W docs docs/_build``."""

import os
import re
import sys
from pathlib import Path

import fairpca

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

from gallery_order import runnable  # noqa: E402

# Real tables of the gallery; beside the checkout unless the variable says where, as in the tests.
_BESIDE = HERE.resolve().parents[1] / "shared" / "data"
if "FAIRPCA_DATA" not in os.environ and _BESIDE.is_dir():
    os.environ["FAIRPCA_DATA"] = str(_BESIDE)

project = "fairpca"
author = "the fairpca developers"
copyright = "the fairpca developers"
version = release = fairpca.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "command_help",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_extensions", "_templates", "gallery"]
templates_path = ["_templates"]
default_role = "py:obj"

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4

html_math_renderer = "mathml"

# Reference: a page for each name that `autosummary` lists in docs/reference.
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Gallery: scripts run while the site is built, and an error in one of them stops the build. One
# without the tables or the library that it needs is shown without its output.
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": runnable(HERE / "gallery"),
    "within_subsection_order": "gallery_order.GalleryOrder",
    "abort_on_example_error": True,
    # Most pictures are wide; the usual ratio would leave half of a thumbnail empty.
    "thumbnail_size": (480, 270),
    "reset_modules": ("matplotlib",),
    "image_scrapers": ("matplotlib",),
    "parallel": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "doc_module": ("fairpca",),
    "reference_url": {"fairpca": None},
    "backreferences_dir": "reference/generated/backreferences",
    "inspect_global_variables": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "fairpca"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/logo.svg"
html_show_sourcelink = False
html_copy_source = False
# Summaries of what a search finds are read from the pages, which a browser refuses where there is
# no server: every result would be an error.
html_show_search_summary = False
# The theme calls it an error if a page says nothing about its mode.
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {
        "text": "fairpca",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "use_edit_page_button": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "whats_new": [], "citing": []}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Methods that scikit-learn gives to every estimator; its own manual describes them.
_OF_SCIKIT_LEARN = re.compile(
    r"set_\w+_request|get_metadata_routing|set_output|[gs]et_params|get_feature_names_out"
)
# Files of the root that are pages here.
_PAGES_OF_THE_ROOT = {
    "README.md": "/index.md",
    "CHANGELOG.md": "/whats_new.md",
    "CONTRIBUTING.md": "/contributing.md",
    "CITATION.cff": "/citing.md",
}


def _leave_out(app, what, name, obj, skip, options):
    """Leave out what scikit-learn documents; None lets Sphinx decide."""
    return True if _OF_SCIKIT_LEARN.fullmatch(name) else None


def _keep_last_underscores(app, what, name, obj, options, lines):
    """Escape the underscore of fitted attributes, which reStructuredText takes for a link."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "..")):
            parts = re.split(r"(`[^`]*`)", line)
            parts[::2] = [re.sub(r"(?<![\\\w])(\w+)_(?!\w)", r"\1\_", text) for text in parts[::2]]
            lines[i] = "".join(parts)


def _to_pages(text):
    """Return Markdown whose links to files of the root lead to the pages that show them here."""
    for file, page in _PAGES_OF_THE_ROOT.items():
        text = re.sub(rf"\]\((\.\./)*{re.escape(file)}(?=[#)])", f"]({page}", text)
    return text


def _read_source(app, name, content):
    content[0] = _to_pages(content[0])


def _read_included(app, path, parent, content):
    content[0] = _to_pages(content[0])


def setup(app):
    """Connect the functions above."""
    app.connect("autodoc-skip-member", _leave_out)
    # After numpydoc, which makes reStructuredText of the docstrings.
    app.connect("autodoc-process-docstring", _keep_last_underscores, priority=900)
    app.connect("source-read", _read_source)
    app.connect("include-read", _read_included)
