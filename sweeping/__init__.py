"""Many models in one run, each in a process of its own: limits, a cache, a table against earlier runs."""

from .case import GOOD, Case, Row
from .runs import Sweep, sweep
from .suite import read_suite
from .tables import write_tables

__all__ = ["GOOD", "Case", "Row", "Sweep", "read_suite", "sweep", "write_tables"]
