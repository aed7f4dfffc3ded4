"""Runs an emitted MindSpore net whose parameters are read from its checkpoint where a Cell uses them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...checkpoints import read_checkpoint
from ...formats.written_behind import Await
from ...ir import ModelError, TensorData
from ...ir.outside.memory_limits import data_limit
from ..runners.emitted_net import emitted_net_without_values
from ..runners.mindspore_cells import cells_of, start
from ..runners.mindspore_runner import MindSporeRunner
from ..runners.runs import Run
from ..structure.sharing import Held
from .exact_constants import ExactConstants
from .fixed_weights import FixedWeights
from .handover import Give, ignore_outputs
from .mindspore_literals import Literals
from .mindspore_reading import CheckpointReader, let_threads_sleep, reading
from .pace import Read, ignore_pace, ignore_weight
from .titles import name_in_pieces
from .widening import half_unit, largest_move, widen_array

_SIDES = ("inputs", "outputs")

_POOL = 12
"""The part of the memory that MindSpore's pool is: it grows by a gigabyte, which a limit may forbid."""

_LARGE = 1 << 20
"""Bytes of a constant up to which it may be one that was rounded."""


class MindSporePieces(FixedWeights, MindSporeRunner):
    """A Cell in PyNative mode of which a few parameters are in memory at a time.

    A Cell's parameter is a Tensor with the checkpoint's values while the Cell computes, and no Parameter.

    Attributes:
        moved: how far numbers that were rounded to bfloat16 may move outputs, and the sides of calls, of the
            last run.
        calls: name of a call -> the names in `moved` of what enters and leaves it.
        read: gets the bytes of a parameter before it is read.
        has_read: gets its name after it.
        give: gets what each recorded call gives.
    """

    moved: dict[str, float]
    calls: dict[str, dict[str, list[str]]]
    _others: list[MindSporePieces]
    _values: Mapping[str, TensorData]
    _names: dict[int, str]
    _exact: dict[str, np.ndarray]
    _budget: int
    _wide: bool

    def __init__(self, net: Any, paths: Mapping[int, str | tuple[str, ...]], *, imported: str = "") -> None:
        super().__init__(net, paths, imported=imported)
        self._given_paths = {
            p for found in paths.values() for p in ([found] if isinstance(found, str) else found)
        }
        self.read: Read = ignore_pace
        self.has_read: Callable[[str], None] = ignore_weight
        self.give: Give = ignore_outputs

    @staticmethod
    def of(folder: Path, literals: Literals, *, wide: bool, budget: int, wait_for: Await) -> MindSporePieces:
        """Return a runner of an emitted folder's net, whose numbers `literals` edits if it is `wide`."""
        with _in_float32(wide):
            edit = literals if wide else lambda _: None
            net, paths, imported, checkpoint = emitted_net_without_values(folder, edit)
        values = {} if checkpoint is None else read_checkpoint(checkpoint)
        runner = MindSporePieces(net, paths, imported=imported)
        for _, cell in cells_of(net):
            cell._init_flag = True  # else its first call draws values for its Parameters
        runner._values = {n: _awaited(d, checkpoint or folder, wait_for) for n, d in values.items()}
        runner._names = {id(p): name for name, p in net.parameters_and_names()}
        runner._budget, runner._wide = budget, wide
        _require_fit(net, runner._values, checkpoint or folder, wide=wide)
        runner._others, runner._exact, runner.moved, runner.calls = [], {}, {}, {}
        runner.runtime = name_in_pieces(runner.runtime, "float32" if wide else "")
        return runner

    def undo_rounding(
        self,
        make: Callable[[Literals], MindSporePieces],
        known: Literals,
        weights: Collection[str],
        constants: ExactConstants,
    ) -> None:
        """Find what narrow tables were rounded from: one of the source's, or any within half a unit.

        Without one of the source's there are two moved runs: with all such numbers larger, and with every
        other one.

        Args:
            make: makes a runner of the same net with other numbers.
            known: the numbers of this one.
            weights: the parameters that are the source's; others are constants of the program.
            constants: arrays of the source.
        """
        narrow = {n: d.numpy() for n, d in self._values.items() if n not in weights and _is_table(d)}
        steps = {name: step for name, array in narrow.items() if (step := half_unit(array)).any()}
        for name in list(steps):
            exact = constants.find(narrow[name])
            if exact is not None:
                self._exact[name] = exact
                del steps[name]
        for sign in (1, -1) if known.unknown or steps else ():
            other = make(Literals(known.source, sign))
            moved = enumerate(steps.items(), 1)
            off = {n: widen_array(narrow[n]) + step * sign**number for number, (n, step) in moved}
            other._exact = {**self._exact, **{n: a.astype(np.float32) for n, a in off.items()}}
            self._others.append(other)

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the Cell; see `Runner`. Sets `moved`."""
        run = super().run(inputs, calls=calls)
        self.calls = {call: {side: [f"{call} {side}"] for side in _SIDES} for call in run.calls}
        self.moved = {}
        for other in self._others:
            again = other.run(inputs, calls=calls)
            for (name, array), (_, moved) in zip(run.outputs, again.outputs, strict=True):
                self._move(name, [array], [moved])
            for call, record in run.calls.items():
                for side in _SIDES:
                    self._move(f"{call} {side}", getattr(record, side), getattr(again.calls[call], side))
        return run

    def _recorded(self, call: str, outputs: Sequence[np.ndarray]) -> None:
        self.give(call, outputs)

    def _move(self, name: str, arrays: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> None:
        moved = max(map(largest_move, arrays, others), default=0.0)
        self.moved[name] = self.moved.get(name, 0.0) + moved

    def _bind(self, inputs: Mapping[str, np.ndarray]) -> list[Any]:
        return super()._bind({name: self._entering(array) for name, array in inputs.items()})

    def _entering(self, array: np.ndarray) -> np.ndarray:
        """Return an input of the Cell or of one in it, in the type that it is computed with."""
        return widen_array(array) if self._wide else array

    def _run(
        self, inputs: Mapping[str, np.ndarray], calls: bool, given: Mapping[str, Sequence[np.ndarray]]
    ) -> Run:
        with self._reading():
            return super()._run(inputs, calls, given)

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Call one Cell; see `Runner`."""
        inputs = [self._entering(array) for array in inputs]
        with self._reading():
            found = super().run_module(call, inputs)
        self.moved.pop(f"{call} outputs", None)
        for other in self._others:
            self._move(f"{call} outputs", found, other.run_module(call, inputs))
        return found

    def close(self) -> None:
        """Forget the net; see `Runner`."""
        for other in self._others:
            other.close()
        super().close()

    def held(self) -> list[Held]:
        """Return the checkpoint's tensors, by the names under which the net registers them."""
        names: dict[str, list[str]] = {}
        for path, cell in cells_of(self._net):
            for name, parameter in cell._params.items():
                if parameter is not None:
                    own = self._names[id(parameter)]
                    names.setdefault(own, []).append(f"{path}.{name}" if path else name)
        return [Held.of(dict.fromkeys([*names.get(n, []), n]), data) for n, data in self._values.items()]

    def gives(self, call: str) -> bool:
        """Whether a Cell has the path of a call."""
        return call.rpartition("#")[0] in self._given_paths

    def stated_types(self) -> None:
        """Return None: the emitted source states no types of its outputs."""

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Make Cells find Tensors of the checkpoint in place of their Parameters in a with block."""
        read = CheckpointReader(
            self, self._values, self._names, self._exact, budget=self._budget, wide=self._wide
        )
        let_threads_sleep()
        with _in_float32(self._wide), reading(read, self._cells):
            yield


def output_in_pieces(
    path: Path,
    *,
    threads: int | None,
    wide: bool,
    budget: int,
    weights: Collection[str],
    literals: Sequence[float],
    constants: ExactConstants,
    wait_for: Await,
) -> MindSporePieces:
    """Return a runner of an emitted folder's net; see `targets`.

    Raises:
        ModelError: when its files cannot be used, or the checkpoint does not fit the net.
    """
    del threads  # MindSpore takes their number from the process
    _take_little_memory()
    known = Literals(literals)
    make = partial(MindSporePieces.of, path, wide=wide, budget=budget, wait_for=wait_for)
    runner = make(known)
    if wide:
        runner.undo_rounding(make, known, weights, constants)
    return runner


def _take_little_memory() -> None:
    """Make MindSpore's pool take a part of the memory, and not one GB, where memory is limited.

    It can be set once, before the pool is used.
    """
    limit = data_limit()
    if limit is None:
        return
    start()
    from mindspore import runtime

    with suppress(RuntimeError, ValueError):
        size = f"{limit / _POOL / 2**30:.2f}GB"
        runtime.set_memory(init_size=size, increase_size=size)


def _awaited(data: TensorData, checkpoint: Path, wait_for: Await) -> TensorData:
    """Return a handle that waits for its elements, which may still be written."""
    place, size = data.find_place(), data.nbytes
    if place is None:  # then it is somewhere in the file
        place, size = (checkpoint, 0), 1 << 62

    def load() -> np.ndarray:
        wait_for(*place, size)
        return data.numpy()

    return replace(data, load=load)


def _is_table(data: TensorData) -> bool:
    """Whether a tensor is a small one of a narrow type."""
    return data.dtype in ("bfloat16", "float16") and data.nbytes <= _LARGE


def _require_fit(net: Any, values: Mapping[str, TensorData], checkpoint: Path, *, wide: bool) -> None:
    """Check that a checkpoint has the net's parameters, and no others.

    Raises:
        ModelError: E702 otherwise.
    """
    wanted = {name: tuple(p.shape) for name, p in net.parameters_and_names()}
    found = {name: tuple(data.shape) for name, data in values.items()}
    if wanted != found:
        names = sorted(n for n in wanted.keys() | found.keys() if wanted.get(n) != found.get(n))
        raise ModelError(
            "E702", f"the checkpoint does not fit the net: {', '.join(names[:3])}", place=str(checkpoint)
        )
    if wide:
        return
    types = {name: str(p.dtype).lower() for name, p in net.parameters_and_names()}
    name = next((n for n, data in values.items() if types[n] != data.dtype), None)
    if name is not None:
        raise ModelError(
            "E702",
            f"the checkpoint does not fit the net: {name} is {values[name].dtype}, {types[name]} in the net",
            place=str(checkpoint),
        )


@contextmanager
def _in_float32(wide: bool) -> Iterator[None]:
    """Make emitted code compute in float32 where it says bfloat16 or float16 in a with block."""
    import mindspore

    if not wide:
        yield
        return
    kept = {name: getattr(mindspore, name) for name in ("bfloat16", "float16")}
    for name in kept:
        setattr(mindspore, name, mindspore.float32)
    try:
        yield
    finally:
        for name, dtype in kept.items():
            setattr(mindspore, name, dtype)
