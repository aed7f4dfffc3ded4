"""Boxes."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


@TABLE.op("BoundingBoxEncode")
def encode_boxes(call: Call) -> Value:
    """Encode the offsets of true boxes from anchors, in anchor sizes; a box ends at its last pixel."""
    (x, y, width, height), (true_x, true_y, true_width, true_height) = (
        _centre(call, call.value(i)) for i in range(2)
    )
    found = [
        call.op("Div", call.op("Sub", true_x, x), width),
        call.op("Div", call.op("Sub", true_y, y), height),
        call.op("Log", call.op("Div", true_width, width)),
        call.op("Log", call.op("Div", true_height, height)),
    ]
    deltas = call.op("Concat", *found, axis=1)
    means, stds = (call.constant([call.floats(name)], call.dtype) for name in ("means", "stds"))
    return call.op("Div", call.op("Sub", deltas, means), stds)


def _sides(call: Call, boxes: Value) -> list[Value]:
    return call.ops("Split", boxes, call.constant([1, 1, 1, 1]), outputs=4, axis=1)


def _centre(call: Call, boxes: Value) -> tuple[Value, Value, Value, Value]:
    """Return the centre and the size."""
    left, top, right, bottom = _sides(call, boxes)
    half, one = call.scalar_like(0.5, boxes), call.scalar_like(1, boxes)
    centres = (call.op("Mul", call.op("Add", *ends), half) for ends in ((left, right), (top, bottom)))
    sizes = (call.op("Add", call.op("Sub", b, a), one) for a, b in ((left, right), (top, bottom)))
    return *centres, *sizes  # pyright: ignore[reportReturnType] - two and two


@TABLE.op("IOU")
def overlap(call: Call) -> Value:
    """Return the overlap of each two boxes, as a share of their union or of the second box."""
    call.require("mode", "iou", "iof")
    first, second = call.value(1), call.value(0)
    a = _sides(call, first)
    b = [call.op("Transpose", side, perm=[1, 0]) for side in _sides(call, second)]
    one, zero = call.scalar_like(1, first), call.scalar_like(0, first)

    def length(start: Value, end: Value) -> Value:
        return call.op("Add", call.op("Sub", end, start), one)

    common = [
        call.op("Max", length(call.op("Max", a[i], b[i]), call.op("Min", a[i + 2], b[i + 2])), zero)
        for i in range(2)
    ]
    shared = call.op("Mul", *common)
    areas = [call.op("Mul", length(v[0], v[2]), length(v[1], v[3])) for v in (a, b)]
    both = call.op("Sub", call.op("Add", *areas), shared) if call.text("mode") == "iou" else areas[0]
    return call.op("Div", shared, both)
