"""Many models in one run, each in a process of its own: limits, a cache, a table against earlier runs."""

from .case import GOOD, Case, Row
from .history import added, read_history
from .runs import Sweep, sweep
from .suite import read_suite
from .tables import write_tables

__all__ = [
    "GOOD",
    "Case",
    "Row",
    "Sweep",
    "added",
    "read_history",
    "read_suite",
    "sweep",
    "write_tables",
]
