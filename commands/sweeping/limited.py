"""``python -m regraft.commands.sweeping.limited BYTES ARGUMENT...``: a command held to its memory.

It ends when its standard input does: with the process that started it, however that ends.
"""

from __future__ import annotations

import os
import sys
import threading

from .confined import confine, end_with_group, record_opened


def _end_with_parent() -> None:
    """Wait for the end of standard input, and end this process and all that it started."""
    while os.read(0, 1):
        pass
    end_with_group()


def main() -> None:
    """Set the limit, and run regraft."""
    confine(int(sys.argv[1]))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv[1:] = sys.argv[2:]
    from ...__main__ import main as run

    record_opened()
    run()


if __name__ == "__main__":
    main()
