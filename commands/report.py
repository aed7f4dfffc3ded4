"""`regraft report`: compare two models, and write a page to look at."""

from __future__ import annotations

from typing import Any

import click

from .loading import MODEL_HELP
from .pages import page_option
from .verify import verify

_REPLACED = ("html", "as_json")


def _report(**values: Any) -> None:
    """Compare SOURCE with TARGET as `verify` does, and write what was found to a page.

    The page is one file with everything in it, opens in any browser without a network, and can be sent to
    others: the verdict, both nets beside each other coloured by error, the dataflow of a module with its
    types, errors against their tolerances, distributions, all rows, renames, and what was not proved. It
    holds names, shapes, errors and binned values of both models, and no weights.

    Exit code 1 when they compute different things; the page is written all the same. RUNS CODE, as `verify`
    does, and model.py of an emitted directory once more to show it.
    """
    click.get_current_context().invoke(verify, **values)


report = click.command(
    "report",
    params=[p for p in verify.params if p.name not in _REPLACED],
    epilog=MODEL_HELP,
    short_help="Compare two models, and write a page.",
)(page_option(_report))
