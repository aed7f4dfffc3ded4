"""Runs an ONNX model in pieces in ONNX Runtime, with the weights of one piece in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.helper import make_tensor_value_info, np_dtype_to_tensor_dtype, tensor_dtype_to_np_dtype

from ...formats.written_behind import Await, all_there
from ...ir import Graph, ModelError
from ...ir.types import dtype_of_onnx
from ..runners.onnx_runner import OnnxRunner
from ..runners.onnx_sessions import run_session
from ..runners.onnx_slices import Slices, values_read
from ..runners.records import ValueStore
from ..runners.runs import Run
from .exact_constants import ExactConstants
from .fixed_weights import FixedWeights
from .handover import Give, ignore_outputs
from .onnx_types import NARROW, widened
from .pace import Read, ignore_pace, ignore_weight
from .titles import name_in_pieces
from .widening import Scratch, half_unit, largest_move, rounded_from, widen_array

_LARGE = 1 << 20
"""Bytes of an initializer above which it is handed to a piece, and not copied into its model."""

_WHOLE = 1 << 62
"""More bytes than a file has."""


@dataclass(slots=True)
class _Piece:
    """Consecutive operators.

    Attributes:
        nodes: their numbers in the model.
        weights: the initializers that they read.
    """

    nodes: list[int] = field(default_factory=list[int])
    weights: dict[str, None] = field(default_factory=dict[str, None])


class _CallsLeft:
    """The calls of modules of which not every result is there.

    Args:
        calls: name of a call -> the names of what enters and leaves it.
        give: gets what a call gives when all of it is there.
    """

    def __init__(self, calls: Mapping[str, Mapping[str, Any]], give: Give) -> None:
        self._calls, self._give = calls, give
        self._missing = {call: set(record["outputs"]) for call, record in calls.items()}
        self._reading: dict[str, list[str]] = {}
        for call, names in self._missing.items():
            for name in names:
                self._reading.setdefault(name, []).append(call)

    def add(self, name: str, values: Mapping[str, np.ndarray]) -> None:
        """Add a value that is there now; `values`: all that are."""
        for call in self._reading.pop(name, ()):
            self._missing[call].discard(name)
            if not self._missing[call]:
                self._give(call, [values[n] for n in self._calls[call]["outputs"]])


class OnnxPieces(FixedWeights, OnnxRunner):
    """An ONNX file in ONNX Runtime without optimisations, in pieces that follow one another.

    Each piece gets what the pieces before it computed, so that together they are the whole forward pass.

    Args:
        path: the file; a graph for those who give its weights.
        threads: threads within an operator; None leaves the choice to ONNX Runtime.
        wide: whether to compute in float32 what is narrower.
        budget: bytes of weights, as they are computed with, in one piece.
        weights: the initializers that are the source's tensors; others are constants of the program.
        literals: numbers of the source, which constants may be rounded from and, with `wide`, give way to.
        constants: arrays of the source, likewise.
        wait_for: called before bytes of external data are read, which may still be written.

    Attributes:
        moved: how far constants that were rounded to a narrow type may move each value of the last run.
        read: gets the bytes of a piece's weights before they are read.
        has_read: gets the name of each of them after it.
        give: gets what each call of a module gives when all of it is there.
    """

    def __init__(
        self,
        path: Path | str | Graph,
        *,
        threads: int | None = None,
        wide: bool = False,
        budget: int = 1 << 28,
        weights: Collection[str] = (),
        literals: Sequence[float] = (),
        constants: ExactConstants | None = None,
        wait_for: Await = all_there,
    ) -> None:
        if not isinstance(path, Graph):
            wait_for(Path(path), 0, _WHOLE)  # which holds its weights itself where they are not external
        super().__init__(path, threads=threads, optimised=False)
        self._budget, self._wide, self._wait_for = budget, wide, wait_for
        self._light, self._shared = self._model, {}  # a piece takes its own weights
        self._sliced = Slices(widened(self._model) if wide else self._model)
        self._memory = Scratch(budget)
        self.moved: dict[str, float] = {}
        self.read: Read = ignore_pace
        self.has_read: Callable[[str], None] = ignore_weight
        self.give: Give = ignore_outputs
        self._rounded: list[dict[str, np.ndarray]] = []
        self._exact: dict[str, np.ndarray] = {}
        if wide:
            self._undo_rounding(weights, literals, constants or ExactConstants())
        self.runtime = name_in_pieces(self.runtime, "float32" if wide else "")

    def _undo_rounding(
        self, weights: Collection[str], literals: Sequence[float], constants: ExactConstants
    ) -> None:
        """Find what narrow constants were rounded from: one of the source's, or any within half a unit.

        Without one of the source's there are two moved runs: with all such constants larger, and with
        every other one.
        """
        narrow = [
            t for n, t in self._sliced.initializers.items() if t.data_type in NARROW and n not in weights
        ]
        found = {t.name: self._stored(t) for t in narrow if self._size(t.name) <= _LARGE}
        steps = {name: step for name, array in found.items() if (step := half_unit(array)).any()}
        for name, step in list(steps.items()):
            number = rounded_from(float(found[name]), float(step), literals) if not step.shape else None
            exact = constants.find(found[name]) if number is None else np.asarray(number, np.float32)
            if exact is not None:
                self._exact[name] = exact
                del steps[name]
        wide = {name: widen_array(found[name]) for name in steps}
        for sign in (lambda _: 1, lambda at: (-1) ** at) if steps else ():
            moved = {n: (wide[n] + step * sign(at)) for at, (n, step) in enumerate(steps.items())}
            self._rounded.append({n: array.astype(np.float32) for n, array in moved.items()})

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the model; see `Runner`."""
        feeds = self._feeds(inputs)
        self._require_same(feeds)
        edges = self._edges() if calls else []
        self._store = ValueStore()
        calls_left = _CallsLeft(self.calls if calls else {}, self.give)
        values = self._compute(feeds, [*self.outputs, *edges], self._store, calls_left.add)
        named = [(name, values[name]) for name in self.outputs]
        return Run(named, self._records(values) if calls else {}, self._store)

    def run_with(self, inputs: Mapping[str, np.ndarray], given: Mapping[str, Sequence[np.ndarray]]) -> Run:
        """Run the model with other values in place of what some calls return; see `Runner`."""
        known, store = self._feeds(inputs), ValueStore()
        for call, outputs in given.items():
            known.update(zip(self.calls[call]["outputs"], outputs, strict=True))
        values = self._compute(known, [*self.outputs, *self._edges()], store)
        return Run([(name, values[name]) for name in self.outputs], self._records(values), store)

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run the part of the model between a call's inputs and its outputs; see `Runner`."""
        record = self.calls[call]
        given = dict(zip(record["inputs"], map(self._entering, inputs), strict=True))
        values = self._compute(given, record["outputs"], ValueStore())
        return [values[name] for name in record["outputs"]]

    def gives(self, call: str) -> bool:
        """Whether all that a call gives is computed in a run, and no weight."""
        names = self.calls[call]["outputs"] if call in self.calls else []
        return bool(names) and not any(name in self._sliced.initializers for name in names)

    def stated_types(self) -> list[str]:
        """Return the element types of the outputs as the file states them."""
        return [dtype_of_onnx(o.type.tensor_type.elem_type) for o in self._model.graph.output]

    def _feeds(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: self._entering(array) for name, array in super()._feeds(inputs).items()}

    def _entering(self, array: np.ndarray) -> np.ndarray:
        """Return an input of the model or of a part of it, in the type that it is computed with."""
        return widen_array(array) if self._wide else array

    def _edges(self) -> list[str]:
        return list(dict.fromkeys(n for r in self.calls.values() for n in [*r["inputs"], *r["outputs"]]))

    def _compute(
        self,
        given: Mapping[str, np.ndarray],
        wanted: Sequence[str],
        store: ValueStore,
        there: Callable[[str, Mapping[str, np.ndarray]], None] = lambda _name, _values: None,
    ) -> dict[str, np.ndarray]:
        """Return values by name, computed from others piece by piece; sets `moved` of them.

        Args:
            given: values that are there.
            wanted: names of those to be computed, or of initializers.
            store: keeps them, on disk where there are many.
            there: gets the name of each of those wanted when it is there, and all that are.
        """
        nodes = self._sliced.model.graph.node
        pieces = self._pieces(self._sliced.needed(given, wanted)[0])
        last = {
            name: at for at, piece in enumerate(pieces) for i in piece.nodes for name in values_read(nodes[i])
        }
        kept = dict.fromkeys(wanted)
        found = {name: given[name] for name in kept if name in given}
        for name in found:
            there(name, found)
        self.moved = {}
        others = [dict(given) for _ in self._rounded]
        live = dict(given)
        for at, piece in enumerate(pieces):
            made = [n for i in piece.nodes for n in nodes[i].output if n and n not in given]
            leaving = [n for n in made if n in kept or last.get(n, at) > at]
            self.read(sum(self._stored_size(self._sliced.initializers[n]) for n in piece.weights))
            runs = self._run_piece(piece, leaving, [live, *others])
            for name in piece.weights:
                self.has_read(name)
            for name, array, *moved in zip(leaving, *runs, strict=True):
                live[name] = store.keep(array)
                for other, changed in zip(others, moved, strict=True):
                    other[name] = changed
                if name in kept:
                    found[name] = live[name]
                    there(name, found)
                    self.moved[name] = sum(largest_move(array, changed) for changed in moved)
            live, *others = (_still_read(values, last, at) for values in (live, *others))
            store.release()
        missing = [name for name in kept if name not in found]
        return {**found, **{name: self._array(self._sliced.initializers[name]) for name in missing}}

    def _pieces(self, numbers: Iterable[int]) -> list[_Piece]:
        """Return operators in pieces, each of at most as many bytes of weights as allowed or of one operator.

        An operator that gathers rows of a large table, or multiplies with more than is allowed, is a piece.
        """
        graph, pieces, held, closed = self._sliced.model.graph, list[_Piece](), 0, True
        for number in numbers:
            node = graph.node[number]
            weights = [n for n in values_read(node) if n in self._sliced.initializers]
            alone = self._gathered(node) is not None or self._multiplied(node) is not None
            new = sum(self._size(n) for n in weights if closed or n not in pieces[-1].weights)
            if closed or alone or held + new > self._budget:
                pieces.append(_Piece())
                held, new = 0, sum(map(self._size, weights))
            closed = alone
            held += new
            pieces[-1].nodes.append(number)
            pieces[-1].weights.update(dict.fromkeys(weights))
        return pieces

    def _gathered(self, node: onnx.NodeProto) -> onnx.TensorProto | None:
        """Return the large table whose rows an operator gathers; None for any other operator."""
        if node.op_type != "Gather" or node.domain or any(a.name == "axis" and a.i for a in node.attribute):
            return None
        table = self._sliced.initializers.get(node.input[0])
        return table if table is not None and self._size(table.name) > _LARGE else None

    def _multiplied(self, node: onnx.NodeProto) -> onnx.TensorProto | None:
        """Return the matrix by which an operator multiplies, if it is larger than a piece may be."""
        if node.op_type != "MatMul" or node.domain:
            return None
        right = self._sliced.initializers.get(node.input[1])
        large = right is not None and len(right.dims) == 2 and self._size(right.name) > self._budget
        return right if large else None

    def _stored_size(self, tensor: onnx.TensorProto) -> int:
        """Return the bytes of an initializer in the file."""
        item = tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        return int(np.prod(tensor.dims, dtype=np.int64)) * item

    def _size(self, name: str) -> int:
        """Return the bytes of an initializer as it is computed with."""
        tensor = self._sliced.initializers[name]
        item = tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        return int(np.prod(tensor.dims, dtype=np.int64)) * (max(item, 4) if self._wide else item)

    def _run_piece(
        self, piece: _Piece, outputs: Sequence[str], lives: Sequence[Mapping[str, np.ndarray]]
    ) -> list[list[np.ndarray]]:
        """Return the values that a piece computes from those before it, as they are and as moved."""
        if not outputs:
            return [[] for _ in lives]
        self._memory.reset()
        node = self._sliced.model.graph.node[piece.nodes[0]]
        if (table := self._gathered(node)) is not None:
            rows = self._stored(table)
            return [[self._rows(rows, live[node.input[1]], table.name)] for live in lives]
        if (right := self._multiplied(node)) is not None:
            return [[array] for array in self._multiply(piece, outputs, right, lives)]
        large = [n for n in piece.weights if self._size(n) > _LARGE]
        weights = {n: self._computed(self._stored(self._sliced.initializers[n])) for n in large}
        return self._session_of(piece, outputs, [{**live, **weights} for live in lives])

    def _rows(self, table: np.ndarray, indices: np.ndarray, name: str) -> np.ndarray:
        """Return rows of a table that is not read as a whole.

        Raises:
            ModelError: E702 for an index that it does not have.
        """
        if indices.size and not (-len(table) <= indices.min() and indices.max() < len(table)):
            raise ModelError("E702", f"expected an index of a row of `{name}`, got one outside it")
        rows = table[indices]
        return widen_array(rows) if self._wide else rows

    def _multiply(
        self,
        piece: _Piece,
        outputs: Sequence[str],
        right: onnx.TensorProto,
        lives: Sequence[Mapping[str, np.ndarray]],
    ) -> list[np.ndarray]:
        """Return products with a matrix of which some columns at a time are in memory."""
        matrix, found = self._stored(right), [list[np.ndarray]() for _ in lives]
        columns = max(1, self._budget // (4 * len(matrix)))
        for at in range(0, matrix.shape[1], columns):
            self._memory.reset()
            part = self._computed(matrix[:, at : at + columns])
            runs = self._session_of(piece, outputs, [{**live, right.name: part} for live in lives])
            for parts, (array,) in zip(found, runs, strict=True):
                parts.append(array)
        return [np.concatenate(parts, -1) for parts in found]

    def _session_of(
        self, piece: _Piece, outputs: Sequence[str], givens: Sequence[Mapping[str, np.ndarray]]
    ) -> list[list[np.ndarray]]:
        """Return outputs of a piece in a session of its own: with constants as they are, then as rounded."""
        graph = self._sliced.model.graph
        inner = {name for i in piece.nodes for name in graph.node[i].output}
        read = dict.fromkeys(n for i in piece.nodes for n in values_read(graph.node[i]))
        small = {
            name: self._exact[name]
            if name in self._exact
            else self._computed(self._stored(self._sliced.initializers[name]))
            for name in piece.weights
            if name not in givens[0]
        }
        fed = [n for n in read if n in givens[0] and n not in inner]
        changed = [n for n in small if any(n in values for values in self._rounded)]
        entering = {**{n: givens[0][n] for n in fed}, **{n: small[n] for n in changed}}
        new = onnx.ModelProto(ir_version=self._model.ir_version, opset_import=self._model.opset_import)
        new.functions.extend(self._sliced.model.functions)
        new.graph.name = "piece"
        new.graph.node.extend(graph.node[i] for i in piece.nodes)
        new.graph.input.extend(
            make_tensor_value_info(name, np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in entering.items()
        )
        infos = self._sliced.infos
        new.graph.output.extend(infos.get(n, onnx.ValueInfoProto(name=n)) for n in outputs)
        kept = [n for n in small if n not in changed]
        new.graph.initializer.extend(numpy_helper.from_array(small[n], n) for n in kept)
        session, found = self.session(new), list[list[np.ndarray]]()
        for values, given in zip(({}, *self._rounded), givens, strict=True):
            constants = {n: values.get(n, small[n]) for n in changed}
            found.append(run_session(session, outputs, {**{n: given[n] for n in fed}, **constants}))
        return found

    def session_options(self, *, once: bool = False) -> onnxruntime.SessionOptions:
        """Return options by which memory is given back as soon as it is free."""
        options = super().session_options(once=once)
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        return options

    def _computed(self, array: np.ndarray) -> np.ndarray:
        """Return values in the type that they are computed with."""
        if self._wide and array.dtype.name == "bfloat16":
            return widen_array(array, self._memory.take(array.shape))
        return np.require(widen_array(array) if self._wide else array, requirements="C")

    def _array(self, tensor: onnx.TensorProto) -> np.ndarray:
        return self._stored(tensor)

    def _stored(self, tensor: onnx.TensorProto) -> np.ndarray:
        """Return the elements of an initializer as the file has them, mapped if they lie outside it."""
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            return numpy_helper.to_array(tensor)
        assert self._folder is not None
        places = {entry.key: entry.value for entry in tensor.external_data}
        kind, shape = tensor_dtype_to_np_dtype(tensor.data_type), tuple(tensor.dims)
        file = _beside(self._folder, places.get("location", ""))
        if not np.prod(shape, dtype=np.int64):
            return np.zeros(shape, kind)
        start = int(places.get("offset", 0))
        self._wait_for(file, start, self._stored_size(tensor))
        try:
            return np.memmap(file, kind, "r", start, shape).view(np.ndarray)
        except (OSError, ValueError) as error:
            raise ModelError("E101", f"cannot read `{tensor.name}`: {error}", place=str(file)) from error


def _still_read(values: Mapping[str, np.ndarray], last: Mapping[str, int], at: int) -> dict[str, np.ndarray]:
    """Return the values that are read behind a piece."""
    return {name: array for name, array in values.items() if last.get(name, -1) > at}


def _beside(folder: Path, location: str) -> Path:
    """Return the file of external data.

    Raises:
        ModelError: E101 where it is not in the model's folder.
    """
    file = (folder / location).resolve()
    if not location or not file.is_relative_to(folder.resolve()):
        raise ModelError("E101", f"expected external data in the model's folder, got `{location}`")
    return file


output_in_pieces = OnnxPieces
"""Makes a runner of a file; see `targets`."""
