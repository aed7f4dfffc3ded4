"""The options of a page to look at."""

from __future__ import annotations

import os
from pathlib import Path

import click

_SUFFIXES = (".html", ".htm")


def _page(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Refuse what is no page by its name, or cannot be written, before anything is loaded.

    An existing page is replaced, anything else must not be.
    """
    if value is None:
        return None
    if value.suffix.lower() not in _SUFFIXES:
        raise click.BadParameter(f"expected a file that ends in .html, got `{value}`", ctx, param)
    folder = next(p for p in value.absolute().parents if p.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise click.BadParameter(f"expected a folder to write to, got `{folder}`", ctx, param)
    return value


_FILE = click.Path(path_type=Path, dir_okay=False)

html_option = click.option(
    "--html", type=_FILE, callback=_page, help="Also write an HTML page: one file, no network."
)

page_option = click.option(
    "-o", "--output", "html", type=_FILE, callback=_page, default=Path("report.html"), show_default=True,
    help="The page; replaces an existing file.",
)  # fmt: skip
