"""Lowerings of pooling."""

from __future__ import annotations

from ...ir import Value
from ..lowering import LoweringTable
from .context import Call, Lowering

POOL: LoweringTable[Lowering] = LoweringTable("torch")


def _per_axis(given: list[int], rank: int) -> list[int]:
    return given * rank if len(given) == 1 else given


def _batched(call: Call, rank: int) -> tuple[Value, bool]:
    """The input with a batch axis, which torch allows to be absent."""
    x = call.value("self")
    if call.rank("self") == rank + 2:
        return x, False
    return call.op("Unsqueeze", x, call.constant([0])), True


def _unbatched(call: Call, y: Value, added: bool) -> Value:
    return call.op("Squeeze", y, call.constant([0])) if added else y


def _window(call: Call, rank: int) -> dict[str, object]:
    kernel = _per_axis(call.ints("kernel_size"), rank)
    stride = call.arg("stride")
    return {
        "kernel_shape": kernel,
        "strides": _per_axis(call.ints("stride"), rank) if stride not in (None, []) else kernel,
        "pads": _per_axis(call.ints("padding"), rank) * 2,
        "ceil_mode": call.flag("ceil_mode"),
    }


def _max_pool(rank: int) -> Lowering:
    def max_pool(call: Call) -> Value:
        x, added = _batched(call, rank)
        y = call.op("MaxPool", x, dilations=_per_axis(call.ints("dilation"), rank), **_window(call, rank))
        return _unbatched(call, y, added)

    return max_pool


def _average_pool(rank: int) -> Lowering:
    def average_pool(call: Call) -> Value:
        if "divisor_override" in call.attributes:
            call.require("divisor_override", None)
        x, added = _batched(call, rank)
        y = call.op("AveragePool", x, count_include_pad=call.flag("count_include_pad"), **_window(call, rank))
        return _unbatched(call, y, added)

    return average_pool


def _adaptive_average_pool(rank: int) -> Lowering:
    def adaptive_average_pool(call: Call) -> Value:
        given = call.arg("output_size")
        given = given if isinstance(given, list) else [given]
        shape = call.shape("self")[-rank:]
        output = [
            size if out is None else out for out, size in zip(_per_axis(given, rank), shape, strict=True)
        ]
        if not all(isinstance(o, int) for o in output):
            raise call.unsupported(f"expected a static `output_size`, got {[str(o) for o in output]}")
        x, added = _batched(call, rank)
        return _unbatched(call, call.op("regraft.AdaptiveAveragePool", x, output_size=output), added)

    return adaptive_average_pool


def _adaptive_max_pool(rank: int) -> Lowering:
    def adaptive_max_pool(call: Call) -> list[Value | None]:
        """Equal windows only; the indices are not given."""
        output = _per_axis(call.ints("output_size"), rank)
        x, added = _batched(call, rank)
        if all(o == 1 for o in output):
            return [_unbatched(call, call.op("GlobalMaxPool", x), added), None]
        shape = call.static_shape("self")[-rank:] if call.rank("self") == rank else call.shape("self")[-rank:]
        if not all(isinstance(s, int) and s % o == 0 for s, o in zip(shape, output, strict=True)):
            raise call.unsupported(
                f"expected an input size divisible by {output}, got {[str(s) for s in shape]}"
            )
        window = [s // o for s, o in zip(shape, output, strict=True)]
        return [_unbatched(call, call.op("MaxPool", x, kernel_shape=window, strides=window), added), None]

    return adaptive_max_pool


for _rank in (1, 2, 3):
    POOL.op(f"aten.max_pool{_rank}d.default")(_max_pool(_rank))
    POOL.op(f"aten.avg_pool{_rank}d.default")(_average_pool(_rank))
    POOL.op(f"aten.adaptive_avg_pool{_rank}d.default")(_adaptive_average_pool(_rank))
    POOL.op(f"aten.adaptive_max_pool{_rank}d.default")(_adaptive_max_pool(_rank))
POOL.op("aten._adaptive_avg_pool2d.default")(_adaptive_average_pool(2))


@POOL.op("aten.max_pool2d_with_indices.default")
def max_pool2d_with_indices(call: Call) -> list[Value | None]:
    """The values only: a program that reads the indices is refused where it reads them."""
    return [_max_pool(2)(call), None]
