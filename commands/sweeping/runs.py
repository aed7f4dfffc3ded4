"""Runs the cases of a suite, here or on a Dask cluster, and gives their rows as they come."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, cast

from ...ir import UsageError
from .case import Case, Row
from .fingerprint import environment, fingerprint, forget
from .judged import run_judged
from .run_case import run_case
from .store import Store

if TYPE_CHECKING:
    from distributed import Client

_RETRIES = 2
"""Number of repeats of a case whose worker was lost."""

_NAMED = 3
"""Workers that an error names."""

_CONNECT = 10.0
"""Seconds in which a scheduler has to answer."""

_SHARED = ("judge", "folder", "memory", "batch", "process")
"""Attributes of cases that share a process."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The settings by which cases run.

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
        row = _stored(store, case, keys[case], how)
        if row is None:
            waiting.append(case)
        else:
            yield row
    if not waiting:
        return
    batches = list(_batches(waiting))
    with _executor(how, len(batches)) as executor:
        futures: dict[Future[list[Row]], list[Case]] = {
            executor.submit(_run, batch, [keys[case] for case in batch], how, environment()): batch
            for batch in batches
        }
        for future in as_completed(futures):
            batch = futures[future]
            if future.cancelled():
                raise UsageError(
                    "E001",
                    f"the Dask scheduler at `{how.scheduler}` was lost",
                    hint="run the sweep again: it skips the cases in the store",
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


def _stored(store: Store, case: Case, key: str, how: Sweep) -> Row | None:
    """Return the row of an earlier run, with what is wanted of it; None where there is none."""
    row = None if how.fresh else store.get(key, Path(case.folder))
    if row is None:
        return None
    written = not case.judge and row.verdict in ("equal", "unproven")
    if how.keep and written and not row.output:
        return None
    return replace(row, name=case.name, step=case.step, group=case.group)


def _run(cases: Sequence[Case], keys: Sequence[str], how: Sweep, expected: str) -> list[Row]:
    """Run a batch of cases on a worker, which has to have what the client has.

    What the store has by now is not run: another sweep's, or that of a worker that was lost.
    """
    if environment() != expected:
        why = "the worker has another regraft, Python or other packages than the client: install the same"
        host = platform.node()
        return [
            Row(case.name, case.step, "fault", why, key=key, host=host, group=case.group)
            for case, key in zip(cases, keys, strict=True)
        ]
    store, rows = Store(how.store), list[Row]()
    waiting: list[tuple[Case, str]] = []
    for case, key in zip(cases, keys, strict=True):
        row = _stored(store, case, key, how)
        if row is None:
            waiting.append((case, key))
        else:
            rows.append(row)
    if cases[0].judge:
        return rows + run_judged(waiting, how.store, keep=how.keep)
    return rows + [run_case(case, key, how.store, keep=how.keep) for case, key in waiting]


@contextmanager
def _executor(how: Sweep, batches: int) -> Iterator[Executor]:
    """Open threads that each wait for a process, or a cluster."""
    if not how.scheduler:
        jobs = how.jobs or len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(min(jobs, batches)) as executor:
            yield executor
        return
    client = _connected(how.scheduler)
    with client:
        _require_alike(client, how.scheduler)
        with client.get_executor(retries=_RETRIES, pure=False) as executor:
            yield executor


def _connected(address: str) -> Client:
    """Return a client of a scheduler.

    Raises:
        UsageError: where no scheduler answers.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise UsageError(
            "E105",
            "--scheduler expected `distributed` to be installed, got no such module",
            hint='pip install "regraft[sweep]"',
        ) from error
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # its errors are raised here, too
    found: Future[Client] = Future()

    def connect() -> None:
        try:
            found.set_result(Client(address, timeout=_CONNECT))
        except BaseException as error:  # which `result` raises
            found.set_exception(error)

    Thread(target=connect, daemon=True).start()  # it waits without end for a server that says nothing
    try:
        return found.result(2 * _CONNECT)
    except (OSError, ValueError, MemoryError) as error:  # memory: a size is read of what is none
        silent = isinstance(error, MemoryError) or not str(error)
        raise UsageError(
            "E001",
            f"expected the address of a Dask scheduler, got `{address}`: "
            f"{'the server there is not one' if silent else error}",
            hint="--scheduler tcp://HOST:8786, as `dask scheduler` prints it",
        ) from error


def _require_alike(client: Client, address: str) -> None:
    """Refuse workers with another installation: a case ends there at once, so that most would go there.

    Raises:
        UsageError: with their addresses.
    """
    found = cast("dict[str, object]", client.run(environment, on_error="return"))
    lost = (OSError, TimeoutError)  # a worker that has just gone; its cases go elsewhere
    others = sorted(a for a, has in found.items() if has != environment() and not isinstance(has, lost))
    if others:
        count = len(others)
        raise UsageError(
            "E105",
            f"expected the client's regraft, Python and packages on every worker, got others on {count} of "
            f"{len(found)}: {', '.join(others[:_NAMED])}",
            place=address,
            hint="install the same there, or stop these workers",
        )
