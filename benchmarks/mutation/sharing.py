"""Lets many verifications share the runs of one source: they ask it the same questions again and again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...ir import Graph
from ...verification import verifying


@contextmanager
def shared_runs() -> Iterator[None]:
    """Inside, sources are run once for equal inputs, and closed at the end only."""
    kept: dict[tuple[str, int], Any] = {}

    def remembering(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def found(graph: Graph, *options: Any, **named: Any) -> Any:
            key = name, id(graph)
            if key not in kept:
                runner = make(graph, *options, **named)
                kept[key] = (graph, runner, None if runner is None else _share(runner))
            return kept[key][1]

        return found

    originals = {name: getattr(verifying, name) for name in ("own_runner", "exact_runner")}
    for name, make in originals.items():
        setattr(verifying, name, remembering(name, make))
    try:
        yield
    finally:
        for name, make in originals.items():
            setattr(verifying, name, make)
        for _, runner, close in kept.values():
            if runner is not None:
                close()


def _share(runner: Any) -> Callable[[], None]:
    """Make a runner remember what it computed, and survive being closed; returns what closes it."""
    memory = _Memory(runner)
    close = runner.close
    runner.run, runner.run_module, runner.altered = memory.run, memory.run_module, memory.altered
    runner.close = lambda: None
    if hasattr(runner, "step"):
        runner.step = memory.step
    return close


class _Memory:
    """What a runner computed, by what it was asked; the runner itself is asked only for what is new.

    A runner that runs a module alone takes what is no tensor from its last recorded run, and weights may be
    altered for a while: before it is asked, it is brought into the state in which it would have been.
    """

    def __init__(self, runner: Any) -> None:
        self._run, self._run_module, self._altered = runner.run, runner.run_module, runner.altered
        self._step = getattr(runner, "step", None)
        self._known: dict[object, Any] = {}
        self._wanted: tuple[bytes, Mapping[str, np.ndarray]] = (b"", {})
        self._recorded = b""
        self._change: tuple[Any, str, str, bytes] | None = None

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Any:
        """As the runner's own."""
        digest = _digest(list(inputs.values()))
        key = "run", calls, digest, self._alteration
        if calls and self._change is None:
            self._wanted = digest, inputs

        def compute() -> Any:
            if calls:
                self._recorded = digest
            with self._in_place():
                return self._run(inputs, calls=calls)

        return self._remembered(key, compute)

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> Any:
        """As the runner's own."""

        def compute() -> Any:
            self._record()
            with self._in_place():
                return self._run_module(call, inputs)

        return self._remembered(("module", call, self._wanted[0], _digest(inputs), self._alteration), compute)

    @contextmanager
    def altered(
        self, change: Callable[[np.ndarray], np.ndarray], call: str = "", only: str = ""
    ) -> Iterator[None]:
        """As the runner's own, once something is computed inside; a change is told by what it does."""
        probe = np.linspace(0.1, 1.7, 64, dtype=np.float32)
        told = _digest([change(probe)]) + f"{call}\0{only}".encode()
        before, self._change = self._change, (change, call, only, told)
        try:
            yield
        finally:
            self._change = before

    def step(self, inputs: Mapping[str, np.ndarray], seed: int) -> Any:
        """As the runner's own."""
        key = "step", seed, _digest(list(inputs.values())), self._alteration

        def compute() -> Any:
            assert self._step is not None
            with self._in_place():
                return self._step(inputs, seed)

        return self._remembered(key, compute)

    @property
    def _alteration(self) -> bytes:
        return b"" if self._change is None else self._change[3]

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        if self._change is None:
            yield
            return
        change, call, only, _ = self._change
        if call:
            self._record()
        with self._altered(change, call, only):
            yield

    def _record(self) -> None:
        """Let the runner's last recorded run be the one that was asked for last."""
        digest, inputs = self._wanted
        if self._recorded != digest:
            self._recorded = digest
            self._run(inputs, calls=True)

    def _remembered(self, key: object, compute: Callable[[], Any]) -> Any:
        if key not in self._known:
            try:
                self._known[key] = compute()
            except Exception as error:  # whatever it raises, it raises again
                self._known[key] = error
        if isinstance(self._known[key], Exception):
            raise self._known[key]
        return self._known[key]


def _digest(arrays: Sequence[np.ndarray]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()
