"""Runs the cases of a suite, here or on a Dask cluster, and gives their rows as they come."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass

from ..ir import UsageError
from .case import Case, Row
from .fingerprint import environment, fingerprint
from .run_case import run_case
from .store import Store

_RETRIES = 2
"""How often a case is run again whose worker was lost."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """How cases are run.

    Attributes:
        store: folder or URL of rows and outputs; workers elsewhere must reach it, and the suite's folder.
        jobs: cases at a time on this machine; 0: as many as it has cores.
        scheduler: address of a Dask scheduler whose workers run them instead; empty for this machine.
        keep: whether outputs are kept in the store.
        fresh: whether cases run that have a row in the store.
    """

    store: str
    jobs: int = 0
    scheduler: str = ""
    keep: bool = False
    fresh: bool = False


def sweep(cases: Sequence[Case], how: Sweep) -> Iterator[Row]:
    """Yield a row of every case, as they come: those of the store first.

    Raises:
        UsageError: when the store or the scheduler cannot be reached.
    """
    store = Store(how.store)
    keys = {case: fingerprint(case) for case in cases}
    waiting: list[Case] = []
    for case in cases:
        row = None if how.fresh else store.get(keys[case])
        if row is None or (how.keep and not row.output and row.verdict in ("equal", "unproven")):
            waiting.append(case)
        else:
            yield Row.from_json({**row.to_json(), "name": case.name, "step": case.step})
    if not waiting:
        return
    with _executor(how, len(waiting)) as executor:
        futures: dict[Future[Row], Case] = {
            executor.submit(_run, case, keys[case], how.store, how.keep, environment()): case
            for case in waiting
        }
        for future in as_completed(futures):
            case = futures[future]
            error = future.exception()
            yield (
                future.result()
                if error is None
                else Row(case.name, case.step, "died", f"{type(error).__name__}: {error}", key=keys[case])
            )


def _run(case: Case, key: str, url: str, keep: bool, expected: str) -> Row:
    """Run a case on a worker, which has to have what the client has."""
    if environment() != expected:
        why = "the worker has another regraft, Python or other packages than the client: install the same"
        return Row(case.name, case.step, "fault", why, key=key, host=os.uname().nodename)
    return run_case(case, key, url, keep=keep)


@contextmanager
def _executor(how: Sweep, cases: int) -> Iterator[Executor]:
    """Threads that each wait for a process, or a cluster."""
    if not how.scheduler:
        jobs = how.jobs or len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(min(jobs, cases)) as executor:
            yield executor
        return
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise UsageError(
            "E105",
            "--scheduler expected `distributed` to be installed, got no such module",
            hint='pip install "regraft[sweep]"',
        ) from error
    try:
        client = Client(how.scheduler, timeout=20)
    except (OSError, ValueError, TimeoutError) as error:
        raise UsageError(
            "E001",
            f"expected the address of a Dask scheduler, got `{how.scheduler}`: {error}",
            hint="--scheduler tcp://HOST:8786, as `dask scheduler` prints it",
        ) from error
    with client, client.get_executor(retries=_RETRIES, pure=False) as executor:
        yield executor
