"""Finds the settings of a net's operators: attributes, computed padding, and written-out forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose
from typing import NamedTuple, cast

import numpy as np

from ...ir import Graph, Operator
from .padding_before import Padding, padding_before

_WINDOWS = ("strides", "dilations", "padding")
READ: dict[str, tuple[str, ...]] = {
    "Conv": (*_WINDOWS, "padding_mode", "group"),
    "ConvTranspose": (*_WINDOWS, "group"),
    "MaxPool": ("kernel_shape", *_WINDOWS, "ceil_mode"),
    "AveragePool": ("kernel_shape", *_WINDOWS, "ceil_mode", "count_include_pad"),
    "BatchNormalization": ("epsilon", "momentum"),
    "LayerNormalization": ("epsilon",),
    "GroupNormalization": ("epsilon", "num_groups"),
    "InstanceNormalization": ("epsilon",),
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "Gelu": ("approximate",),
    "Cast": ("dtype",),
}
"""Operator -> its attributes that people get wrong; "padding" is what every kind of padding comes to.

Of casts, those to a narrower type of floats count: what they round hides which type it was.
"""

_NARROW = ("float16", "bfloat16")
_NEVER_NEGATIVE = ("Abs", "Relu", "Sigmoid", "Softmax", "Sqrt", "Exp")
COUNTED = (*READ, "Add", "Concat", "Relu", "Sigmoid", "Softmax", "Tanh")


_FULL = "regraft.FullPool"
"""A pool of MXNet's that rounds the number of its windows up, as `ceil_mode` of other frameworks does."""


class Read(NamedTuple):
    """The attributes of one operator.

    Attributes:
        values: attribute -> its value, of windows without the axes where nothing happens.
        operator: the operator.
        whole: of windows: attribute -> its numbers on every axis.
        behind: of a convolution: whether its padding is that of a Pad before it.
    """

    values: dict[str, object]
    operator: Operator
    whole: dict[str, list[int]] | None = None
    behind: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """One of two paired modules: the operators of its first call, in the graph that holds them."""

    graph: Graph
    operators: Sequence[Operator]

    def read(self, op_type: str) -> list[Read]:
        """The attributes of every operator of a type."""
        return [_read(self.graph, o, op_type) for o in self.operators if _is(o, op_type)]

    def count(self, op_type: str) -> int:
        """Count the operators of a type, with written-out forms as one."""
        return len(self.counted(op_type))

    def counted(self, op_type: str) -> list[Operator]:
        """The operators that count as one of a type, the last of each written-out form among them."""
        written = WRITTEN_OUT.get(op_type, _never)(self)
        return [o for o in self.operators if _counts(self.graph, o, op_type)] + [r.operator for r in written]

    def whole(self) -> Counter[str]:
        """Count the composites of each type whose expansion has several counted operators."""
        return Counter(o.op_type for o in self.operators if o.domain == "regraft" and o.op_type != "Linear")


def _is(operator: Operator, op_type: str) -> bool:
    if operator.qualified_name == _FULL:
        return op_type == ("MaxPool" if operator.str("mode") == "max" else "AveragePool")
    if op_type == "Cast":
        type_ = operator.types[0] if operator.types else None
        return operator.qualified_name == "Cast" and type_ is not None and type_.dtype in _NARROW
    return operator.op_type == op_type and operator.domain == ""


def _counts(graph: Graph, operator: Operator, op_type: str) -> bool:
    """Whether an operator counts as one of its type: an Add of two computed values is a shortcut.

    The Relu of what is never negative changes nothing.
    """
    if not _is(operator, op_type) or _is_of_sizes(operator):
        return False
    if op_type == "Relu":
        value = graph.operands(operator.key)[0]
        before = None if value is None else graph.node(value.node)
        return not (isinstance(before, Operator) and before.op_type in _NEVER_NEGATIVE)
    if op_type != "Add":
        return True
    return all(
        v is not None and isinstance(graph.node(v.node), Operator) for v in graph.operands(operator.key)
    )


def _is_of_sizes(operator: Operator) -> bool:
    """Whether an operator computes whole numbers: sizes of tensors, which nobody wrote."""
    type_ = operator.types[0] if operator.types else None
    return type_ is not None and type_.dtype in ("int32", "int64")


def _exact_gelus(side: Side) -> list[Read]:
    """The GELUs that are written out with erf, as MindSpore's exact one is."""
    return [Read({"approximate": "none"}, o) for o in side.operators if _is(o, "Erf")]


def _decomposed(side: Side) -> list[Read]:
    """The slope of ``max(slope * x, x)``, which is MindSpore's LeakyReLU."""
    found: list[Read] = []
    graph = side.graph
    for operator in side.operators:
        operands = [v for v in graph.operands(operator.key) if v is not None]
        if operator.op_type != "Max" or len(operands) != 2:
            continue
        for product, plain in (operands, operands[::-1]):
            node = graph.node(product.node)
            if isinstance(node, Operator) and node.op_type == "Mul":
                factors = [v for v in graph.operands(node.key) if v is not None]
                slopes = [graph.constant_value(v) for v in factors if v != plain]
                if plain in factors and len(slopes) == 1 and slopes[0] is not None and slopes[0].size == 1:
                    found.append(Read({"alpha": float(slopes[0].reshape(()))}, operator))
                    break
    return found


def _never(side: Side) -> list[Read]:  # noqa: ARG001 - as the others
    """An operator that nobody writes out."""
    return []


WRITTEN_OUT = {"LeakyRelu": _decomposed, "Gelu": _exact_gelus}
"""Operator -> what finds it where it is written out."""


def _read(graph: Graph, operator: Operator, op_type: str) -> Read:
    """The attributes of an operator, defaults filled in and padding worked out."""
    spec = operator.signature.attributes
    found = {
        name: value
        for name in READ[op_type]
        if name in spec and (value := operator.attribute(name)) is not None
    }
    type_ = operator.types[0] if operator.types else None
    if operator.qualified_name == _FULL:
        found["ceil_mode"] = 1
    if op_type == "Cast" and type_ is not None:
        found["dtype"] = type_.dtype
    found["output"] = None if type_ is None or type_.shape is None else type_.shape[2:]
    if "padding" not in READ[op_type]:
        return Read(found, operator)
    before = _pad_before(graph, operator, op_type)
    if before is not None and op_type == "AveragePool":
        found["count_include_pad"] = 1
    values, whole = _windows(graph, operator, before)
    return Read(found | values, operator, whole, before is not None)


def _pad_before(graph: Graph, operator: Operator, op_type: str) -> Padding | None:
    """The Pad before a convolution or a pool that could be its own padding; None where there is none.

    What an average pool pads itself must count as the Pad's zeros do. A maximum may be that of any number
    that no element is below, which only values show.
    """
    if op_type not in ("Conv", "AveragePool", "MaxPool"):
        return None
    rank = len(_kernel_of(graph, operator))
    before = padding_before(graph, operator, rank, below=op_type == "MaxPool")
    if before is None or op_type == "Conv":
        return before
    counts = (
        op_type == "MaxPool" or operator.int("count_include_pad") or not any(operator.spatial("pads", rank))
    )
    return before if before.mode == "zeros" and counts else None


def _kernel_of(graph: Graph, operator: Operator) -> list[int]:
    """The sizes of a window that are known."""
    operands = graph.operands(operator.key)
    kernel = operator.ints("kernel_shape")
    if not kernel and len(operands) > 1 and operands[1] is not None:
        sizes = (graph.known_type(operands[1]).shape or ())[2:]
        kernel = [n for n in sizes if isinstance(n, int)]
        if len(kernel) < len(sizes):  # the weight is computed, from sizes that are not known
            return []
    return kernel


def _windows(
    graph: Graph, operator: Operator, before: Padding | None
) -> tuple[dict[str, object], dict[str, list[int]] | None]:
    """Window, stride, dilation and padding of the spatial axes where anything happens, and of all of them."""
    operands, kernel = graph.operands(operator.key), _kernel_of(graph, operator)
    if not kernel:
        return {}, None
    rank = len(kernel)
    strides = operator.spatial("strides", rank)
    is_full = operator.qualified_name == _FULL
    dilations = [1] * rank if is_full else operator.spatial("dilations", rank)
    pads = operator.spatial("pads", rank)
    if not is_full and operator.str("auto_pad") in ("SAME_UPPER", "SAME_LOWER"):
        type_ = None if operands[0] is None else graph.type_of(operands[0])
        sizes = [] if type_ is None or type_.shape is None else type_.shape[2:]
        if not sizes or not all(isinstance(n, int) for n in sizes) or operator.op_type == "ConvTranspose":
            return {"strides": strides, "dilations": dilations, "padding": operator.str("auto_pad")}, None
        pads = _same_padding(
            cast("list[int]", list(sizes)), kernel, strides, dilations, operator.str("auto_pad")
        )
    mode = "zeros"
    if before is not None and (before.mode == mode or not any(pads)):
        mode, pads = before.mode, [own + more for own, more in zip(pads, before.pads, strict=True)]
    if operator.op_type == "ConvTranspose":  # what is added at the end is not cropped there: one setting
        added = operator.spatial("output_padding", rank)
        pads = [*pads[:rank], *(end - more for end, more in zip(pads[rank:], added, strict=True))]
    kept = [
        i
        for i in range(rank)
        if (kernel[i], strides[i], pads[i], pads[rank + i]) != (1, 1, 0, 0) or rank == 1
    ]

    def chosen(values: Sequence[int]) -> list[int]:
        return [values[i] for i in kept]

    begin, end = chosen(pads[:rank]), chosen(pads[rank:])
    found: dict[str, object] = {
        "strides": chosen(strides),
        "dilations": [d for i, d in zip(kept, chosen(dilations), strict=True) if kernel[i] > 1],
        "padding": begin if begin == end else [*begin, *end],
        "padding_mode": mode,
    }
    found |= {"kernel_shape": chosen(kernel)} if operator.traits.pool or is_full else {}
    whole = {"strides": strides, "dilations": dilations, "padding": pads, "kernel_shape": kernel}
    return found, whole


def on_the_same_axes(mine: Read, theirs: Read) -> tuple[Read, Read]:
    """Two windows on all axes, where the axes on which nothing happens are others."""
    both = [mine.whole, theirs.whole]
    if None in both or len({len(whole["strides"]) for whole in both if whole}) > 1:
        return mine, theirs
    lengths = [len(cast("list[int]", read.values["strides"])) for read in (mine, theirs)]
    if lengths[0] == lengths[1]:
        return mine, theirs
    wide = [read._replace(values=read.values | _wide(read.whole or {})) for read in (mine, theirs)]
    return wide[0], wide[1]


def _wide(whole: dict[str, list[int]]) -> dict[str, object]:
    begin, end = np.split(np.array(whole["padding"]), 2)
    shown = begin if (begin == end).all() else np.concatenate([begin, end])
    kept = [d for d, size in zip(whole["dilations"], whole["kernel_shape"], strict=True) if size > 1]
    return {"strides": whole["strides"], "dilations": kept, "padding": shown.tolist()}


def _same_padding(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], kind: str
) -> list[int]:
    """Return the pads of ``pad_mode="same"`` at a size: begins, then ends."""
    begins, ends = [], []
    for size, window, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size, 0)
        small, large = total // 2, total - total // 2
        begins.append(large if kind == "SAME_LOWER" else small)
        ends.append(small if kind == "SAME_LOWER" else large)
    return [*begins, *ends]


def is_same(a: object, b: object) -> bool:
    """Whether two settings are one, to the digits that people write."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return isclose(a, b, rel_tol=1e-4, abs_tol=1e-12)
    return bool(np.array_equal(a, b)) if isinstance(a, list) and isinstance(b, list) else a == b
