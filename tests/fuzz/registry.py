"""What can be fuzzed: every `fuzz_*.py` of this folder has a list `TARGETS`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Target:
    """One reader of ours.

    Attributes:
        name: a word; the folder of its regressions in ``regressions/``.
        seeds: makes right inputs to start from, the same each time.
        mutate: makes another input of one.
        run: writes an input into a folder and gives it to the reader; returns the exit code, or raises. What
            it writes itself goes into ``given/`` of that folder; ``out/`` is where output belongs.
        share: how often it is drawn, next to the others.
    """

    name: str
    seeds: Callable[[], Sequence[bytes]]
    mutate: Callable[[bytes, Random], bytes]
    run: Callable[[bytes, Path], int]
    share: float = 1.0


def targets() -> dict[str, Target]:
    """All targets by name.

    Raises:
        ValueError: when two have one name.
    """
    found: dict[str, Target] = {}
    for path in sorted(HERE.glob("fuzz_*.py")):
        for target in importlib.import_module(f".{path.stem}", __package__).TARGETS:
            if target.name in found:
                raise ValueError(f"two fuzz targets are called `{target.name}`")
            found[target.name] = target
    return found


def regressions(name: str) -> list[Path]:
    """Inputs that once failed, of one target."""
    folder = HERE / "regressions" / name
    return sorted(p for p in folder.iterdir() if p.is_file()) if folder.is_dir() else []
