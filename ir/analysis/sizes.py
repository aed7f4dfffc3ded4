"""Sizes that operators compute with: what small integer tensors hold, as symbols, and shapes made of them.

ONNX's own rules keep a symbol through Shape, Gather and Concat of one operator after the other only where
they see the whole model, and lose it at the first sum, quotient or window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..dims import Dim, Size, broadcast, product
from ..graph import Graph
from ..nodes import Operator, Value
from ..types import TensorType

Content = tuple[Size | None, ...]
"""The elements of a vector, or the one of a scalar; None for one that is not known."""

_MOST = 64  # elements
_FAR = 1 << 31  # a bound of a slice from here on means the end

_ALIKE = ("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape")


class Sizes:
    """The known values of the small integer tensors of one graph.

    Args:
        graph: as far as it is built.

    Attributes:
        settled: the key from which on nodes of the graph are still to be followed.
    """

    def __init__(self, graph: Graph) -> None:
        self.settled = graph.next_key
        self._known: dict[Value, Content] = {}

    def of(self, graph: Graph, value: Value | None) -> Content | None:
        """Return what a value holds; None where it is nothing that was followed."""
        if value is None:
            return None
        if value in self._known:
            return self._known[value]
        array = graph.constant_value(value)
        if array is None or array.dtype.kind not in "iu" or array.size > _MOST or array.ndim > 1:
            return None
        return tuple(Size.of(int(n)) for n in array.reshape(-1))

    def note(self, value: Value, content: Content) -> None:
        """State what a value holds."""
        self._known[value] = content

    def computed(self, graph: Graph, operator: Operator, operands: Sequence[Value | None]) -> Content | None:
        """Return what an operator's first output holds; None where that is not followed."""
        rule, known = _CONTENTS.get(operator.op_type), operator.types[0]
        if rule is None or operator.domain or known is None or known.dtype not in ("int32", "int64"):
            return None
        try:
            found = rule(_Use(self, graph, operator, operands))
        except (ArithmeticError, LookupError, ValueError, TypeError):
            return None
        return None if found is None or len(found) > _MOST else found

    def follow(self, graph: Graph, operator: Operator, operands: Sequence[Value | None]) -> Content | None:
        """Refine the type of an operator's first output by sizes, note what it holds, and return that."""
        operator.types[0] = refined(operator.types[0], self.typed(graph, operator, operands))
        content = self.computed(graph, operator, operands)
        if content is not None:
            self.note(Value(operator.key), content)
        return content

    def typed(
        self, graph: Graph, operator: Operator, operands: Sequence[Value | None]
    ) -> tuple[Dim, ...] | None:
        """Return the shape of an operator's first output; None where no rule here says more than ONNX's."""
        rule = _SHAPES.get(operator.op_type)
        if rule is None or operator.domain:
            return None
        try:
            return rule(_Use(self, graph, operator, operands))
        except (ArithmeticError, LookupError, ValueError, TypeError):
            return None


def shape_of(graph: Graph, value: Value | None) -> tuple[Dim, ...]:
    """Return the shape of a value.

    Raises:
        ValueError: when not even its rank is known.
    """
    found = None if value is None else graph.type_of(value)
    if found is None or found.shape is None:
        raise ValueError("no rank")
    return found.shape


class _Use(NamedTuple):
    """An operator with its operands, as a rule sees it."""

    known: Sizes
    graph: Graph
    operator: Operator
    operands: Sequence[Value | None]


# -- what tensors hold ---------------------------------------------------------------------------------


def _shape(use: _Use) -> Content:
    dims = shape_of(use.graph, use.operands[0])
    end = use.operator.attributes.get("end")
    dims = dims[use.operator.int("start") : None if end is None else use.operator.int("end")]
    return tuple(None if d is None else Size.of(d) for d in dims)


def _size(use: _Use) -> Content:
    count = product(shape_of(use.graph, use.operands[0]))
    return (None if count is None else Size.of(count),)


def _gather(use: _Use) -> Content | None:
    data, at = use.known.of(use.graph, use.operands[0]), use.known.of(use.graph, use.operands[1])
    if data is None or at is None or len(shape_of(use.graph, use.operands[0])) != 1:
        return None
    return tuple(data[n.number] if n is not None and n.number is not None else None for n in at)


def _slice(use: _Use) -> Content | None:
    data = use.known.of(use.graph, use.operands[0])
    start, end = (_number(use.known, use.graph, v) for v in use.operands[1:3])
    step = (
        _number(use.known, use.graph, use.operands[4])
        if len(use.operands) > 4 and use.operands[4] is not None
        else 1
    )
    if data is None or start is None or end is None or step is None:
        return None
    if end <= -_FAR and step < 0:
        return data[start::step]
    return data[start:end:step]


def _number(known: Sizes, graph: Graph, value: Value | None) -> int | None:
    found = known.of(graph, value)
    return found[0].number if found is not None and len(found) == 1 and found[0] is not None else None


def _joined(use: _Use) -> Content | None:
    parts = [use.known.of(use.graph, v) for v in use.operands]
    found: list[Size | None] = []
    for part, value in zip(parts, use.operands, strict=True):
        if part is None:
            (count,) = shape_of(use.graph, value)
            if not isinstance(count, int):
                return None
            part = (None,) * count
        found += part
    return tuple(found)


def _same(use: _Use) -> Content | None:
    return use.known.of(use.graph, use.operands[0])


def _arithmetic(use: _Use) -> Content | None:
    left, right = use.known.of(use.graph, use.operands[0]), use.known.of(use.graph, use.operands[1])
    if left is None or right is None:
        return None
    count = max(len(left), len(right))
    pairs = zip(left * (count // len(left)), right * (count // len(right)), strict=True)
    compute: Callable[[Size, Size], Size] = {
        "Add": Size.__add__,
        "Sub": Size.__sub__,
        "Mul": Size.__mul__,
        "Div": _divided,
    }[use.operator.op_type]
    return tuple(None if a is None or b is None else compute(a, b) for a, b in pairs)


def _divided(a: Size, b: Size) -> Size:
    """Divide sizes; they are not negative, so rounding towards zero is rounding down."""
    if a.number is not None and b.number is not None and (a.number < 0 or b.number < 0):
        return Size.of(int(a.number / b.number))
    return a // b


def _product(use: _Use) -> Content | None:
    data = use.known.of(use.graph, use.operands[0])
    if (
        data is None
        or None in data
        or (len(use.operands) > 1 and use.operands[1] is not None and len(data) != 1)
    ):
        axes = use.known.of(use.graph, use.operands[1]) if len(use.operands) > 1 else None
        if data is None or None in data or axes != (Size.of(0),):
            return None
    total = Size.of(1)
    for each in data:
        assert each is not None
        total *= each
    return (total,)


_Rule = Callable[[_Use], Any]

_CONTENTS: dict[str, _Rule] = {
    "Shape": _shape,
    "Size": _size,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _joined,
    **dict.fromkeys(_ALIKE, _same),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _arithmetic),
    "ReduceProd": _product,
}


# -- shapes --------------------------------------------------------------------------------------------


def _dims(content: Content | None) -> list[Dim]:
    if content is None:
        raise ValueError("not known")
    return [None if size is None else size.dim for size in content]


def _reshape(use: _Use) -> Any:
    before, wanted = shape_of(use.graph, use.operands[0]), _dims(use.known.of(use.graph, use.operands[1]))
    zeros = bool(use.operator.int("allowzero"))
    dims = [before[i] if d == 0 and not zeros else d for i, d in enumerate(wanted)]
    if -1 in dims:
        rest = product(d for d in dims if d != -1)
        whole = product(before)
        if rest is None or whole is None or rest == 0:
            left: Dim = None
        else:
            left = (Size.of(whole) // Size.of(rest)).dim
        dims[dims.index(-1)] = left
    return tuple(dims)


def _expand(use: _Use) -> Any:
    return broadcast(shape_of(use.graph, use.operands[0]), _dims(use.known.of(use.graph, use.operands[1])))


def _filled(use: _Use) -> Any:
    return tuple(_dims(use.known.of(use.graph, use.operands[0])))


def _tile(use: _Use) -> Any:
    repeats = _dims(use.known.of(use.graph, use.operands[1]))
    return tuple(product(pair) for pair in zip(shape_of(use.graph, use.operands[0]), repeats, strict=True))


def _range(use: _Use) -> Any:
    (start,), (end,), (step,) = (use.known.of(use.graph, v) or (None,) for v in use.operands)
    if start is None or end is None or step is None or step.number != 1:
        return None
    return ((end - start).dim,)


def _sliced(use: _Use) -> Any:
    dims = list(shape_of(use.graph, use.operands[0]))
    starts, ends = use.known.of(use.graph, use.operands[1]), use.known.of(use.graph, use.operands[2])
    if starts is None or ends is None:
        return None
    axes = (
        use.known.of(use.graph, use.operands[3])
        if len(use.operands) > 3 and use.operands[3] is not None
        else None
    )
    steps = (
        use.known.of(use.graph, use.operands[4])
        if len(use.operands) > 4 and use.operands[4] is not None
        else None
    )
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = at if axes is None else (axes[at] or Size.of(0)).number
        step = 1 if steps is None else (steps[at] or Size.of(0)).number
        assert axis is not None
        dims[axis] = _slice_size(dims[axis], start, end, step)
    return tuple(dims)


def _slice_size(dim: Dim, start: Size | None, end: Size | None, step: int | None) -> Dim:
    if dim is None or start is None or end is None or step is None or step == 0:
        return None
    if isinstance(dim, int) and start.number is not None and end.number is not None:
        return len(range(dim)[slice(start.number, None if end.number < -_FAR else end.number, step)])
    size = Size.of(dim)
    first = start.number
    if step == -1 and first == -1 and end.number is not None and end.number < -_FAR:
        return dim
    if step < 1 or (first is not None and first < 0 and end.number is not None and end.number < _FAR):
        return None
    if first is not None and first < 0:
        count = Size.of(-first)
    else:
        last = size if end.number is not None and end.number >= _FAR else end
        if last.number is not None and last.number < 0:
            last = size + last
        count = last - start
    count = count if step == 1 else (count + (step - 1)) // step
    number = count.number
    if number is None or isinstance(dim, int) or (number == 1 and first in (0, -1)):
        return count.dim
    return 0 if number <= 0 and start.number is not None else None  # a shorter axis has fewer


def _concat(use: _Use) -> Any:
    shapes = [shape_of(use.graph, v) for v in use.operands]
    rank = len(shapes[0])
    axis = use.operator.int("axis") % rank
    total: Size | None = Size.of(0)
    for shape in shapes:
        dim = shape[axis]
        total = None if total is None or dim is None else total + Size.of(dim)
    dims = [next((s[i] for s in shapes if isinstance(s[i], int)), shapes[0][i]) for i in range(rank)]
    dims[axis] = None if total is None else total.dim
    return tuple(dims)


def _window(use: _Use) -> Any:
    """Convolutions and pools along symbolic axes; those that are numbers are left to ONNX's rule."""
    before = shape_of(use.graph, use.operands[0])
    rank = len(before) - 2
    if use.operator.op_type == "Conv":
        weight = shape_of(use.graph, use.operands[1])
        kernel, channels = list(weight[2:]), weight[0]
    else:
        kernel, channels = list(use.operator.ints("kernel_shape")), before[1]
    if not any(isinstance(d, str) for d in before[2:]) or any(not isinstance(k, int) for k in kernel):
        return None
    strides, dilations = use.operator.spatial("strides", rank), use.operator.spatial("dilations", rank)
    pads, auto = use.operator.spatial("pads", rank), use.operator.str("auto_pad")
    if use.operator.attributes.get("ceil_mode"):
        return None
    dims: list[Dim] = [before[0], channels]
    for i, dim in enumerate(before[2:]):
        if dim is None:
            dims.append(None)
            continue
        size = Size.of(dim)
        if auto.startswith("SAME"):
            dims.append(((size + (strides[i] - 1)) // strides[i]).dim)
            continue
        reach = dilations[i] * (int(kernel[i] or 1) - 1) + 1
        around = 0 if auto == "VALID" else pads[i] + pads[rank + i]
        dims.append(((size + (around - reach)) // strides[i] + 1).dim)
    return tuple(dims)


def _resize(use: _Use) -> Any:
    before = shape_of(use.graph, use.operands[0])
    if use.operator.attributes.get("axes") or use.operator.str("keep_aspect_ratio_policy") != "stretch":
        return None
    if len(use.operands) > 3 and use.operands[3] is not None:
        return tuple(_dims(use.known.of(use.graph, use.operands[3])))
    scales = use.graph.constant_value(use.operands[2])
    if scales is None:
        return None
    dims: list[Dim] = []
    for dim, scale in zip(before, scales.tolist(), strict=True):
        if isinstance(dim, int):
            dims.append(int(dim * scale))
        else:
            dims.append(None if dim is None or scale != int(scale) else (Size.of(dim) * int(scale)).dim)
    return tuple(dims)


_SHAPES: dict[str, _Rule] = {
    "Reshape": _reshape,
    "Expand": _expand,
    "ConstantOfShape": _filled,
    "Tile": _tile,
    "Range": _range,
    "Slice": _sliced,
    "Concat": _concat,
    "Resize": _resize,
    **dict.fromkeys(("Conv", "MaxPool", "AveragePool"), _window),
}


def refined(stated: TensorType | None, shape: tuple[Dim, ...] | None) -> TensorType | None:
    """Return a type with unknown dimensions, or an unknown rank, taken from a shape."""
    if stated is None or shape is None:
        return stated
    if stated.shape is None:
        return stated.with_shape(shape)
    if len(stated.shape) != len(shape):
        return stated
    return stated.with_shape(tuple(b if a is None else a for a, b in zip(stated.shape, shape, strict=True)))


__all__ = ["Content", "Sizes", "refined", "shape_of"]
