"""Shapes: the batch is never written as a number; sizes computed from `x.shape` stay Python numbers."""

from __future__ import annotations

from ....ir import Input, Operator
from ....ir.dims import is_computed
from ...source.emitters.settings import count_of, numbers
from ...source.emitters.shapes import join_sizes, spread_axes
from ...source.emitting import (
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
from ...source.expressions import ATOM, Attribute, Device, Element, Helper, Part, Quoted, Tuple, call, method
from .initializers import torch_dtype

TABLE = EmitterTable()


@TABLE.call("Size")
def size(view: View) -> Expression:
    """Emit ``x.numel()``."""
    return Expression(method(view.atom(), "numel").parts, host="int")


@TABLE.call("Reshape")
def reshape(view: View) -> Expression:
    """Emit ``x.reshape(-1, 8)``; ONNX's 0 becomes -1, or ``x.shape[i]`` where -1 is taken."""
    target = view.constant(1)
    if target is None or isinstance(view.graph.producer(view.value(1)), Input):
        if _may_keep(view):
            return call(Helper("reshaped"), view.tensor(0), numbers(view, 1))
        return method(view.atom(), "reshape", numbers(view, 1))
    sizes = [int(d) for d in target.reshape(-1)]
    zeros = [] if view.operator.int("allowzero") else [i for i, d in enumerate(sizes) if d == 0]
    # of no elements, -1 would be 0
    if zeros and -1 not in sizes and not any(is_computed(view.shape()[i]) for i in zeros[1:]):
        sizes[zeros.pop(0)] = -1
    dims: list[object] = [
        Element(Attribute(view.atom(), "shape"), i) if i in zeros else Literal(d, "size")
        for i, d in enumerate(sizes)
    ]
    return method(view.atom(), "reshape", *dims) if dims else method(view.atom(), "reshape", ())


def _may_keep(view: View) -> bool:
    """Whether some size that only a run gives may be the 0 that keeps one of the operand."""
    if view.operator.int("allowzero"):
        return False
    made = view.graph.producer(view.value(1))
    if not view.host(1):
        return True
    parts = view.graph.operands(made.key) if isinstance(made, Operator) else []
    return any((c := view.graph.constant_value(part)) is not None and 0 in c for part in parts)


@TABLE.layer("Flatten")
def flatten_layer(view: View) -> NnLayer:
    """Emit nn.Flatten."""
    if view.operator.int("axis") != 1 or view.rank() < 2:
        raise Refused
    return NnLayer(Call(NnClass("Flatten"), ()))


@TABLE.call("Flatten")
def flatten(view: View) -> Expression:
    """Emit ``x.flatten(1)``; a reshape for axes other than 1."""
    axis, rank = view.operator.int("axis"), view.rank()
    axis += rank if axis < 0 else 0
    if axis == 1 and rank > 1:
        return method(view.atom(), "flatten", 1)
    if axis == 0:
        return method(view.atom(), "reshape", 1, -1)
    if axis == rank:
        return method(view.atom(), "reshape", -1, 1)
    return method(method(view.atom(), "flatten", axis), "flatten", 0, axis - 1)


@TABLE.call("Transpose")
def transpose(view: View) -> Expression:
    """Emit ``x.transpose(a, b)`` where two axes change places, ``x.permute(…)`` for more."""
    order = view.operator.ints("perm") or list(range(view.rank() - 1, -1, -1))
    rank = len(order)
    moved = [at for at, axis in enumerate(order) if at != axis]
    if not moved:
        return Expression((view.use(0),))
    if rank == 2:
        return Expression((Attribute(view.atom(), "T"),))
    if len(moved) == 2:
        first, second = moved
        if second == rank - 1 and first == rank - 2:
            first, second = -2, -1
        return method(view.atom(), "transpose", first, second)
    return method(view.atom(), "permute", *order)


@TABLE.call("Concat")
def concat(view: View) -> Expression:
    """Emit torch.cat; a tuple for shape computations."""
    sizes = join_sizes(view)
    if sizes is not None:
        return sizes
    inputs = Tuple(tuple(view.tensor(slot) for slot in range(len(view.operands))))
    return call("torch.cat", inputs, dim=view.operator.int("axis"))


@TABLE.call("Split")
def split(view: View) -> Expression:
    """Emit ``x.chunk`` for equal parts, ``x.split`` otherwise."""
    count, axis = len(view.operator.types), view.operator.int("axis")
    if count == 1:
        return Expression((view.use(0),))
    if view.has(1):
        sizes = view.ints(1)
        if len(set(sizes)) > 1 or len(sizes) != count:
            return Expression(method(view.atom(), "split", tuple(sizes), dim=axis).parts, outputs=count)
        return Expression(method(view.atom(), "split", sizes[0], dim=axis).parts, outputs=count)
    shape = view.type(0).shape
    length = None if shape is None else shape[axis]
    if not isinstance(length, int):
        return Expression(method(view.atom(), "chunk", count, dim=axis).parts, outputs=count)
    part = -(-length // count)
    if part * (count - 1) >= length:
        raise Refused  # torch.chunk would return fewer parts
    return Expression(method(view.atom(), "chunk", count, dim=axis).parts, outputs=count)


@TABLE.call("regraft.Unstack")
def unstack(view: View) -> Expression:
    """Emit ``x.unbind()``."""
    axis = view.operator.int("axis")
    found = method(view.atom(), "unbind", *([axis] if axis else []))
    return Expression(found.parts, outputs=len(view.operator.types))


def _axes(view: View) -> list[int]:
    return view.ints(1) if view.has(1) else []


@TABLE.call("Unsqueeze")
def unsqueeze(view: View) -> Expression:
    """Emit ``x.unsqueeze(axis)``; a number becomes a tuple of one."""
    axes = _axes(view)
    if view.host(0) == "int":
        return Expression((Tuple((view.use(0),)),), host="tuple")
    if view.host(0):  # a tuple has one dimension
        raise Refused
    if view.type(0).rank is None:
        return call(Helper("unsqueezed"), view.tensor(0), tuple(axes))
    rank = view.rank() + len(axes)
    found: Part = view.atom()
    for axis in sorted(a % rank for a in axes):
        found = method(found, "unsqueeze", axis if axis < rank - 1 or len(axes) > 1 or not axis else -1)
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


def _spreads(view: View) -> bool:
    """Whether no size that a run gives is 1 where the tensor's own is not, which ONNX's Expand keeps."""
    own, count = view.type(0).shape, count_of(view, 1)
    if own is None or count is None or count < len(own):
        return False
    return view.graph.origin.framework == "torch" or all(size == 1 for size in own)


@TABLE.call("Expand")
def expand(view: View) -> Expression:
    """Emit ``x.expand(…)`` with -1 for axes that stay; torch.full for one number."""
    target, fill, to = view.constant(1), view.constant(0), view.output_type()
    dtype = None if to is None else torch_dtype(to.dtype)
    if target is None:
        wanted = numbers(view, 1)
        if view.host(0) == "int":
            return call("torch.full", wanted, view.use(0), dtype=dtype, device=Device())
        if _spreads(view):
            return method(view.tensor(0, ATOM), "expand", wanted)
        shape = call("torch.broadcast_shapes", Attribute(view.tensor(0, ATOM), "shape"), wanted)
        return method(view.tensor(0, ATOM), "expand", shape)
    sizes = [int(d) for d in target.reshape(-1)]
    if view.host(0) == "int":
        return call("torch.full", tuple(sizes), view.use(0), dtype=dtype, device=Device())
    if fill is not None and fill.size == 1 and fill.ndim <= 1 and to is not None and len(sizes) >= fill.ndim:
        return method(view.tensor(0, ATOM), "expand", *sizes)
    dims = spread_axes(view.shape(), sizes)
    if set(dims) <= {-1} and not view.host(0):
        return Expression((view.use(0),))
    return method(view.tensor(0, ATOM), "expand", *dims)


@TABLE.call("Tile")
def tile(view: View) -> Expression:
    """Emit ``x.tile(…)``."""
    repeats = view.constant(1)
    if repeats is None:
        return method(view.tensor(0, ATOM), "tile", numbers(view, 1))
    return method(view.tensor(0, ATOM), "tile", *(int(r) for r in repeats.reshape(-1)))


_MODES = {"constant": None, "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@TABLE.call("Pad")
def pad(view: View) -> Expression:
    """Emit F.pad, last axis first."""
    mode = _MODES[view.operator.str("mode")]
    if view.constant(1) is None:
        raise Refused
    pads, rank = view.ints(1), view.rank()
    axes = [a % rank for a in view.ints(3)] if view.has(3) else list(range(rank))
    begins, ends = dict(zip(axes, pads, strict=False)), dict(zip(axes, pads[len(axes) :], strict=True))
    flat = [p for axis in reversed(range(rank)) for p in (begins.get(axis, 0), ends.get(axis, 0))]
    while len(flat) > 2 and flat[-2:] == [0, 0]:
        flat = flat[:-2]
    if not any(flat):
        return Expression((view.use(0),))
    if mode is not None:
        spatial = len(flat) // 2
        if rank not in (spatial + 1, spatial + 2):  # these modes pad all axes behind the first one or two
            flat += [0, 0] * (rank - 2 - spatial)
        if not 1 <= len(flat) // 2 <= 3 or min(flat) < 0 or not _reaches(view, mode, flat):
            return padded(view)
        return call("F.pad", view.use(0), tuple(flat), mode=mode)
    if (view.has(2) and view.constant(2) is None) or view.type(0).dtype == "bool":
        return padded(view)
    value = view.scalar(2, 0.0) if view.has(2) else 0.0
    return call("F.pad", view.use(0), tuple(flat), value=value if value else None)


def _reaches(view: View, mode: str, flat: list[int]) -> bool:
    """Whether torch has the mode for these pads and this element type: it reads an axis once at most."""
    if not view.type(0).dtype.startswith("float"):
        return False
    sizes = view.shape()[::-1]
    return mode == "replicate" or all(
        pad == 0 or (isinstance(size := sizes[at // 2], int) and pad <= size - (mode == "reflect"))
        for at, pad in enumerate(flat)
    )


def padded(view: View) -> Expression:
    """Return a call of the file's own function, for pads that a run gives and those that F.pad lacks."""
    mode = view.operator.str("mode")
    value: object = False if view.type(0).dtype == "bool" else 0
    if mode == "constant" and view.has(2):
        known = view.constant(2)
        value = view.tensor(2) if known is None else first_element(known)
    axes = numbers(view, 3) if view.has(3) else None
    is_default = mode != "constant" or (not isinstance(value, (bool, Expression)) and value == 0)
    more = {} if is_default else {"value": value}
    return call(Helper("padded"), view.tensor(0), numbers(view, 1), Quoted(mode), **more, axes=axes)


@TABLE.call("ConstantOfShape")
def constant_of_shape(view: View) -> Expression:
    """Emit torch.full."""
    value, to = view.operator.attribute("value"), view.output_type()
    if to is None:
        raise Refused
    fill = 0.0 if value is None else first_element(value)  # type: ignore[arg-type]
    return call("torch.full", numbers(view, 0, "shape"), fill, dtype=torch_dtype(to.dtype), device=Device())


@TABLE.call("Range")
def arange(view: View) -> Expression:
    """Emit ``torch.arange(n)``; start, step and element type where they are not torch's."""
    to = view.output_type()
    if to is None:
        raise Refused
    start, _, step = (view.constant(slot) for slot in range(3))
    given = [view.use(slot) for slot in range(3)]
    if step is not None and step == 1:
        given = given[1:2] if start is not None and start == 0 else given[:2]
    is_usual = to.dtype == "int64" and all(view.host(s) or view.constant(s) is not None for s in range(3))
    dtype = None if is_usual else torch_dtype(to.dtype)
    return call("torch.arange", *given, dtype=dtype, device=Device())


@TABLE.call("DepthToSpace")
def depth_to_space(view: View) -> Expression:
    """Emit F.pixel_shuffle; channels of another order change places before."""
    size = view.operator.int("blocksize")
    if view.rank() != 4:
        raise Refused
    if view.operator.str("mode") == "CRD":
        return call("F.pixel_shuffle", view.use(0), size)
    return call("F.pixel_shuffle", _turned_channels(view.atom(), (size * size, -1)), size)


@TABLE.call("SpaceToDepth")
def space_to_depth(view: View) -> Expression:
    """Emit F.pixel_unshuffle, whose channels change places."""
    size = view.operator.int("blocksize")
    if view.rank() != 4:
        raise Refused
    return _turned_channels(call("F.pixel_unshuffle", view.use(0), size), (-1, size * size))


def _turned_channels(owner: Part, parts: tuple[int, int]) -> Expression:
    """Return channels whose two parts change places."""
    return method(method(method(owner, "unflatten", 1, parts), "transpose", 1, 2), "flatten", 1, 2)


@TABLE.call("Trilu")
def triangle(view: View) -> Expression:
    """Emit ``x.tril()``, ``x.triu()``."""
    diagonal = int(view.scalar(1, 0)) if view.has(1) else 0
    name = "triu" if view.operator.int("upper") else "tril"
    return method(view.tensor(0, ATOM), name, *([diagonal] if diagonal else []))
