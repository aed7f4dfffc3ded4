"""One compile for batches of every size: MindSpore leaves the batch unknown, and its size is named here.

Where a net asks for no size, its program holds no number that came from one; types say -1 where the batch is,
and what that means follows operator by operator. What is not certain is left to `batch`, which compares two
compiles at two sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from ...ir import TensorType
from ...ir.dims import Dim, Size, at_sizes, product
from .batch import BatchDependenceError
from .cell_calls import CallFinder, Marker
from .mindir import Node, Program
from .recording import CellCall

_KEEP_COUNT = {"Reshape", "Flatten", "FlattenExt", "ExpandDims", "Squeeze", "Transpose"}
"""Operators that keep the number of elements."""

_KEEP_ROWS = {
    *(
        "Identity",
        "Load",
        "Depend",
        "Cast",
        "BiasAdd",
        "Add",
        "AddExt",
        "Sub",
        "SubExt",
        "Mul",
        "Muls",
        "Div",
    ),
    *(
        "RealDiv",
        "Maximum",
        "Minimum",
        "InplaceAddExt",
        "Pow",
        "Sqrt",
        "Rsqrt",
        "Square",
        "Exp",
        "Log",
        "Neg",
    ),
    *("Abs", "Erf", "ReLU", "ReLU6", "LeakyReLU", "LeakyReLUExt", "PReLU", "Elu", "SeLU", "CeLU", "Sigmoid"),
    *("HSigmoid", "HSwish", "SiLU", "GeLU", "Tanh", "Softplus", "Mish", "Softmax", "LogSoftmax"),
    *("BatchNorm", "LayerNorm", "LayerNormExt", "GroupNorm", "L2Normalize", "LRN", "InstanceNorm"),
    *("Conv2D", "Conv3D", "DepthwiseConv2dNative", "MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D"),
    *("AdaptiveAvgPool2D", "MatMul", "BatchMatMul", "Dense", "ReduceMean", "ReduceSum", "ReduceMax"),
    *("ResizeNearestNeighbor", "ResizeBilinearV2", "LpNorm", "Gather", "Adds", "Subs", "Divs"),
}
"""Operators whose result has on axis 0 what their operands have there, where that alone is unknown."""

_SLICE_INPUTS = 9
"""Of StridedSlice: operand, begin, end, strides; masks of begin, end, ellipsis, new and shrunk axes."""

_SIZES = {"shape", "shape_", "Shape", "TensorShape", "size", "size_", "Size", "len", "view_as", "expand_as"}
"""Names with which a construct asks for sizes."""


def asks_for_sizes(cells: Sequence[Any]) -> bool:
    """Whether code of the user's asks for a size, where a compile for any batch would be of no use."""
    seen: set[CodeType] = set()
    return any(_asks(type(cell), "construct", seen) for cell in cells)


def _asks(kind: type, name: str, seen: set[CodeType]) -> bool:
    for cls in kind.__mro__:
        found = vars(cls).get(name)
        if found is not None:
            return isinstance(found, FunctionType) and _function_asks(found, kind, seen)
    return False


def _function_asks(function: FunctionType, kind: type | None, seen: set[CodeType]) -> bool:
    """Whether a function asks for a size, or another of the user's that it names."""
    code = function.__code__
    if code in seen or (function.__module__ or "").startswith("mindspore."):
        return False
    seen.add(code)
    names = list(_names(code))
    if "training" in names:
        return False  # what drops in training asks there
    for name in names:
        if name in _SIZES:
            return True
        named = function.__globals__.get(name)
        if isinstance(named, FunctionType) and _function_asks(named, None, seen):
            return True
        if kind is not None and _asks(kind, name, seen):
            return True
    return False


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch that a compile is to leave open.

    Attributes:
        arguments: of the example; None is passed as None.
        batched: numbers of those whose axis 0 is the batch.
        size: the batch of the example.
    """

    arguments: Sequence[np.ndarray | None]
    batched: frozenset[int]
    size: int

    @staticmethod
    def of(arguments: Sequence[np.ndarray | None], axes: Mapping[int, Sequence[int]]) -> OpenBatch | None:
        """The batch on symbolic axes of arguments; None where those are others than axis 0."""
        sizes = {a.shape[0] for i, a in enumerate(arguments) if i in axes and a is not None and a.ndim}
        if len(sizes) != 1 or any(tuple(a) != (0,) for a in axes.values()):
            return None
        return OpenBatch(arguments, frozenset(axes), sizes.pop())

    def tensors(self) -> list[Any]:
        """What is compiled for."""
        from mindspore import Tensor

        return [
            Tensor(shape=[None, *a.shape[1:]], dtype=Tensor(a.reshape(-1)[:1]).dtype)
            if a is not None and i in self.batched
            else a
            for i, a in enumerate(self.arguments)
        ]

    def named(self, program: Program, calls: Sequence[CellCall]) -> Program:
        """Return a program compiled for `tensors` with the types that it has at N.

        Args:
            program: with None in types where the batch may be.
            calls: of the run of the example, whose shapes the types must have at its batch.

        Raises:
            BatchDependenceError: where a type or a size remains unknown, or the run had another.
        """
        if program.functions:
            raise BatchDependenceError("tensors decide what runs")
        positions = [i for i, a in enumerate(self.arguments) if a is not None]
        inputs = tuple(
            (name, _with_rows(type_, "N") if position in self.batched else type_)
            for (name, type_), position in zip(program.inputs, positions, strict=True)
        )
        types: dict[str, Any] = dict(inputs)
        values = {n.name: n.value for n in program.nodes if n.op == "Constant"}
        nodes: list[Node] = []
        for node in program.nodes:
            if node.op != "Constant":
                types[node.name] = _result(node, types, values)
                node = replace(node, type=types[node.name])
            nodes.append(node)
        found = replace(program, inputs=inputs, nodes=tuple(nodes))
        _require_shapes(found, positions, calls, {"N": self.size})
        return found


def _result(node: Node, types: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    operands = [types.get(name) for name in node.inputs]
    if node.op in ("MakeTuple", "make_list", "MakeList") and any(map(_has_batch, operands)):
        return tuple(operands)
    if node.op in ("TupleGetItem", "ListGetItem", "list_getitem") and isinstance(operands[0], tuple):
        return operands[0][values[node.inputs[1]]]
    if node.op == "UpdateState" or not (any(map(_has_batch, operands)) or _is_open(node.type)):
        return node.type
    if isinstance(node.type, tuple):
        return tuple(_one(node, stated, operands, values) for stated in node.type)
    return _one(node, node.type, operands, values)


def _one(node: Node, stated: Any, operands: Sequence[Any], values: Mapping[str, Any]) -> Any:
    """One result's type: its rows are those of the operands, or what the number of elements leaves."""
    sources = [t for t in _tensors(operands) if _has_batch(t)]
    if node.op == "BatchNorm" and sources and not _is_open(stated):
        return stated  # statistics, of channels
    unknown = [i for i, d in enumerate(getattr(stated, "shape", None) or ()) if d is None]
    if len(unknown) == 1 and sources:
        first = sources[0]
        if node.op in _KEEP_COUNT:
            found = stated.with_shape(_completed(stated.shape, product(first.shape)))
            if not _is_open(found) and found != first:  # equal: sizes would have left the operator out
                return found
        elif unknown == [0] and _keeps_rows(node, values):
            shapes = [t.shape for t in sources]
            only_rows = not any(_has_batch(t.with_shape(t.shape[1:])) for t in sources)
            if only_rows and len({s[0] for s in shapes}) == len({len(s) for s in shapes}) == 1:
                return _with_rows(stated, first.shape[0])
    raise BatchDependenceError(f"`{node.op}` may depend on the batch size")


def _completed(shape: Sequence[Dim], count: Dim) -> tuple[Dim, ...]:
    """A shape with what is missing for a number of elements in place of its None, where that divides it."""
    rest = product(d for d in shape if d is not None)
    size = None if count is None or not rest else Size.of(count).divide(Size.of(rest))
    return tuple((size and size.dim) if d is None else d for d in shape)


def _keeps_rows(node: Node, values: Mapping[str, Any]) -> bool:
    """Whether axis 0 of a result is as long as that of the operands, where nothing else about it is known."""
    given = [values.get(name) for name in node.inputs]
    match node.op:
        case "Concat" | "Split":
            axis = given[-1 if node.op == "Concat" else 1] if len(given) > 1 else node.attributes.get("axis")
            return type(axis) is int and axis > 0
        case "StridedSlice" if len(given) == _SLICE_INPUTS:
            (_, begin, _, strides), masks = given[:4], given[4:]
            begin_mask, end_mask, ellipsis, new_axis, shrunk = (m if type(m) is int else 0 for m in masks)
            if None in masks:
                return False
            from_start = begin_mask & 1 or (isinstance(begin, tuple) and begin[:1] == (0,))
            whole = from_start and end_mask & 1 and isinstance(strides, tuple) and strides[:1] == (1,)
            return bool(whole) and not (ellipsis or new_axis or shrunk & 1)
        case _:
            return node.op in _KEEP_ROWS


def _with_rows(type_: TensorType, rows: Dim) -> TensorType:
    return type_.with_shape((rows, *(type_.shape or ())[1:]))


def _tensors(types: Iterable[Any]) -> Iterator[Any]:
    for each in types:
        if isinstance(each, tuple):
            yield from _tensors(each)
        elif isinstance(each, TensorType):
            yield each


def _has_batch(type_: Any) -> bool:
    return any(isinstance(d, str) for t in _tensors([type_]) for d in t.shape or ())


def _is_open(type_: Any) -> bool:
    return any(t.shape is None or None in t.shape for t in _tensors([type_]))


def _require_shapes(
    program: Program, positions: Sequence[int], calls: Sequence[CellCall], sizes: Mapping[str, int]
) -> None:
    """Require that what leaves every call has the shape that it had when the example was run."""
    of_node = CallFinder(calls).attribute_program(program, positions).of_node
    for node in program.nodes:
        marker = Marker.of(node)
        if marker is None or marker.is_entry or node.name not in of_node:
            continue
        shapes = calls[of_node[node.name]].shapes
        expected = shapes[marker.position] if marker.position < len(shapes) else None
        stated = getattr(node.type, "shape", None)
        if expected is None or stated is None or tuple(at_sizes(d, sizes) for d in stated) != expected:
            raise BatchDependenceError("a result has another shape in the example")
