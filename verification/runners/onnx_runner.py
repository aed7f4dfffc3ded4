"""Runs ONNX models in ONNX Runtime, with the values at module boundaries as further outputs."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from ...backends.onnx_model import write
from ...ir import Graph, ModelError, Operator, traits_of
from ...ir.outside.onnx_files import open_onnx, settle_links
from ...ir.outside.onnx_functions import has_functions, inline_functions
from ...ir.outside.onnx_in_place import open_in_place
from ...ir.outside.onnx_names import require_names
from ...ir.outside.own_folders import temporary_folder
from ...ir.types import dtype_of_onnx
from ..conditioning import Change
from ..structure.settings import ratios_in
from ..structure.sharing import Held
from .onnx_metadata import read_calls
from .onnx_rounding import KERNEL_ERRORS, is_rounded, round_results
from .onnx_selected import FINDS, selecting_operands
from .onnx_sessions import open_session, run_part, run_session, session_options
from .onnx_slices import Slices, values_read
from .onnx_weights import Weights, give_weights, split_graph, split_weights, values_of
from .records import IN_MEMORY, ValueStore
from .runs import CallRecord, KernelErrors, Run

_IN_MEMORY = 64_000_000
"""Bytes of a file above which all sessions map its weights."""

_IN_GRAPH = 1_000_000_000
"""Bytes of a graph's weights above which they are written to a file, which all sessions map."""


_SUMS = frozenset(
    {
        "AveragePool",
        "GlobalAveragePool",
        "GroupNormalization",
        "InstanceNormalization",
        "ReduceMean",
        "ReduceSum",
    }
)
"""Operators whose ONNX Runtime kernels add up many elements one after the other.

Measured: 10 units at 112 x 112 and 100 at 1024 x 1024, of means that may be far smaller than the summands, as
before squeezing layers. Other normalisations and reductions are not affected.
"""

_PLACED = frozenset({"GridSample", "Resize", "RoiAlign", "Upsample"})
"""Operators that compute positions in float32: one is off by a unit of an axis's size, a value by two."""

_SUMMED = 2**16
"""Most elements for which 64 units are enough; errors of longer sums grow with the root of their length."""


_FLOATS: dict[int, str] = {
    number: dtype_of_onnx(number)
    for number in (
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.DOUBLE,
        onnx.TensorProto.FLOAT16,
        onnx.TensorProto.BFLOAT16,
    )
}


_COARSE = frozenset({onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})
"""Element types of weights with which fused kernels compute in another precision than others do."""

_INTEGERS = frozenset({"ConvInteger", "MatMulInteger"})
"""Operators on quantised values whose names do not say so."""


class OnnxRunner:
    """An ONNX model in ONNX Runtime on the CPU.

    Args:
        model: a graph, a model in memory, or a ``.onnx`` file.
        threads: threads within an operator; None leaves the choice to ONNX Runtime.
        optimised: whether ONNX Runtime may fuse and fold, as it does for its users.
        weights: names of initializers that may be altered; None for the parameters of a graph.

    Raises:
        ModelError: when the file cannot be read, or ONNX Runtime refuses the model.
    """

    def __init__(
        self,
        model: Graph | onnx.ModelProto | Path | str,
        *,
        threads: int | None = None,
        optimised: bool = True,
        weights: Collection[str] | None = None,
    ) -> None:
        self._threads = threads
        self._optimised = optimised
        model = _with_own_names(model) if isinstance(model, Graph) else model
        self._folder: Path | None = None
        self._scratch: weakref.finalize | None = None
        written, self._shared = self._load(model)
        written = _multiplying_floats(written, in_place=written is not model)
        self._calling = _calling(written)
        self._model = inline_functions(written, in_place=written is not model)
        graph = self._model.graph
        self.runtime = f"ONNX Runtime {onnxruntime.__version__}{'' if optimised else ' (no optimisations)'}"
        initializers = {t.name for t in graph.initializer}
        self.inputs = [i.name for i in graph.input if i.name not in initializers]
        self.outputs = [o.name for o in graph.output]
        place = "" if isinstance(model, (Graph, onnx.ModelProto)) else str(model)
        if place:
            require_names(self._model, place)
        self.calls = read_calls(self._model, place)
        self._light = self._model
        if not self._shared:
            self._light, self._shared = split_weights(self._model)
        self._sliced = Slices(self._light)
        self._otherwise = list(model.origin.otherwise) if isinstance(model, Graph) else []
        self._session: onnxruntime.InferenceSession | None = None
        self._store = ValueStore()
        names = _weights(model) if weights is None else weights
        self._weights = [t for t in graph.initializer if t.name in names]
        self._altered: dict[str, np.ndarray] = {}
        self._rounding: Change | None = None
        self._errors = KERNEL_ERRORS
        self._taking: dict[tuple[Change | None, tuple[str, ...]], onnxruntime.InferenceSession] = {}

    def _load(self, model: Graph | onnx.ModelProto | Path | str) -> tuple[onnx.ModelProto, Weights]:
        """Return a model, and those of its weights that are not in it and in no file."""
        if isinstance(model, onnx.ModelProto):
            return model, {}
        if isinstance(model, Graph):
            if sum(p.data.nbytes for p in model.parameters()) <= _IN_GRAPH:
                return split_graph(model)
            return self._read(write(model, self._make_folder() / "model.onnx", external_data=True)[0]), {}
        path = Path(model)
        if path.stat().st_size <= _IN_MEMORY:
            return self._read(path), {}
        in_place = open_in_place(path)
        if in_place is not None:  # all sessions map the file itself
            self._folder = settle_links(in_place, path)
            return in_place, {}
        outside = self._make_folder() / "model.onnx"
        onnx.save(self._read(path, external=True), outside, save_as_external_data=True, location="weights")
        return self._read(outside), {}

    @property
    def model(self) -> onnx.ModelProto:
        """The model as it was read, with checked names; large tensors and a graph's may lie outside it."""
        return self._model

    def _make_folder(self) -> Path:
        folder = temporary_folder()
        self._scratch = weakref.finalize(self, folder.remove)
        return folder.path

    def _read(self, path: Path, *, external: bool = False) -> onnx.ModelProto:
        found = open_onnx(path, external=external)
        self._folder = settle_links(found, path)
        return found

    def session_options(self, *, once: bool = False) -> onnxruntime.SessionOptions:
        """Return the options of a session; `once`: of one that runs about once."""
        return session_options(self._threads, self._folder, optimised=self._optimised, once=once)

    def session(self, model: onnx.ModelProto, *, once: bool = False) -> onnxruntime.InferenceSession:
        """Return a session on a model or a part of it; `once`: whether it runs about once."""
        options = self.session_options(once=once)
        give_weights(options, model, self._shared)
        return open_session(model, options)

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the model; see `Runner`.

        The outputs come from the model as it is, fused by ONNX Runtime. The values at boundaries come from
        further sessions that have them as outputs, as many at a time as fit into memory.
        """
        feeds = self._feeds(inputs)
        self._require_same(feeds)
        outputs = run_session(self._whole(()), self.outputs, feeds)
        values = {**feeds, **dict(zip(self.outputs, outputs, strict=True))}
        named = list(zip(self.outputs, outputs, strict=True))
        if not calls or not self.calls:
            return Run(named)
        boundaries = {
            n: None for r in self.calls.values() for n in [*r["inputs"], *r["outputs"]] if n not in values
        }
        self._store = ValueStore()
        for names in self._sliced.group_names(list(boundaries), feeds, IN_MEMORY):
            found = run_session(self._whole(tuple(names)), names, feeds)
            values.update(zip(names, map(self._store.keep, found), strict=True))
        return Run(named, self._records(values), self._store)

    def _require_same(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Refuse sizes at which the graph's source computes something else."""
        sizes = self._sliced.sizes(feeds) if self._otherwise else {}
        for symbol, size, why in self._otherwise:
            if sizes.get(symbol) == size:
                raise ModelError("E702", why)

    def _records(self, values: Mapping[str, np.ndarray]) -> dict[str, CallRecord]:
        return {
            call: CallRecord(
                str(record.get("class", "")),
                [values[name] for name in record["inputs"]],
                [values[name] for name in record["outputs"]],
                record.get("alone") is not False,
            )
            for call, record in self.calls.items()
        }

    def run_with(self, inputs: Mapping[str, np.ndarray], given: Mapping[str, Sequence[np.ndarray]]) -> Run:
        """Run the model with other values in place of what some calls return; see `Runner`."""
        feeds = self._feeds(inputs)
        values = dict(feeds)
        for call, outputs in given.items():
            values.update(zip(self.calls[call]["outputs"], outputs, strict=True))
        edges = [n for r in self.calls.values() for n in [*r["inputs"], *r["outputs"]]]
        wanted = [n for n in dict.fromkeys([*self.outputs, *edges]) if n not in values]
        known, store = dict(values), ValueStore()
        for names in self._sliced.group_names(wanted, feeds, IN_MEMORY):
            found = run_session(self.session(self._sliced.between(list(known), names)), names, known)
            values.update(zip(names, map(store.keep, found), strict=True))
        return Run([(name, values[name]) for name in self.outputs], self._records(values), store)

    def _whole(self, further: tuple[str, ...]) -> onnxruntime.InferenceSession:
        """Return a session on the whole model; cached unless it has further outputs and no weight inputs."""
        if self._altered or (self._rounding is not None and self._rounds):
            key = (self._rounding, further)
            if key not in self._taking:
                taking = self._sliced.with_outputs(further)
                _take(taking, self._altered)
                round_results(taking, self._rounding, self._errors)
                self._taking[key] = self.session(taking)
            return self._taking[key]
        if further:
            return self.session(self._sliced.with_outputs(further), once=True)
        if self._session is None:
            self._session = self.session(self._as_written())
        return self._session

    def _as_run(self, further: tuple[str, ...]) -> onnxruntime.InferenceSession:
        """Return a session whose values are those of `run` to the last bit, in the same layout; cached."""
        key = (None, further)
        if key not in self._taking:
            self._taking[key] = self.session(self._sliced.with_outputs(further))
        return self._taking[key]

    def _as_written(self) -> onnx.ModelProto:
        """Return the model with the functions that the file has."""
        if self._calling is None:
            return self._light
        new = onnx.ModelProto()
        new.CopyFrom(self._calling)
        read = {name for node in new.graph.node for name in values_read(node)} | set(self.outputs)
        new.graph.initializer.extend(t for t in self._light.graph.initializer if t.name in read)
        return new

    def run_varied(
        self,
        inputs: Mapping[str, np.ndarray],
        names: Collection[str],
        change: Callable[[np.ndarray], np.ndarray],
    ) -> Iterator[tuple[str, list[np.ndarray]]]:
        """Yield (name, outputs) with each of some parameters changed alone, in one session."""
        arrays = {t.name: self._array(t) for t in self._weights if t.name in names}
        taking = self._sliced.with_outputs(())
        _take(taking, arrays)
        session, feeds = self.session(taking), {**self._feeds(inputs), **arrays}
        for name, array in arrays.items():
            yield name, run_session(session, self.outputs, {**feeds, name: change(array)})

    @contextmanager
    def altered(
        self, change: Callable[[np.ndarray], np.ndarray], call: str = "", only: str = ""
    ) -> Iterator[None]:
        """Change every floating-point parameter of a graph in a with block; see `Runner`."""
        used = [t for t in self._weights if not only or t.name == only]
        if call:
            record = self.calls[call]
            part = self._sliced.between(record["inputs"], record["outputs"])
            names = {t.name for t in part.graph.initializer}
            used = [t for t in used if t.name in names]
        self._rounding = change if isinstance(change, Change) else None
        self._altered = {t.name: change(self._array(t)) for t in used}
        try:
            yield
        finally:
            self._altered, self._rounding = {}, None

    def holding(self, values: Mapping[str, np.ndarray]) -> OnnxRunner:
        """Return the model with other values of initializers, by name, in a runner of its own."""
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        for tensor in model.graph.initializer:
            if tensor.name in values:
                tensor.CopyFrom(onnx.numpy_helper.from_array(values[tensor.name], tensor.name))
        found = OnnxRunner(model, threads=self._threads, optimised=self._optimised)
        found._folder = self._folder  # where values that are not in the file lie
        return found

    def selected_values(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Return the values by which a run selects elements; see `Selecting`."""
        nodes = [node for node in self._model.graph.node if not node.domain]
        finds = any(node.op_type in FINDS for node in nodes)
        known = {t.name for t in self._model.graph.initializer}
        read = [v for n in nodes for v in n.input[selecting_operands(n.op_type, finds=finds)]]
        names = [name for name in dict.fromkeys(read) if name and name not in known]
        feeds = self._feeds(inputs)
        computed = [name for name in names if name not in feeds]
        found = run_session(self._as_run(tuple(computed)), computed, feeds) if computed else []
        values = {**feeds, **dict(zip(computed, found, strict=True))}
        return [values[name] for name in names if values[name].dtype.kind == "f"]

    def _feeds(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if set(self.inputs) <= set(inputs):
            return {**{name: inputs[name] for name in self.inputs}, **self._altered}
        if len(self.inputs) != len(inputs):
            raise ModelError(
                "E702",
                f"expected {len(self.inputs)} inputs ({', '.join(self.inputs)}), got {', '.join(inputs)}",
            )
        return {**dict(zip(self.inputs, inputs.values(), strict=True)), **self._altered}

    def part(
        self, inputs: Sequence[str], outputs: Sequence[str]
    ) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
        """Return a function that runs the model between some values and others, any number of times."""
        session = self.session(self._sliced.between(inputs, outputs))
        return partial(run_part, session, self._shared, inputs, outputs)

    def dims(self, name: str) -> list[int | None]:
        """Return the sizes of a value; None for unknown ones."""
        dims = self._sliced.infos[name].type.tensor_type.shape.dim if name in self._sliced.infos else []
        return [d.dim_value if d.HasField("dim_value") else None for d in dims]

    def run_module(self, call: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run the part of the model between a call's inputs and its outputs; see `Runner`."""
        record = self.calls[call]
        part = self._sliced.between(record["inputs"], record["outputs"])
        _take(part, self._altered)
        round_results(part, self._rounding, self._errors)
        feeds = {**self._altered, **dict(zip(record["inputs"], inputs, strict=True))}
        return run_session(self.session(part, once=True), record["outputs"], feeds)

    @cached_property
    def _rounds(self) -> bool:
        """Whether rounding is added to a result of the model."""
        return any(is_rounded(node, self._errors) for node in self._model.graph.node)

    @property
    def kernel_errors(self) -> KernelErrors:
        """Return the errors of coarse kernels; see `Coarse`."""
        return KERNEL_ERRORS

    def round_like(self, errors: KernelErrors) -> None:
        """Take errors into account that the other runtime's kernels have; see `RoundsLike`."""
        self._errors = {**errors, **KERNEL_ERRORS}

    @property
    def fuses(self) -> bool:
        """Whether ONNX Runtime may fuse; see `Fusing`."""
        return self._optimised

    @cached_property
    def rounds_coarsely(self) -> bool:
        """Whether the model quantises or computes in 16 bits; see `Fusing`."""
        return any(_is_coarse(node) for node in self._model.graph.node) or any(
            tensor.data_type in _COARSE for tensor in self._model.graph.initializer
        )

    @contextmanager
    def fusing(self, on: bool) -> Iterator[None]:
        """Fuse operators in a with block, or run them one by one there; see `Fusing`."""
        kept = self._optimised, self._session, self._taking
        if on is not self._optimised:
            self._optimised, self._session, self._taking = on, None, {}
        try:
            yield
        finally:
            self._optimised, self._session, self._taking = kept

    def held(self) -> list[Held]:
        """Return the model's floating-point tensors: initializers, and values of Constant nodes."""
        graph = self._model.graph
        nodes = [n for n in graph.node if n.op_type == "Constant"]
        constants = [(n.output[0], a.t) for n in nodes for a in n.attribute if a.name == "value"]
        return [
            Held((name,), _FLOATS[t.data_type], tuple(t.dims), partial(self._array, t))
            for name, t in [*((t.name, t) for t in graph.initializer), *constants]
            if t.data_type in _FLOATS
        ]

    def ratios(self) -> list[float]:
        """Return the ratios of the Dropouts in the model."""
        return ratios_in(self._model)

    def _array(self, tensor: onnx.TensorProto) -> np.ndarray:
        return values_of(tensor, self._shared, self._folder)

    def ulp_tolerance(self, operators: Sequence[Operator]) -> int:
        """Return the units in the last place that the runtime's arithmetic may cost; see `Runner`."""
        placed = any(not o.domain and o.op_type in _PLACED for o in operators)
        least = max(16, 2 * self._longest_extent) if placed else 16
        if not any(o.traits.pool if o.domain else o.op_type in _SUMS for o in operators):
            return least
        return max(least, math.ceil(64 * max(1.0, (self._longest_sum / _SUMMED) ** 0.5)))

    @cached_property
    def _longest_extent(self) -> int:
        """The largest size of an axis along which an operator computes positions between elements."""
        placed = [node.input[0] for node in self._model.graph.node if node.op_type in _PLACED]
        return max((size for name in placed for size in self.dims(name)[2:] if size), default=0)

    @cached_property
    def _longest_sum(self) -> int:
        """The elements of an example, of a channel where each has its own mean, that one operator adds up."""
        longest = 0
        for node in self._model.graph.node:
            if node.op_type in _SUMS:
                dims = self.dims(node.input[0])[1 if traits_of(node.op_type).reduction else 2 :]
                longest = max(longest, math.prod(d for d in dims if d))
        return longest

    def close(self) -> None:
        """Free the session and the temporary files."""
        self._session = None
        self._store.clear()
        self._taking = {}
        if self._scratch is not None:
            self._scratch()


def _calling(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return a model without its weights where it has classes of modules as functions; else None."""
    if not has_functions(model):
        return None
    found = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    found.functions.extend(model.functions)
    for name in ("node", "input", "output", "value_info"):
        getattr(found.graph, name).extend(getattr(model.graph, name))
    found.graph.name = model.graph.name
    return found


def _multiplying_floats(model: onnx.ModelProto, *, in_place: bool) -> onnx.ModelProto:
    """Return a model whose products with weights of few bits are of floats, as its graph's are.

    The file may let ONNX Runtime round the other operand to 8 bits, which costs a percent.
    """
    if not any(_rounds_operands(node) for node in model.graph.node):
        return model
    found = model
    if not in_place:
        found = onnx.ModelProto()
        found.CopyFrom(model)
    for node in filter(_rounds_operands, found.graph.node):
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 1
    return found


def _rounds_operands(node: onnx.NodeProto) -> bool:
    return node.op_type == "MatMulNBits" and any(
        a.name == "accuracy_level" and a.i > 1 for a in node.attribute
    )


def _is_coarse(node: onnx.NodeProto) -> bool:
    """Whether an operator takes or gives quantised values."""
    return (
        "quantize" in node.op_type.lower() or node.op_type.startswith("QLinear") or node.op_type in _INTEGERS
    )


def _with_own_names(graph: Graph) -> Graph:
    """Return a graph whose parameters have names of their own: itself, or a copy.

    A source may have two of one name, and its graph is run before any pass.
    """
    taken: set[str] = set()
    double = [p for p in graph.parameters() if p.name in taken or taken.add(p.name)]
    if not double:
        return graph
    new = graph.copy()
    taken |= {node.name for node in graph.input_nodes()}
    for key in [parameter.key for parameter in double]:
        parameter, number = new.parameter(key), 2
        while f"{parameter.name}_{number}" in taken:
            number += 1
        parameter.name = f"{parameter.name}_{number}"
        taken.add(parameter.name)
    return new


def _weights(model: Graph | onnx.ModelProto | Path | str) -> set[str]:
    """Return the names of the parameters that may be altered, without constants of the arithmetic."""
    known = ("float16", "float32", "float64")
    return (
        {p.name for p in model.parameters() if p.data.dtype in known} if isinstance(model, Graph) else set()
    )


def _take(model: onnx.ModelProto, names: Collection[str]) -> None:
    """Turn some of a model's initializers into inputs."""
    if not names:
        return
    taken = [t for t in model.graph.initializer if t.name in names]
    left = [t for t in model.graph.initializer if t.name not in names]
    known = {i.name for i in model.graph.input}
    model.graph.input.extend(
        onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in taken if t.name not in known
    )
    del model.graph.initializer[:]
    model.graph.initializer.extend(left)


def output_runner(path: Path, threads: int | None = None, *, optimised: bool = True) -> OnnxRunner:
    """Return a runner of a file; see `registry`."""
    return OnnxRunner(path, threads=threads, optimised=optimised)
