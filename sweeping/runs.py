"""Runs the cases of a suite, here or on a Dask cluster, and gives their rows as they come."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..ir import UsageError
from .case import Case, Row
from .fingerprint import environment, fingerprint, forget
from .judged import run_judged
from .run_case import run_case
from .store import Store

_RETRIES = 2
"""How often a case is run again whose worker was lost."""


_SHARED = ("judge", "folder", "memory", "batch", "process")
"""Attributes of cases that share a process."""


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
    store.require_writable()
    forget()
    keys = {case: fingerprint(case) for case in cases}
    waiting: list[Case] = []
    for case in cases:
        row = None if how.fresh else store.get(keys[case], Path(case.folder))
        written = not case.judge and row is not None and row.verdict in ("equal", "unproven")
        if row is None or (how.keep and written and not row.output):
            waiting.append(case)
        else:
            told = {"name": case.name, "step": case.step, "group": case.group}
            yield Row.from_json({**row.to_json(), **told})
    if not waiting:
        return
    batches = list(_batches(waiting))
    with _executor(how, len(batches)) as executor:
        futures: dict[Future[list[Row]], list[Case]] = {
            executor.submit(
                _run, batch, [keys[case] for case in batch], how.store, how.keep, environment()
            ): batch
            for batch in batches
        }
        for future in as_completed(futures):
            batch = futures[future]
            if future.cancelled():
                raise UsageError(
                    "E001",
                    f"the Dask scheduler at `{how.scheduler}` was lost",
                    hint="run the sweep again: what is in the store is not run again",
                )
            error = future.exception()
            why = f"{type(error).__name__}: {error}"
            yield from (
                future.result()
                if error is None
                else [Row(c.name, c.step, "died", why, key=keys[c], group=c.group) for c in batch]
            )


def _batches(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Yield the cases in parts that a process each runs: one a command, as many as the suite says a judge."""
    batch: list[Case] = []
    for case in cases:
        last = batch[-1] if batch else None
        alike = last is not None and all(getattr(case, name) == getattr(last, name) for name in _SHARED)
        if batch and not (alike and case.judge and len(batch) < case.batch):
            yield batch
            batch = []
        batch.append(case)
    if batch:
        yield batch


def _run(cases: Sequence[Case], keys: Sequence[str], url: str, keep: bool, expected: str) -> list[Row]:
    """Run a batch of cases on a worker, which has to have what the client has."""
    if environment() != expected:
        why = "the worker has another regraft, Python or other packages than the client: install the same"
        host = platform.node()
        return [
            Row(case.name, case.step, "fault", why, key=key, host=host, group=case.group)
            for case, key in zip(cases, keys, strict=True)
        ]
    if cases[0].judge:
        return run_judged(cases, keys, url, keep=keep)
    return [run_case(case, key, url, keep=keep) for case, key in zip(cases, keys, strict=True)]


@contextmanager
def _executor(how: Sweep, batches: int) -> Iterator[Executor]:
    """Threads that each wait for a process, or a cluster."""
    if not how.scheduler:
        jobs = how.jobs or len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(min(jobs, batches)) as executor:
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
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # its errors are raised here, too
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
