"""CPU seconds of jobs that take turns, and their ratios."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable, Mapping


def cpu_seconds() -> float:
    """Processor time of this process and of its finished children (the formatter is one)."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def in_turns(
    jobs: Mapping[str, Callable[[], object]], repeat: int, *, warm: bool = True
) -> dict[str, list[float]]:
    """CPU seconds of every run of each job; they take turns.

    Args:
        jobs: name -> job.
        repeat: runs of each.
        warm: whether each runs once before, which is not counted; processes of their own need none.
    """
    for job in jobs.values() if warm else ():
        job()
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeat):
        for name, job in jobs.items():
            gc.collect()  # a job pays for no garbage of the one before
            start = cpu_seconds()
            job()
            times[name].append(cpu_seconds() - start)
    return times


RATIOS: dict[str, dict[str, float]] = {}
"""Title of a comparison -> job -> ratio, of all that `print_ratios` printed; see `history`."""


def print_ratios(
    title: str,
    times: Mapping[str, list[float]],
    unit: str = "seconds",
    scale: float = 1.0,
    *,
    keep: bool = True,
) -> dict[str, float]:
    """Print one line a job: its median, and the median of its ratios to the first job's run of the same turn.

    Args:
        title: what is compared.
        times: CPU seconds of every run of each job.
        unit: what is printed.
        scale: how many of it make a second.
        keep: whether the ratios are kept, too.

    Returns:
        Job -> that ratio.
    """
    found: dict[str, float] = {}
    base = next(iter(times.values()))
    print(f"{title}: CPU {unit}, median of {len(base)}, in turns")
    for name, runs in times.items():
        ratio = statistics.median(run / first for run, first in zip(runs, base, strict=True))
        found[name] = round(ratio, 3)
        print(f"  {name:42} {statistics.median(runs) * scale:9.2f}   {ratio:6.2f} x", flush=True)
    if keep:
        RATIOS.setdefault(title, {}).update(found)
    return found
