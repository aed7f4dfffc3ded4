"""`regraft report`: compare two models, and write a page to look at."""

from __future__ import annotations

from typing import Any

import click

from .loading import MODEL_HELP
from .pages import page_option
from .verify import verify

_REPLACED = ("html", "as_json")


def _report(**values: Any) -> None:
    """Compare SOURCE with TARGET as `verify` does, and write the result as an HTML page.

    The page is one self-contained file that opens in any browser without a network: the verdict, both nets
    side by side coloured by error, the dataflow of a module with its types, errors against their tolerances,
    distributions, all rows, renames, and the parts that were not proved. It holds names, shapes, errors and
    binned values of both models, but no weights.

    Exit code 1 if they compute different results; regraft writes the page in either case. RUNS CODE, as
    `verify` does, and runs model.py of an emitted directory once more to show it.
    """
    click.get_current_context().invoke(verify, **values)


report = click.command(
    "report",
    params=[p for p in verify.params if p.name not in _REPLACED],
    epilog=MODEL_HELP,
    short_help="Compare two models and write a page.",
)(page_option(_report))
