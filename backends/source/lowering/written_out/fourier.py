"""ONNX's transforms in terms of those on real and imaginary parts apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .....ir import Builder, Operator, Value
from .....ir.composites.terms import Term, fitted, whole
from .table import ExpansionTable, constant, given, rank_of, size_of

TABLE = ExpansionTable()

Operands = Sequence[Value | None]


def _number(b: Builder, part: Term | None) -> int | None:
    found = None if part is None else b.graph.constant_value(part.value)
    return None if found is None else int(found.reshape(-1)[0])


def _parts(x: Term) -> list[Term]:
    """Return the real part, and the imaginary one where there is one."""
    last = whole(x, -1)
    if size_of(x, -1) == 1:
        return [x.op("Squeeze", last)]
    return [
        Term(x.b, v).op("Squeeze", last) for v in x.b.ops("Split", x.value, outputs=2, axis=-1, num_outputs=2)
    ]


def _joined(parts: Sequence[Term]) -> Term:
    """Return parts along a last axis of their own."""
    first, *others = [part.op("Unsqueeze", whole(part, -1)) for part in parts]
    return first.op("Concat", *others, axis=-1)


def _transform(x: Term, axis: int, length: int, *, inverse: bool, half: bool) -> Term | None:
    """Return the transform of a signal whose last axis is of one or two parts; in float64, as it sums up."""
    b, size, own = x.b, size_of(x, axis), x.dtype
    if size is None or size_of(x, -1) not in (1, 2):
        return None
    x = x.cast("float64")
    if inverse and half:
        parts = _parts(fitted(x, axis, size, length // 2 + 1))
        imag = parts[1] if len(parts) > 1 else parts[0] * 0
        found = parts[0].op("regraft.RealFourier", imag, axis=axis, inverse=1, n=length)
        return found.op("Unsqueeze", whole(x, -1)).cast(own)
    parts = _parts(fitted(x, axis, size, length))
    real = half and len(parts) == 1
    found = [
        Term(b, v)
        for v in b.ops(
            "regraft.Fourier", *(p.value for p in parts), outputs=2, axis=axis, inverse=inverse, half=real
        )
    ]
    joined = _joined(found).cast(own)
    return joined if real or not half else fitted(joined, axis, length, length // 2 + 1)


@TABLE.op("DFT")
def dft(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """The real and the imaginary part are the last axis."""
    x, length, axes = given(b, operands, 3)
    if x is None or (rank := rank_of(x)) is None:
        return None
    axis = -2 if axes is None else _number(b, axes)
    if axis is None or (size := size_of(x, axis % rank)) is None:
        return None
    inverse, half = bool(node.int("inverse")), bool(node.int("onesided"))
    n = 2 * (size - 1) if inverse and half else size
    if length is not None:
        told = _number(b, length)
        if told is None:
            return None
        n = told
    found = _transform(x, axis % rank, n, inverse=inverse, half=half)
    return None if found is None else [found]


@TABLE.op("STFT")
def stft(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Return transforms of the windows, which are gathered from the signal."""
    x, step, window, length = given(b, operands, 4)
    if x is None or (rank := rank_of(x)) is None:
        return None
    hop, size = _number(b, step), size_of(x, 1)
    told = size_of(window, 0) if window is not None else size
    frame = told if length is None else _number(b, length)
    if rank not in (2, 3) or hop is None or size is None or frame is None or told is None:
        return None
    if rank == 2:
        x = x.op("Unsqueeze", whole(x, -1))
    count = 1 + (size - frame) // hop
    places = np.arange(count)[:, None] * hop + np.arange(frame)
    frames = x.op("Gather", constant(x, places, "int64"), axis=1)  # batch, frame, place, part
    if window is not None:
        if told != frame:
            return None
        frames = frames * window.op("Unsqueeze", whole(x, -1))
    found = _transform(frames, 2, frame, inverse=False, half=bool(node.int("onesided")))
    return None if found is None else [found]
