"""``python -m regraft.sweeping.limited BYTES ARGUMENT...``: a command line that is held to its memory.

It ends when its standard input does: with the process that started it, however that ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def _end_with_parent() -> None:
    """Wait for the end of standard input, and end this process and all that it started."""
    while os.read(0, 1):
        pass
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Set the limit, and run regraft."""
    memory = int(sys.argv[1])
    try:
        import resource
    except ImportError:  # Windows has no such limits
        pass
    else:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        if hard != resource.RLIM_INFINITY:
            memory = min(memory, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv[1:] = sys.argv[2:]
    from ..__main__ import main as run

    run()


if __name__ == "__main__":
    main()
