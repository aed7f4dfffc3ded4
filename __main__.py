"""``python -m regraft`` and the command ``regraft``: signals are taken before anything large is imported."""

from __future__ import annotations

import os
import sys

from .process.signals import end_on_signals


def main() -> None:
    """Run the command line."""
    _open_closed_streams()
    end_on_signals()
    from .cli import run

    run()


def _open_closed_streams() -> None:
    """Let standard streams that the caller has closed (`>&-`) lead nowhere.

    The next file that is opened would get their number, and what a library prints would be written to it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # the numbers below are taken: it gets the one that is free
            os.open(os.devnull, os.O_RDWR)
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


if __name__ == "__main__":
    main()
