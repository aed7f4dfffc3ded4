"""What both languages of the site have in common; `en/conf.py` and `zh/conf.py` add their language."""

from __future__ import annotations

import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "extensions"))

project = "regraft"
author = "the regraft authors"
copyright = "the regraft authors, Apache-2.0"  # noqa: A001 - Sphinx's name

extensions = [
    "myst_parser",  # pages are Markdown
    "sphinx.ext.autodoc",  # the API from its docstrings
    "sphinx.ext.napoleon",  # docstrings have Google's sections
    "generated_reference",  # commands, codes, passes and tables from the code
    "chinese_text",  # lines of Chinese joined without spaces, and a search that finds Chinese words
    "other_language",  # the link to the same page in the other language
]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
smartquotes = False  # `--input` has two hyphens
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures are names of the code, not pages of the site
default_role = "code"  # docstrings have single backticks
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_rtype = False
highlight_language = "none"
locale_dirs = [str(HERE / "locale")]

html_theme = "furo"
html_title = "regraft"
templates_path = [str(HERE / "templates")]
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "other_language.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}


def setup(app: Sphinx) -> None:
    """Name the language of the graph's text form, by which the tests find its blocks."""
    app.add_lexer("ir", TextLexer)
