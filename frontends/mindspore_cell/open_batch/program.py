"""One compile for batches of every size: MindSpore leaves the batch unknown, and its size is named here.

Types say -1 where the batch is, and what that means follows operator by operator. A size that the net asks
for is an operator of the program, and becomes a constant with N in it, as two compiles would show it. What is
not certain is left to `batch`, which compares two compiles at two sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from ....ir import TensorType
from ....ir.dims import Dim, at_sizes, product
from ..batch import BatchDependenceError
from ..cell_calls import CallFinder, Marker
from ..mindir import Node, Program
from ..recording import CellCall
from .shapes import ITEMS, SHAPED, TUPLES, Shape, completed, holds_size, in_order, shape_of, size_of

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

_SIZES = {"shape", "shape_", "Shape", "TensorShape", "size", "size_", "Size", "len", "view_as", "expand_as"}
"""Names with which a construct asks for sizes."""

_SLICE_INPUTS = 9
"""Inputs of StridedSlice: operand, begin, end, strides; masks of begin, end, ellipsis, new, shrunk axes."""

_MAKERS = {
    *("zeros", "ones", "full", "fill", "arange", "linspace", "eye", "zeros_like", "ones_like", "full_like"),
    *("item", "asnumpy"),
}
"""Names with which a construct makes tensors, or numbers, of sizes that are no sizes of its arguments."""


def asks_for_sizes(cells: Sequence[Any]) -> bool:
    """Whether code of the user's asks for a size."""
    return any(not _SIZES.isdisjoint(names) for names in _names_in_use(cells))


def makes_of_sizes(cells: Sequence[Any]) -> bool:
    """Whether code of the user's may make tensors of sizes, which a compile for any batch does not know."""
    found = set(chain.from_iterable(_names_in_use(cells)))
    return not (_SIZES.isdisjoint(found) or _MAKERS.isdisjoint(found))


def _names_in_use(cells: Sequence[Any]) -> Iterator[Sequence[str]]:
    """Yield names in every user function that a construct runs, except those that only training asks."""
    seen: set[CodeType] = set()
    waiting = [(f, type(cell)) for cell in cells for f in _methods(type(cell), "construct")]
    while waiting:
        function, kind = waiting.pop()
        code = function.__code__
        if code in seen or (function.__module__ or "").startswith("mindspore."):
            continue
        seen.add(code)
        names = list(_names(code))
        if "training" in names:
            continue
        yield names
        for name in names:
            named = function.__globals__.get(name)
            if isinstance(named, FunctionType):
                waiting.append((named, kind))
            waiting += [(f, kind) for f in _methods(kind, name)]


def _methods(kind: type, name: str) -> Iterator[FunctionType]:
    """Yield a method of a class; a property and a static one are such too."""
    for cls in kind.__mro__:
        if name in vars(cls):
            found = vars(cls)[name]
            found = getattr(found, "__func__", getattr(found, "fget", found))
            if isinstance(found, FunctionType):
                yield found
            return


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
        """Return the batch on symbolic axes of arguments; None where those are others than axis 0."""
        sizes = {a.shape[0] for i, a in enumerate(arguments) if i in axes and a is not None and a.ndim}
        if len(sizes) != 1 or any(tuple(a) != (0,) for a in axes.values()):
            return None
        return OpenBatch(arguments, frozenset(axes), sizes.pop())

    def tensors(self) -> list[Any]:
        """Return the tensors for which the program is compiled."""
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
                size = size_of(node, types, values)
                if size is not None:
                    values[node.name] = size
                    node = Node(node.name, "Constant", value=size)
                else:
                    types[node.name] = _result(node, types, values)
                    node = replace(node, type=types[node.name])
            nodes.append(node)
        found = replace(program, inputs=inputs, nodes=tuple(in_order(nodes, program.output)))
        _require_known(found, positions, calls, {"N": self.size})
        return found


def _result(node: Node, types: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    operands = [types.get(name) for name in node.inputs]
    if node.op in TUPLES and any(map(_has_batch, operands)):
        return tuple(operands)
    if node.op in ITEMS and isinstance(operands[0], tuple):
        return operands[0][values[node.inputs[1]]]
    if node.op == "UpdateState":
        return node.type
    if any(holds_size(values.get(name)) for name in node.inputs):
        if node.op not in SHAPED or isinstance(node.type, tuple):
            raise BatchDependenceError(f"`{node.op}` may depend on the batch size")
    elif not (any(map(_has_batch, operands)) or _is_open(node.type)):
        return node.type
    shape = shape_of(node, operands, values)
    if isinstance(node.type, tuple):
        shapes = _shapes_beside(node, shape)
        return tuple(_one(node, t, s, operands, values) for t, s in zip(node.type, shapes, strict=True))
    return _one(node, node.type, shape, operands, values)


def _shapes_beside(node: Node, shape: Shape | None) -> Sequence[Shape | None]:
    """Return the shape of each result, where the rule of the operator gives one."""
    if shape is None or node.op != "LayerNorm":
        return [shape] * len(node.type)
    beside = [t.shape or () for t in node.type[1:]]  # statistics: 1 along what is normalised
    kept = [tuple(d if s is None else s for d, s in zip(shape, t, strict=False)) for t in beside]
    return [shape, *kept]


def _one(
    node: Node, stated: Any, shape: Shape | None, operands: Sequence[Any], values: Mapping[str, Any]
) -> Any:
    """One result's type: by the operator's rule, with the rows of its operands, or what a count leaves."""
    sizes = getattr(stated, "shape", None)
    if shape is not None and sizes is not None and len(sizes) == len(shape):
        found = stated.with_shape(shape)
        sized = node.op != "StridedSlice" or any(holds_size(values.get(name)) for name in node.inputs)
        moved = found != operands[0] or not (sized and node.op in SHAPED)
        if moved and all(s in (None, d) for s, d in zip(sizes, shape, strict=True)):
            return found  # where nothing moves, compiles at sizes may have left the operator out
        raise BatchDependenceError(f"`{node.op}` may depend on the batch size")
    sources = [t for t in _tensors(operands) if _has_batch(t)]
    if node.op == "BatchNorm" and sources and not _is_open(stated):
        return stated  # statistics, of channels
    unknown = [i for i, d in enumerate(getattr(stated, "shape", None) or ()) if d is None]
    if len(unknown) == 1 and sources:
        first = sources[0]
        if node.op in _KEEP_COUNT:
            found = stated.with_shape(completed(stated.shape, product(first.shape)))
            if not _is_open(found) and found != first:  # equal: sizes would have left the operator out
                return found
        elif unknown == [0] and _keeps_rows(node, values):
            shapes = [t.shape for t in sources]
            only_rows = not any(_has_batch(t.with_shape(t.shape[1:])) for t in sources)
            if only_rows and len({s[0] for s in shapes}) == len({len(s) for s in shapes}) == 1:
                return _with_rows(stated, first.shape[0])
    raise BatchDependenceError(f"`{node.op}` may depend on the batch size")


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


def _require_known(
    program: Program, positions: Sequence[int], calls: Sequence[CellCall], sizes: Mapping[str, int]
) -> None:
    """Require that what leaves every call has the shape that it had when the example was run."""
    of_node = CallFinder(calls).attribute_program(program, positions).of_node
    if asks_for_sizes([call.cell for call in calls]):
        _require_reshapes(program, lambda name: type(calls[of_node.get(name, 0)].cell).__name__)
    for node in program.nodes:
        marker = Marker.of(node)
        if marker is None or marker.is_entry or node.name not in of_node:
            continue
        shapes = calls[of_node[node.name]].shapes
        expected = shapes[marker.position] if marker.position < len(shapes) else None
        stated = getattr(node.type, "shape", None)
        if expected is None or stated is None or tuple(at_sizes(d, sizes) for d in stated) != expected:
            raise BatchDependenceError("a result has another shape in the example")


def _require_reshapes(program: Program, kind_of: Callable[[str], str]) -> None:
    """Require of each reshape that it is the one that compiles at sizes show, where the code asks for sizes.

    Two in a row are one there, unless something else reads the first. One to two axes flattens if the first
    is the size of axis 0, and -1 may stand for that here; layers of normalisation are known to write it so.
    """
    made = {node.name: node for node in program.nodes}
    types = {**dict(program.inputs), **{name: node.type for name, node in made.items()}}
    for node in program.nodes:
        if node.op != "Reshape":
            continue
        before, sizes = (made.get(name) for name in node.inputs)
        if before is not None and before.op == "Reshape":
            raise BatchDependenceError("a reshape is left out where nobody asks for its size")
        flat, shape = node.type.shape, getattr(types.get(node.inputs[0]), "shape", None)
        is_open = sizes is not None and isinstance(sizes.value, tuple) and sizes.value[:1] == (-1,)
        flattens = shape and len(flat) == len(("rows", "rest")) < len(shape) and flat[0] == shape[0]
        if flattens and is_open and "BatchNorm" not in kind_of(node.name):
            raise BatchDependenceError("a reshape may be the flattening of all axes but the first")
