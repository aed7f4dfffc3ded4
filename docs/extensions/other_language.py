"""Sphinx extension: every page links the same page in the other language."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

OTHER = {"en": ("zh", "中文"), "zh_CN": ("en", "English")}
"""Language of the site -> folder and name of the other."""


def link(app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Give the template the address of the same page, which a generated page such as the search has too."""
    folder, name = OTHER[app.config.language]
    address = "../" * (page.count("/") + 1) + f"{folder}/{page}.html"
    context.update(other_language_page=address, other_language=folder, other_language_name=name)
    context["metatags"] = context.get("metatags", "") + (
        f'<link rel="alternate" hreflang="{folder}" href="{address}" />'
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("html-page-context", link)
    return {"parallel_read_safe": True}
