"""Sphinx settings. The build needs no network and fails on any warning (sphinx-build -W)."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

from cwboost import __version__

project = "cwboost"
author = "The cwboost developers"
copyright = f"2026, {author}"
release = version = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "auto_examples/*.ipynb"]
templates_path = ["_templates"]
default_role = "code"  # `x` in a docstring

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

# docs/_templates/autosummary/module.rst lists cwboost.__all__, so a public name has its page.
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"  # the docstrings say it
numpydoc_show_class_members = False  # _templates/autosummary/class.rst shows those of a model

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",  # run every example
    "ignore_pattern": r"real_data\.py$",  # but this one, which needs tables from elsewhere
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "plot_gallery": "True",
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "cwboost"
html_theme_options = {
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 8,
}
html_sidebars = {page: [] for page in ("start", "coming", "auto_examples/*")}  # one page each
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_math_renderer = "mathml"  # browsers draw it; MathJax would come from the network


def escape_bars(*arguments):
    """|y - f| in a docstring is an absolute value, not a substitution."""
    lines = arguments[-1]
    lines[:] = [line if ">>>" in line else line.replace("|", r"\|") for line in lines]


def visit_inline_math(writer, node):
    writer.body.append(str(tex2mathml(node.astext())))
    raise nodes.SkipNode


def visit_math_block(writer, node):
    formula = str(tex2mathml(node.astext(), as_block=True))
    writer.body.append(f'<div class="formula">{formula}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(visit_inline_math, None),
        block_renderers=(visit_math_block, None),
    )
    app.connect("autodoc-process-docstring", escape_bars, priority=400)
