"""`regraft mcp`: serve the commands to agents, by the Model Context Protocol."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from .printing import report_errors


@click.command(short_help="Serve the commands to agents (Model Context Protocol).")
@click.option(
    "--allow",
    "folders",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    metavar="DIR",
    help="A folder whose files are read and RUN, and in which outputs are written; repeat.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=600.0,
    show_default=True,
    help="Seconds that a call may take.",
)
@click.pass_context
def mcp(ctx: click.Context, folders: tuple[Path, ...], timeout: float) -> None:
    """Serve check, explain, show, verify, rewrite, diff and compare-data as tools, until input ends.

    Each call runs in a process of its own and returns the document that the command prints with --json, with
    its exit code. Paths are resolved, links too, and have to lie in a folder that --allow names; models of
    installed packages, --trust and --extension are not served. Nothing is replaced without force.
    """
    from ..ir import UsageError
    from .serving.folders import Folders

    with report_errors(ctx):
        allowed = Folders(folders)
        if find_spec("mcp") is None:
            raise UsageError(
                "E001",
                "expected the package `mcp`, which is not installed",
                hint="pip install 'regraft[mcp]'",
            )
    from .serving.server import build

    build(allowed, timeout).run("stdio")
