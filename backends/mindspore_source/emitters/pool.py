"""Pooling: padding always by pad_mode="pad", asymmetric padding as an explicit pad.

Measured on CPU: adaptive maxima, places and unpooling are exact in float32 and float64, and have gradients.
"""

from __future__ import annotations

from ....ir import Operator, Value
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
    same,
)
from ...source.expressions import Part, call, method
from .conv import pad_mode
from .initializers import construct

TABLE = EmitterTable()


class _Window:
    """Attributes of a pooling operator."""

    def __init__(self, view: View) -> None:
        operator = view.operator
        self.kernel = operator.ints("kernel_shape")
        self.rank = len(self.kernel)
        if self.rank not in (1, 2, 3) or (operator.op_type == "MaxPool" and operator.int("storage_order")):
            raise Refused
        self.strides = operator.spatial("strides", self.rank)
        self.dilations = operator.spatial("dilations", self.rank)
        self.ceil = bool(operator.int("ceil_mode"))
        self.mode = operator.str("auto_pad")
        if self.mode == "SAME_LOWER":
            raise Refused
        pads = operator.spatial("pads", self.rank) if self.mode == "NOTSET" else [0] * 2 * self.rank
        self.begins, self.ends = pads[: self.rank], pads[self.rank :]
        if not self.is_symmetric and self._is_same(view) and not operator.int("count_include_pad"):
            self.mode, self.begins, self.ends = "SAME_UPPER", [0] * self.rank, [0] * self.rank

    def _is_same(self, view: View) -> bool:
        """Whether an average pool's explicit pads equal those of 'same' at the known size."""
        sizes = view.shape()[2:]
        if view.operator.op_type != "AveragePool" or self.ceil or set(self.dilations) != {1}:
            return False
        for size, kernel, stride, begin, end in zip(
            sizes, self.kernel, self.strides, self.begins, self.ends, strict=True
        ):
            if not isinstance(size, int):
                return False
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            if (begin, end) != (total // 2, total - total // 2):
                return False
        return True

    @property
    def is_symmetric(self) -> bool:
        return self.begins == self.ends

    def is_padded_wide(self, most: int) -> bool:
        """Whether pads are wider than MindSpore's kernels take: `most` of them fit into the window."""
        return any(most * pad > size for pad, size in zip(self.begins, self.kernel, strict=True))

    def layer(self, kind: str, **more: object) -> NnLayer:
        """Return an nn layer; ceil_mode and dilation need pad_mode="pad" in MindSpore."""
        plain = not self.ceil and set(self.dilations) == {1}
        mode = {"SAME_UPPER": "same", "VALID": "valid"}.get(self.mode, "pad")
        constructor = construct(
            f"{kind}{self.rank}d",
            kernel_shape=Argument("", Literal(same(self.kernel), "kernel_size")),
            strides=same(self.strides),
            pad_mode=pad_mode(mode),
            padding=same(self.begins) if plain or any(self.begins) else (),
            **more,
        )
        return NnLayer(constructor)


def _pad(view: View, window: _Window, fill: float) -> Part:
    pads = [p for b, e in zip(reversed(window.begins), reversed(window.ends), strict=True) for p in (b, e)]
    return call("ops.pad", view.use(0), tuple(pads), value=fill)


@TABLE.layer("MaxPool")
def max_pool(view: View) -> NnLayer:
    """Emit nn.MaxPool1d, 2d, 3d."""
    window = _Window(view)
    if not window.is_symmetric or window.is_padded_wide(2) or view.used_outputs() > 1:
        raise Refused
    return window.layer("MaxPool", dilations=same(window.dilations), ceil_mode=window.ceil)


@TABLE.call("MaxPool")
def functional_max_pool(view: View) -> Expression:
    """Emit ops.max_pool2d and 3d, after an explicit pad with -inf where the padding is asymmetric."""
    window = _Window(view)
    if view.used_outputs() > 1:
        return _max_pool_with_indices(view, window)
    explicit = not window.is_symmetric or window.is_padded_wide(2)
    if window.mode == "SAME_UPPER" or window.rank == 1 or (window.ceil and explicit):
        raise Refused
    return call(
        f"ops.max_pool{window.rank}d",
        _pad(view, window, float("-inf")) if explicit else view.use(0),
        same(window.kernel),
        stride=same(window.strides),
        padding=same(window.begins) if any(window.begins) and not explicit else None,
        dilation=same(window.dilations) if set(window.dilations) != {1} else None,
        ceil_mode=True if window.ceil else None,
    )


def _max_pool_with_indices(view: View, window: _Window) -> Expression:
    """Return values and places within their plane; nothing here reads ONNX's whole-tensor places."""
    users = view.graph.users(Value(view.operator.key, 1))
    if (
        window.mode != "NOTSET"
        or not window.is_symmetric
        or not all(_is_modulo(view, key) for key, _ in users)
    ):
        raise Refused
    if view.graph.is_output(Value(view.operator.key, 1)):
        raise Refused
    flat = window.rank == 1
    lead: tuple[int, ...] = (1,) if flat else ()
    padding = [0] * flat + window.begins
    found = call(
        f"ops.max_pool{2 if flat else window.rank}d",
        method(view.atom(), "expand_dims", 2) if flat else view.use(0),
        same([*lead, *window.kernel]),
        stride=same([*lead, *window.strides]),
        padding=same(padding) if any(padding) else None,
        dilation=same([*lead, *window.dilations]) if set(window.dilations) != {1} else None,
        return_indices=True,
        ceil_mode=True if window.ceil else None,
    )
    if flat:
        found = Expression(("tuple(v.squeeze(2) for v in ", found, ")"))
    return Expression(found.parts, outputs=2)


def _is_modulo(view: View, key: int) -> bool:
    """Whether an operator reduces places to those within their plane, which they already are here."""
    node = view.graph.node(key)
    return isinstance(node, Operator) and node.op_type == "Mod" and not node.int("fmod")


def _counts_padding(view: View, window: _Window) -> bool:
    """Whether padding counts in the average; False where nothing is padded."""
    padded = window.mode == "SAME_UPPER" or any(window.begins + window.ends)
    return bool(view.operator.int("count_include_pad")) or not padded


@TABLE.layer("AveragePool")
def average_pool(view: View) -> NnLayer:
    """Emit nn.AvgPool1d, 2d, 3d."""
    window = _Window(view)
    counts = _counts_padding(view, window)
    if not window.is_symmetric or window.is_padded_wide(2) or set(window.dilations) != {1}:
        raise Refused
    if window.mode == "SAME_UPPER" and view.operator.int("count_include_pad"):
        raise Refused
    if window.mode == "SAME_UPPER":  # never counts the padding
        return window.layer("AvgPool")
    return window.layer("AvgPool", ceil_mode=window.ceil, count_include_pad=counts)


@TABLE.call("AveragePool")
def functional_average_pool(view: View) -> Expression:
    """Emit ops.avg_pool1d, 2d, 3d; their stride defaults to 1."""
    window = _Window(view)
    counts = _counts_padding(view, window)
    explicit = not window.is_symmetric or window.is_padded_wide(2)
    if (
        window.mode == "SAME_UPPER"
        or set(window.dilations) != {1}
        or (explicit and (window.ceil or not counts))
    ):
        raise Refused
    padding: object = same(window.begins)
    if window.rank > 1 and len(set(window.begins)) > 1:  # the functions take both sides of each axis
        padding = tuple(p for p in window.begins for _ in range(2))
    return call(
        f"ops.avg_pool{window.rank}d",
        _pad(view, window, 0.0) if explicit else view.use(0),
        same(window.kernel),
        stride=same(window.strides),
        padding=padding if any(window.begins) and not explicit else None,
        ceil_mode=True if window.ceil else None,
        count_include_pad=None if counts else False,
    )


def _spatial(view: View) -> tuple[int, ...]:
    return tuple(range(2, view.rank()))


@TABLE.layer("GlobalAveragePool")
def global_average_layer(view: View) -> NnLayer:
    """Emit nn.AdaptiveAvgPool2d(1)."""
    if view.rank() != 4:
        raise Refused
    return NnLayer(Call(NnClass("AdaptiveAvgPool2d"), (Argument("", Literal(1, "output_size")),)))


@TABLE.call("GlobalAveragePool")
def global_average_pool(view: View) -> Expression:
    """Emit the mean over the spatial axes."""
    return method(view.atom(), "mean", _spatial(view), keep_dims=True)


@TABLE.call("GlobalMaxPool")
def global_max_pool(view: View) -> Expression:
    """Emit the maximum over the spatial axes."""
    return call("ops.amax", view.use(0), _spatial(view), keepdims=True)


@TABLE.layer("regraft.AdaptiveAveragePool")
def adaptive_average_layer(view: View) -> NnLayer:
    """Emit nn.AdaptiveAvgPool2d or 3d; the 1-d layer needs lengths that divide."""
    size = view.operator.ints("output_size")
    if len(size) == 1:
        raise Refused
    value = same(size) if len(size) == 2 else tuple(size)
    return NnLayer(
        Call(NnClass(f"AdaptiveAvgPool{len(size)}d"), (Argument("", Literal(value, "output_size")),))
    )


@TABLE.call("regraft.AdaptiveAveragePool")
def adaptive_average_pool(view: View) -> Expression:
    """Emit ops.adaptive_avg_pool2d or 3d; 1-d goes through 2-d."""
    size = view.operator.ints("output_size")
    if len(size) == 1:
        pooled = call("ops.adaptive_avg_pool2d", method(view.atom(), "expand_dims", 2), (1, size[0]))
        return method(pooled, "squeeze", 2)
    return call(
        f"ops.adaptive_avg_pool{len(size)}d", view.use(0), same(size) if len(size) == 2 else tuple(size)
    )


def _adaptive_size(view: View) -> tuple[int, ...]:
    size = tuple(view.operator.ints("output_size"))
    if view.rank() != len(size) + 2 or view.type(0).dtype not in ("float32", "float64"):
        raise Refused
    return size


@TABLE.layer("regraft.AdaptiveMaxPool")
def adaptive_max_layer(view: View) -> NnLayer:
    """nn.AdaptiveMaxPool2d and 3d; the 1-d layer needs lengths that divide."""
    size = _adaptive_size(view)
    if len(size) == 1 or view.used_outputs() > 1:
        raise Refused
    value = same(size) if len(size) == 2 else size
    return NnLayer(
        Call(NnClass(f"AdaptiveMaxPool{len(size)}d"), (Argument("", Literal(value, "output_size")),))
    )


@TABLE.call("regraft.AdaptiveMaxPool")
def adaptive_max_pool(view: View) -> Expression:
    """ops.adaptive_max_pool2d and 3d; 1-d by way of 2-d, and places of 3-d, which are int32, written out."""
    size, several = _adaptive_size(view), view.used_outputs() > 1
    if several and len(size) != 2:
        raise Refused
    if len(size) == 1:
        pooled = call("ops.adaptive_max_pool2d", method(view.atom(), "expand_dims", 2), (1, size[0]))
        return method(pooled, "squeeze", 2)
    found = call(
        f"ops.adaptive_max_pool{len(size)}d",
        view.use(0),
        same(size) if len(size) == 2 else size,
        return_indices=True if several else None,
    )
    return Expression(found.parts, outputs=2) if several else found


@TABLE.call("regraft.MaxUnpool")
def max_unpool(view: View) -> Expression:
    """ops.max_unpool2d and 3d, of windows that make the size of the result."""
    size = view.operator.ints("output_size")
    sizes = view.shape()[2:]
    if (
        len(size) not in (2, 3)
        or view.rank() != len(size) + 2
        or view.type(0).dtype not in ("float32", "float64")
    ):
        raise Refused
    if not all(isinstance(own, int) and 0 < own <= out for own, out in zip(sizes, size, strict=True)):
        raise Refused
    strides = [out // own for own, out in zip(sizes, size, strict=True) if isinstance(own, int)]
    kernel = [
        out - (own - 1) * stride
        for own, out, stride in zip(sizes, size, strides, strict=True)
        if isinstance(own, int)
    ]
    return call(
        f"ops.max_unpool{len(size)}d",
        view.use(0),
        view.tensor(1),
        same(kernel),
        stride=same(strides) if kernel != strides else None,
    )
