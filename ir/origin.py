"""The origin of a graph: its model, its example inputs, and notes for the reader of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from .nesting import Nest
from .nodes import Value
from .tensors import TensorData
from .types import Array


@dataclass(slots=True)
class Origin:
    """The origin of a graph; opaque to the IR, read by verification and by reports.

    Attributes:
        framework: "torch", "mindspore", "mxnet" or "".
        title: how that framework writes its own name; empty where there is none.
        has_modules: whether that framework's models are made of modules, and not one list of operators.
        reference: what a person would call the model: ``net.py:Net``, ``x-symbol.json``.
        model: the live model object or path that the framework can run, or None.
        inputs: example inputs by name.
        constants: what the caller fixed of the model's own inputs, by name: the graph has no such input.
        given: whether the user gave their values rather than their shapes.
        ranges: least and upper bound (which is not reached) of the values of inputs, where the user said so.
        notes: what a reader of the result should know ("captured in eval mode", …).
        assumed: those of the notes on what holds for some inputs only: verification tries to contradict them.
        otherwise: (symbol, size, why) of sizes at which the model computes something else than the graph.
        unreliable: notes on operators that the source's framework now and then computes wrong.
        arguments: key of a module call -> name and value of each tensor that the source gives it, in the
            source's order; two arguments may be one value.
        results: how the model nests what it returns, by the names of the graph's outputs; None if unknown.
        keyed: whether the model itself names each of its outputs (keys of a dict, fields, names in a file):
            then their order says nothing.
        arrange: makes the model's arguments and keywords of its tensors in order, where it takes nested ones.
        trusted: whether the file at `model`, which was read as data, may be run by its framework.
        is_reading: whether `model` is what regraft made of a file's code, which its framework did not run.
        parameters: the file with its parameters, where `model` is a file without them; None for none.
        landmarks: (name of a node of the source, number of its output) -> the value that it became, in
            the order of its run; where the source's own runtime can show what nodes give.
        packed: name of a vector in the source's checkpoint -> the names of the parameters that it holds, in
            order; the graph has them in its place.
        aliases: further names under which the checkpoints of an ONNX file's model hold parameters that two
            modules share; PyTorch's own hold one under every path.
        settled: name in the source's checkpoints -> the values of a buffer that is a constant of the graph.
        computed: names in the source's checkpoints of tensors of which the file holds only what its exporter
            computed with them.
        ends: (input, internal value) where passes ended the net before its outputs; see `analysis.ending`.
        upcast: names of outputs that the source's code gives in float32 in a copy of lower precision too.
        joined: (new input, the input behind whose samples a pass put its own, the new input's outputs): they
            go through the net as one batch.
    """

    framework: str = ""
    title: str = ""
    has_modules: bool = False
    reference: str = ""
    model: object = None
    inputs: dict[str, Array] = field(default_factory=dict[str, Array])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    given: bool = False
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    notes: list[str] = field(default_factory=list[str])
    assumed: list[str] = field(default_factory=list[str])
    otherwise: list[tuple[str, int, str]] = field(default_factory=list[tuple[str, int, str]])
    unreliable: list[str] = field(default_factory=list[str])
    arguments: dict[int, list[tuple[str, Value]]] = field(default_factory=dict[int, list[tuple[str, Value]]])
    results: Nest = None
    keyed: bool = False
    arrange: Callable[[Sequence[object]], tuple[list[object], dict[str, object]]] | None = None
    trusted: bool = False
    is_reading: bool = False
    parameters: object = None
    landmarks: dict[tuple[str, int], Value] = field(default_factory=dict[tuple[str, int], Value])
    packed: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    aliases: frozenset[str] = frozenset()
    settled: dict[str, TensorData] = field(default_factory=dict[str, TensorData])
    computed: tuple[str, ...] = ()
    ends: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    upcast: frozenset[str] = frozenset()
    joined: list[tuple[str, str, tuple[str, ...]]] = field(
        default_factory=list[tuple[str, str, tuple[str, ...]]]
    )

    def copy(self) -> Origin:
        """Return the same origin with inputs, notes and landmarks of its own; model and arrays are shared."""
        return replace(
            self,
            inputs=dict(self.inputs),
            constants=dict(self.constants),
            ranges=dict(self.ranges),
            notes=list(self.notes),
            assumed=list(self.assumed),
            unreliable=list(self.unreliable),
            otherwise=list(self.otherwise),
            landmarks=dict(self.landmarks),
            arguments={call: list(given) for call, given in self.arguments.items()},
            packed=dict(self.packed),
            settled=dict(self.settled),
            ends=list(self.ends),
            joined=list(self.joined),
        )
