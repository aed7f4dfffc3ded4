"""What a small command costs, most of which is start-up, against the import of the libraries under it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from measuring import in_turns, print_ratios

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
LIBRARIES = "import click, networkx, numpy, onnx"
REWRITE = [
    "rewrite",
    str(EXAMPLES / "shared_weight-symbol.json"),
    "--params",
    str(EXAMPLES / "shared_weight-0000.params"),
    "--input",
    "data=1x1x3x3",
    "--force",
    "-o",
]


def process(*arguments: str) -> Callable[[], object]:
    """A job that runs Python in a process of its own, and fails where it does."""
    return lambda: subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def run(repeat: int, folder: Path) -> None:
    """Print the table: median of at least 15 processes, as each takes under a second."""
    out = str(folder / "start.onnx")
    jobs = {
        LIBRARIES: process("-c", LIBRARIES),
        "regraft --help": process("-m", "regraft", "--help"),
        "regraft rewrite --no-verify, of a small MXNet symbol": process(
            "-m", "regraft", *REWRITE, out, "--no-verify"
        ),
        "regraft rewrite, of a small MXNet symbol": process("-m", "regraft", *REWRITE, out),
    }
    print_ratios("start of a command", in_turns(jobs, max(repeat, 15), warm=False))
