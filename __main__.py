"""``python -m regraft`` and the command ``regraft``: signals are taken before anything large is imported."""

from __future__ import annotations

from .ending import end_on_signals


def main() -> None:
    """Run the command line."""
    end_on_signals()
    from .cli import run

    run()


if __name__ == "__main__":
    main()
