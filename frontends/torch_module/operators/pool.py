"""Lowerings of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ....ir import Value
from ...formulas import build_adaptive_max_pool, per_axis
from ...lowering_table import Lowering, LoweringTable
from ..call import Call
from ..symbols import Size

TABLE = LoweringTable[Call]("torch")


def _batched(call: Call, rank: int) -> tuple[Value, bool]:
    """Return the input with a batch axis, which torch allows to be absent."""
    x = call.value("self")
    if call.rank("self") == rank + 2:
        return x, False
    return call.op("Unsqueeze", x, call.constant([0])), True


def _unbatched(call: Call, y: Value, added: bool) -> Value:
    return call.op("Squeeze", y, call.constant([0])) if added else y


def _window(call: Call, rank: int) -> dict[str, Any]:
    kernel = per_axis(call.ints("kernel_size"), rank)
    stride = call.arg("stride")
    return {
        "kernel_shape": kernel,
        "strides": per_axis(call.ints("stride"), rank) if stride not in (None, []) else kernel,
        "pads": per_axis(call.ints("padding"), rank) * 2,
        "ceil_mode": call.flag("ceil_mode"),
    }


def _max_pool(rank: int) -> Lowering[Call]:
    def max_pool(call: Call) -> Value:
        x, added = _batched(call, rank)
        y = call.op("MaxPool", x, dilations=per_axis(call.ints("dilation"), rank), **_window(call, rank))
        return _unbatched(call, y, added)

    return max_pool


def _max_pool_with_indices(rank: int) -> Lowering[Call]:
    """Lower a max pool with places: within their plane in torch, over the whole tensor in ONNX."""

    def max_pool(call: Call) -> list[Value | None]:
        if 1 not in call.reads:
            return [_max_pool(rank)(call), None]
        x, added = _batched(call, rank)
        dilations = per_axis(call.ints("dilation"), rank)
        plane = _product(call, call.shape("self")[-rank:])
        y, at = call.ops("MaxPool", x, outputs=2, dilations=dilations, **_window(call, rank))
        return [_unbatched(call, v, added) for v in (y, call.op("Mod", at, plane))]

    return max_pool


def _product(call: Call, sizes: tuple[Size, ...]) -> Value:
    """Return the number of places of a plane."""
    if all(isinstance(s, int) for s in sizes):
        return call.constant(prod(sizes))
    return call.op("ReduceProd", call.shape_value(sizes), keepdims=0)


def _average_pool(rank: int) -> Lowering[Call]:
    def average_pool(call: Call) -> Value:
        divisor = call.arg("divisor_override") if "divisor_override" in call else None
        x, added = _batched(call, rank)
        window, counts = _window(call, rank), call.flag("count_include_pad")
        if divisor is None:
            return _unbatched(call, call.op("AveragePool", x, count_include_pad=counts, **window), added)
        return _unbatched(call, _divided(call, x, window, rank, int(divisor)), added)

    return average_pool


def _divided(call: Call, x: Value, window: dict[str, Any], rank: int, divisor: int) -> Value:
    """Sums over windows, divided by a number of the model's: an average over explicit padding, scaled."""
    kernel, strides = window["kernel_shape"], window["strides"]
    pads, sizes = window["pads"][:rank], call.shape("self")[-rank:]
    if any(not isinstance(s, int) for s in sizes):
        raise call.unsupported(
            f"expected static sizes with a `divisor_override`, got {[str(s) for s in sizes]}"
        )
    outputs = [call.context.symbols.size(s) for s in call.fake.shape[-rank:]]
    ends = [
        max((o - 1) * s + k - n - p, 0)
        for o, s, k, n, p in zip(outputs, strides, kernel, sizes, pads, strict=True)
    ]
    if any([*pads, *ends]):
        axes = call.constant(list(range(2, 2 + rank)))
        x = call.op("Pad", x, call.constant([*pads, *ends]), call.scalar_like(0, x), axes)
    y = call.op("AveragePool", x, kernel_shape=kernel, strides=strides)
    return call.op("Mul", y, call.scalar_like(prod(kernel) / divisor, y))


def _axis_by_axis(call: Call, x: Value, sizes: Sequence[Size], output: Sequence[Size]) -> Value:
    """Return averages along one axis after the other, where an axis of an open size stays as it is."""
    sizes, rank = list(sizes), len(sizes)
    for axis, out in enumerate(output, rank - len(output)):
        if out == sizes[axis]:
            continue
        if not isinstance(out, int):
            raise call.unsupported(f"expected a static `output_size`, got {[str(o) for o in output]}")
        turn = [a for a in range(rank) if a != axis] + [axis]
        moved = x if axis == rank - 1 else call.op("Transpose", x, perm=turn)
        rows = call.op("Reshape", moved, call.shape_value([-1, 1, sizes[axis]]))
        sizes[axis] = out
        means = call.op("regraft.AdaptiveAveragePool", rows, output_size=[out])
        means = call.reshape(means, [sizes[a] for a in turn])
        back = [*range(axis), rank - 1, *range(axis, rank - 1)]
        x = means if axis == rank - 1 else call.op("Transpose", means, perm=back)
    return x


def _adaptive_average_pool(rank: int) -> Lowering[Call]:
    def adaptive_average_pool(call: Call) -> Value:
        given = call.arg("output_size")
        given = given if isinstance(given, list) else [given]
        shape = call.shape("self")[-rank:]
        output = [
            size if out is None else out for out, size in zip(per_axis(given, rank), shape, strict=True)
        ]
        x, added = _batched(call, rank)
        if all(isinstance(o, int) for o in output):
            y = call.op("regraft.AdaptiveAveragePool", x, output_size=output)
        else:
            whole = call.shape("self")
            y = _axis_by_axis(call, x, [1, *whole] if added else whole, output)
        return _unbatched(call, y, added)

    return adaptive_average_pool


def _adaptive_max_pool(rank: int) -> Lowering[Call]:
    def adaptive_max_pool(call: Call) -> list[Value | None]:
        output = per_axis(call.ints("output_size"), rank)
        x, added = _batched(call, rank)
        y, places = build_adaptive_max_pool(call, x, output, has_places=1 in call.reads)
        return [_unbatched(call, y, added), places and _unbatched(call, places, added)]

    return adaptive_max_pool


def _max_unpool(rank: int) -> Lowering[Call]:
    def max_unpool(call: Call) -> Value:
        call.ignore(*(("stride", "padding") if rank == 3 else ()))
        x, added = _batched(call, rank)
        places = call.value("indices")
        places = call.op("Unsqueeze", places, call.constant([0])) if added else places
        found = call.op("regraft.MaxUnpool", x, places, output_size=call.ints("output_size"))
        return _unbatched(call, found, added)

    return max_unpool


for _rank in (1, 2, 3):
    TABLE.op(f"aten.max_pool{_rank}d.default")(_max_pool(_rank))
    _with_indices = f"aten.max_pool{_rank}d_with_indices.default"
    TABLE.op(_with_indices)(_max_pool_with_indices(_rank))
    TABLE.op(f"aten.avg_pool{_rank}d.default")(_average_pool(_rank))
    TABLE.op(f"aten.adaptive_avg_pool{_rank}d.default")(_adaptive_average_pool(_rank))
    TABLE.op(f"aten.adaptive_max_pool{_rank}d.default")(_adaptive_max_pool(_rank))
TABLE.op("aten._adaptive_avg_pool2d.default")(_adaptive_average_pool(2))
for _rank in (2, 3):
    TABLE.op(f"aten.max_unpool{_rank}d.default")(_max_unpool(_rank))
