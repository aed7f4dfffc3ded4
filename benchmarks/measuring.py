"""CPU seconds of jobs that take turns, and their ratios."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Mapping


def cpu_seconds() -> float:
    """Processor time of this process and of its finished children (the formatter is one)."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def in_turns(jobs: Mapping[str, Callable[[], object]], repeat: int) -> dict[str, list[float]]:
    """CPU seconds of every run of each job; they take turns, after one run each that is not counted."""
    for job in jobs.values():
        job()
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeat):
        for name, job in jobs.items():
            start = cpu_seconds()
            job()
            times[name].append(cpu_seconds() - start)
    return times


def print_ratios(times: Mapping[str, list[float]], unit: str = "s", scale: float = 1.0) -> None:
    """One line a job: its median, and the median of its ratios to the first job's run of the same turn."""
    base = next(iter(times.values()))
    for name, runs in times.items():
        ratio = statistics.median(run / first for run, first in zip(runs, base, strict=True))
        print(f"  {name:38} {statistics.median(runs) * scale:9.2f} {unit}   {ratio:6.2f} x", flush=True)
