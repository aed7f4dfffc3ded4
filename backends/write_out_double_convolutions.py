"""write-out-double-convolutions: convolutions in float64 become products, for which runtimes have kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from ..ir import Builder, Graph, Operator, Value
from ..passes.pattern import PatternPass

_MOST_GROUPS = 16
_TO_THE_END = 1 << 62


@dataclass(frozen=True)
class WriteOutDoubleConvolutions(PatternPass):
    """Write a convolution in float64 as a product of its unfolded input with a matrix.

    What it does:
        Takes the input once for each place of the kernel, moved by that place; these together, times the
        weight as a matrix, and the bias are the result. A convolution of one channel a group is a sum of
        products by element.

    Why:
        Neither ONNX Runtime nor MindSpore has a kernel for convolutions in float64 on CPU; both have one for
        products.

    Leaves alone:
        Other element types. Transposed convolutions, more than 16 groups of several channels, padding that
        is not stated as numbers, and results of two or more sizes that only a run gives.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f64[N,3,8,8]
        ...   %w = param "w" : f64[4,3,3,3]
        ...   %y = Conv(%x, %w) : f64[N,4,6,6]
        ...   return "y" = %y
        ... }''')
        >>> for change in WriteOutDoubleConvolutions().run(graph):
        ...     print(change)
        LG103 is written as a product of matrices, because it is in float64 - at `Conv`
    """

    name: ClassVar[str] = "write-out-double-convolutions"
    codes: ClassVar[dict[str, str]] = {"LG103": "a convolution in float64 is written out as a product"}
    operators: ClassVar[tuple[str, ...]] = ("Conv",)
    nested: ClassVar[bool] = True

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Write out; see the class."""
        b = Builder(graph)
        with b.inside(node.call, node.location):
            found = _write_out(b, graph, node)
        if found is None:
            return ""
        graph.replace_uses(Value(node.key), found)
        graph.remove(node.key)
        return "is written as a product of matrices, because it is in float64"


def _write_out(b: Builder, part: Graph, node: Operator) -> Value | None:
    """Return a convolution's result by other operators; None for one that stays, with nothing added."""
    x, weight, *rest = part.operands(node.key)
    to = node.types[0]
    known = None if weight is None else part.type_of(weight)
    if x is None or weight is None or known is None or not known.is_static or known.dtype != "float64":
        return None
    if to is None or to.shape is None or node.str("auto_pad") not in ("NOTSET", "VALID"):
        return None
    shape, groups = known.static_shape(), node.int("group")
    sizes = to.shape[2:]
    single = groups == shape[0] and shape[1] == 1
    free = sum(not isinstance(size, int) for size in sizes)
    if (groups > _MOST_GROUPS and not single) or (free > 1 and not single):
        return None
    taps = _take_taps(b, x, node, shape[2:])
    bias = rest[0] if rest else None
    if single:
        found = _sum_by_element(b, taps, weight, shape)
    else:
        parts = [_multiply(b, *each, shape, groups) for each in _split(b, taps, weight, groups)]
        flat = parts[0] if groups == 1 else b.op("Concat", *parts, axis=1)
        wanted = [size if isinstance(size, int) else -1 for size in sizes]
        found = b.op("Reshape", flat, b.constant([0, shape[0], *wanted]), types=[to])
    if bias is None:
        return found
    return b.op("Add", found, b.op("Reshape", bias, b.constant([-1, *[1] * len(sizes)])), types=[to])


def _take_taps(b: Builder, x: Value, node: Operator, kernel: tuple[int, ...]) -> list[Value]:
    """Return the input as each place of the kernel meets it, in the order of the weight's elements."""
    rank = len(kernel)
    pads = node.spatial("pads", rank) if node.str("auto_pad") == "NOTSET" else [0] * (2 * rank)
    strides, dilations = node.spatial("strides", rank), node.spatial("dilations", rank)
    if any(pads):
        x = b.op("Pad", x, b.constant([0, 0, *pads[:rank], 0, 0, *pads[rank:]]), b.scalar_like(0, x))
    if math.prod(kernel) == 1 and set(strides) == {1}:
        return [x]
    taps: list[Value] = []
    for place in product(*map(range, kernel)):
        starts = [at * d for at, d in zip(place, dilations, strict=True)]
        left = [(k - 1) * d - s for k, d, s in zip(kernel, dilations, starts, strict=True)]
        ends = [-more if more else _TO_THE_END for more in left]
        axes = b.constant(list(range(2, rank + 2)))
        taps.append(b.op("Slice", x, b.constant(starts), b.constant(ends), axes, b.constant(strides)))
    return taps


def _split(b: Builder, taps: list[Value], weight: Value, groups: int) -> list[tuple[list[Value], Value]]:
    """Return the taps and the weight of each group."""
    if groups == 1:
        return [(taps, weight)]
    columns = [b.ops("Split", tap, outputs=groups, axis=1, num_outputs=groups) for tap in taps]
    rows = b.ops("Split", weight, outputs=groups, axis=0, num_outputs=groups)
    return [([column[at] for column in columns], rows[at]) for at in range(groups)]


def _multiply(b: Builder, taps: list[Value], weight: Value, shape: tuple[int, ...], groups: int) -> Value:
    """Return one group's product, (batch, channels, places)."""
    depth = math.prod(shape[1:])
    unfolded = taps[0] if len(taps) == 1 else b.op("Concat", *taps, axis=1)
    unfolded = b.op("Reshape", unfolded, b.constant([0, depth, -1]))
    rows = b.op("Transpose", weight, perm=[0, *range(2, len(shape)), 1])  # as the taps lie
    rows = b.op("Reshape", rows, b.constant([shape[0] // groups, depth]))
    return b.op("MatMul", rows, unfolded)


def _sum_by_element(b: Builder, taps: list[Value], weight: Value, shape: tuple[int, ...]) -> Value:
    """Return the sum of the taps, each times the weight of its place."""
    flat = b.op("Reshape", weight, b.constant([shape[0], -1]))
    found: Value | None = None
    for at, tap in enumerate(taps):
        one = b.op("Slice", flat, b.constant([at]), b.constant([at + 1]), b.constant([1]))
        one = b.op("Reshape", one, b.constant([-1, *[1] * (len(shape) - 2)]))
        step = b.op("Mul", tap, one)
        found = step if found is None else b.op("Add", found, step)
    assert found is not None
    return found
