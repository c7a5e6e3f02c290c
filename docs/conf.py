"""Sphinx settings. The build needs no network and fails on any warning (sphinx-build -W)."""

from importlib.metadata import version as installed_version

project = "cwboost"
author = "The cwboost developers"
copyright = f"2026, {author}"
release = version = installed_version("cwboost")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "auto_examples/*.ipynb"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

# docs/_templates/autosummary/module.rst lists cwboost.__all__, so a public name has its page.
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"  # the docstrings say it
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",  # run every example
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_title = "cwboost"
html_theme_options = {"show_prev_next": False, "secondary_sidebar_items": ["page-toc"]}
