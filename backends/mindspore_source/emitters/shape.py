"""Shapes: the batch is never written as a number; sizes computed from `x.shape` stay Python numbers."""

from __future__ import annotations

import numpy as np

from ....ir import Input
from ....ir.dims import is_computed
from ...source.emitters.settings import numbers
from ...source.emitters.shapes import join_sizes, spread_axes
from ...source.emitting import (
    Argument,
    Call,
    EmitterTable,
    Expression,
    Literal,
    NnClass,
    NnLayer,
    Refused,
    View,
    first_element,
)
from ...source.expressions import COMPARE, Attribute, Element, Part, Tuple, call, infix, method
from .initializers import ms_dtype

TABLE = EmitterTable()


@TABLE.call("Size")
def size(view: View) -> Expression:
    """Emit ``x.size``."""
    return Expression((Attribute(view.atom(), "size"),), host="int")


def _require_no_input(view: View, slot: int) -> None:
    """Refuse a shape that is an input of the model: nothing in it can be told from a size that stays."""
    if isinstance(view.graph.producer(view.value(slot)), Input):
        raise Refused


@TABLE.call("Reshape")
def reshape(view: View) -> Expression:
    """Emit ``x.reshape(-1, 8)``; ONNX's 0 becomes -1, or ``x.shape[i]`` where -1 is taken."""
    _require_no_input(view, 1)
    target = view.constant(1)
    if target is None:
        if view.host(1) != "tuple":
            raise Refused  # the emitter for shapes that a run computes makes numbers of a tensor
        return method(view.atom(), "reshape", view.use(1))
    sizes = [int(d) for d in target.reshape(-1)]
    zeros = [] if view.operator.int("allowzero") else [i for i, d in enumerate(sizes) if d == 0]
    # of no elements, -1 would be 0
    if zeros and -1 not in sizes and not any(is_computed(view.shape()[i]) for i in zeros[1:]):
        sizes[zeros.pop(0)] = -1
    dims: list[object] = [
        Element(Attribute(view.atom(), "shape"), i) if i in zeros else Literal(d, "size")
        for i, d in enumerate(sizes)
    ]
    if not dims:
        return method(view.atom(), "reshape", ())
    return method(view.atom(), "reshape", *dims)


@TABLE.layer("Flatten")
def flatten_layer(view: View) -> NnLayer:
    """Emit nn.Flatten."""
    if view.operator.int("axis") != 1 or view.rank() < 2:
        raise Refused
    return NnLayer(Call(NnClass("Flatten"), ()))


@TABLE.call("Flatten")
def flatten(view: View) -> Expression:
    """Emit ops.flatten; a reshape for axes other than 1 and for vectors."""
    axis = view.operator.int("axis")
    if view.rank() == 1 and axis == 1:
        return method(view.atom(), "expand_dims", 1)
    if axis == 1 or axis == 1 - view.rank():
        return call("ops.flatten", view.use(0))
    if axis == 0:
        return method(view.atom(), "reshape", 1, -1)
    tail = view.shape()[axis % view.rank() if axis != view.rank() else axis :]
    size = 1
    for dim in tail:
        if not isinstance(dim, int):
            raise Refused
        size *= dim
    return method(view.atom(), "reshape", -1, size)


@TABLE.call("Transpose")
def transpose(view: View) -> Expression:
    """Emit ``x.transpose(…)``; in PyNative mode swapaxes waits to learn the rank of its input."""
    rank = view.rank()
    permutation = view.operator.ints("perm") or list(range(rank - 1, -1, -1))
    if permutation == list(range(rank)):  # x.transpose(0, 1) would swap the two
        return Expression((view.use(0),))
    if rank == 2 and permutation == [1, 0]:
        return Expression((Attribute(view.atom(), "T"),))
    return method(view.atom(), "transpose", *permutation)


@TABLE.call("Concat")
def concat(view: View) -> Expression:
    """Emit ops.cat; a tuple for shape computations."""
    sizes = join_sizes(view)
    if sizes is not None:
        return sizes
    count = len(view.operands)
    inputs = Tuple(tuple(view.tensor(slot) for slot in range(count)))
    return call("ops.cat", inputs, axis=view.operator.int("axis"))


@TABLE.call("Split")
def split(view: View) -> Expression:
    """Emit ops.chunk for equal parts, ops.split otherwise."""
    count = len(view.operator.types)
    axis = view.operator.int("axis")
    if count == 1:
        return Expression((view.use(0),))
    if view.has(1):
        sizes = view.ints(1)
        if len(set(sizes)) > 1:
            return Expression(call("ops.split", view.use(0), sizes, axis=axis).parts, outputs=count)
    return Expression(call("ops.chunk", view.use(0), count, axis=axis).parts, outputs=count)


@TABLE.call("regraft.Unstack")
def unstack(view: View) -> Expression:
    """Emit ops.unbind."""
    axis = view.operator.int("axis")
    options = {"dim": axis} if axis else {}
    return Expression(call("ops.unbind", view.use(0), **options).parts, outputs=len(view.operator.types))


def _axes(view: View) -> list[int]:
    return view.ints(1) if view.has(1) else []


@TABLE.call("Unsqueeze")
def unsqueeze(view: View) -> Expression:
    """Emit ``x.expand_dims(axis)``; a number becomes a tuple of one."""
    axes = _axes(view)
    if view.host(0) == "int":
        return Expression((Tuple((view.use(0),)),), host="tuple")
    if view.host(0):  # a tuple has one dimension
        raise Refused
    rank = view.rank() + len(axes)
    found: Part = view.atom()
    for axis in sorted(a % rank for a in axes):
        found = method(found, "expand_dims", axis if axis < rank - 1 or len(axes) > 1 else -1)
    return found if isinstance(found, Expression) else Expression((found,))


@TABLE.call("Squeeze")
def squeeze(view: View) -> Expression:
    """Emit ``x.squeeze(axis)``; a tuple of one becomes its number."""
    if view.host(0) == "tuple":
        return Expression((Element(view.atom(), 0),), host="int")
    axes = _axes(view)
    if not axes:
        return method(view.atom(), "squeeze")
    return method(view.atom(), "squeeze", axes[0] if len(axes) == 1 else tuple(axes))


@TABLE.call("Expand")
def expand(view: View) -> Expression:
    """Emit ops.broadcast_to with -1 for axes that stay; ops.full for one number."""
    if view.constant(1) is None and not view.host(1):
        raise Refused  # the emitter for shapes that a run computes makes numbers of a tensor
    target, fill, to = view.constant(1), view.constant(0), view.output_type()
    if fill is not None and fill.size == 1 and fill.ndim <= 1 and to is not None:
        size: object = view.use(1) if target is None else tuple(int(d) for d in target.reshape(-1))
        return call("ops.full", size, first_element(fill), dtype=Expression((ms_dtype(to.dtype),)))
    if view.host(0) == "int" and to is not None:
        size = view.use(1) if target is None else tuple(int(d) for d in target.reshape(-1))
        return call("ops.full", size, view.use(0), dtype=Expression((ms_dtype(to.dtype),)))
    if target is None:
        return call("ops.broadcast_to", view.tensor(0), view.use(1))
    sizes = [int(d) for d in target.reshape(-1)]
    dims = spread_axes(view.shape(), sizes)
    if set(dims) <= {-1} and not view.host(0):
        return Expression((view.use(0),))
    return call("ops.broadcast_to", view.tensor(0), tuple(dims))


@TABLE.call("Tile")
def tile(view: View) -> Expression:
    """Emit ops.tile."""
    repeats = view.constant(1)
    if repeats is None:
        return call("ops.tile", view.tensor(0), view.use(1))
    return call("ops.tile", view.tensor(0), tuple(int(r) for r in repeats.reshape(-1)))


@TABLE.call("Pad")
def pad(view: View) -> Expression:
    """Emit ops.pad, last axis first; with ops.where for a value that only a run gives."""
    mode = {"constant": None, "reflect": "reflect", "edge": "replicate", "wrap": "circular"}[
        view.operator.str("mode")
    ]
    pads, rank = view.ints(1), view.rank()
    axes = [a % rank for a in view.ints(3)] if view.has(3) else list(range(rank))
    begins, ends = dict(zip(axes, pads, strict=False)), dict(zip(axes, pads[len(axes) :], strict=True))
    source = _crop(view, begins, ends) if mode is None else view.use(0)
    flat = [p for axis in reversed(range(rank)) for p in (begins.get(axis, 0), ends.get(axis, 0))]
    least = 2 if mode is None else 2 * (rank - 2)  # the other modes pad all spatial axes
    while len(flat) > max(least, 2) and flat[-2:] == [0, 0]:
        flat = flat[:-2]
    is_given = mode is None and view.has(2) and view.constant(2) is None
    value = view.scalar(2, 0.0) if mode is None and not is_given else 0.0
    if mode is not None:
        fits = len(flat) // 2 in (rank - 1, rank - 2) and min(flat) >= 0
        if not fits or (mode == "reflect" and len(flat) > 4):
            return _pad_by_places(view, view.operator.str("mode"), begins, ends)
    if not any(flat):
        return source if isinstance(source, Expression) else Expression((source,))
    padded = call("ops.pad", source, tuple(flat), mode=mode, value=value if value else None)
    if not is_given:
        return padded
    inside = call("ops.pad", call("ops.ones_like", source), tuple(flat))
    return call("ops.where", infix(inside, ">", Literal(0, "border"), COMPARE), padded, view.tensor(2))


def _crop(view: View, begins: dict[int, int], ends: dict[int, int]) -> Part:
    """Return the value cropped by negative pads, which ops.pad gets wrong, and set those pads to 0."""
    cut = [a for a in range(view.rank()) if min(begins.get(a, 0), ends.get(a, 0)) < 0]
    if not cut:
        return view.use(0)
    parts: list[Part] = []
    for axis in range(max(cut) + 1):
        start, stop = -min(begins.get(axis, 0), 0), min(ends.get(axis, 0), 0)
        begins[axis], ends[axis] = max(begins.get(axis, 0), 0), max(ends.get(axis, 0), 0)
        parts += [", "] * bool(axis) + [Literal(start, "start")] * bool(start) + [":"]
        parts += [Literal(stop, "stop")] * bool(stop)
    return Expression((view.atom(), "[", *parts, "]"))


def _pad_by_places(view: View, mode: str, begins: dict[int, int], ends: dict[int, int]) -> Expression:
    """Return a padding by indexing, for modes and ranks that ops.pad does not have."""
    found: Part = view.use(0)
    shape = view.shape()
    for axis in sorted(begins):
        size, begin, end = shape[axis], begins[axis], ends[axis]
        if not begin and not end:
            continue
        if not isinstance(size, int):
            raise Refused
        places = np.arange(size)[max(-begin, 0) : size - max(-end, 0)]
        padded = np.pad(places, (max(begin, 0), max(end, 0)), mode=mode)  # type: ignore[call-overload]
        found = call("ops.gather", found, call("ms.Tensor", [int(p) for p in padded]), axis)
    return found if isinstance(found, Expression) else Expression((found,))


@TABLE.call("ConstantOfShape")
def constant_of_shape(view: View) -> Expression:
    """Emit ops.full."""
    value, to = view.operator.attribute("value"), view.output_type()
    if to is None:
        raise Refused
    fill = 0.0 if value is None else first_element(value)  # type: ignore[arg-type]
    return call("ops.full", numbers(view, 0, "shape"), fill, dtype=Expression((ms_dtype(to.dtype),)))


@TABLE.call("Range")
def arange(view: View) -> Expression:
    """Emit ops.arange, which computes no float16 but can give it."""
    to = view.output_type()
    if to is None:
        raise Refused
    bounds = [view.use(slot) for slot in range(3)]
    if to.dtype == "float16":
        wide = Expression(("ms.float32",))
        given = enumerate(bounds)
        bounds = [
            b if view.constant(s) is not None else method(view.atom(s), "astype", wide) for s, b in given
        ]
    return call("ops.arange", *bounds, dtype=Expression((ms_dtype(to.dtype),)))


@TABLE.call("DepthToSpace")
def depth_to_space(view: View) -> Expression:
    """Emit ops.pixel_shuffle for channels in torch's order, ops.DepthToSpace for the other."""
    size = view.operator.int("blocksize")
    if size == 1:
        return Expression((view.use(0),))
    if view.operator.str("mode") == "CRD":
        return call("ops.pixel_shuffle", view.use(0), size)
    return Expression((Call(call("ops.DepthToSpace", size), (Argument("", view.use(0)),)),))


@TABLE.call("SpaceToDepth")
def space_to_depth(view: View) -> Expression:
    """Emit ops.SpaceToDepth."""
    size = view.operator.int("blocksize")
    if size == 1:
        return Expression((view.use(0),))
    made = call("ops.SpaceToDepth", size)
    return Expression((Call(made, (Argument("", view.use(0)),)),))
