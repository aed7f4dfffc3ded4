"""join-biases: what is added to a convolution, one number a channel, becomes its bias."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from ..ir import Constant, Graph, Operator, Parameter, TensorData, Value
from .pattern import PatternPass

_CONVOLUTIONS = ("Conv", "ConvTranspose")


@dataclass(frozen=True)
class JoinBiases(PatternPass):
    """Make an Add of one number a channel, behind a convolution without a bias, the convolution's bias.

    What it does:
        Finds an Add in the call of a convolution that nothing else reads, whose other operand is a parameter
        of one axis, unsqueezed to stand for the channels, or a parameter or constant of that shape. A
        parameter that nothing else reads becomes a vector.

    Why:
        TensorFlow adds biases by an operator of its own. A convolution with a bias is one operator, is one
        layer in every framework, and takes in a normalisation behind it.

    Leaves alone:
        Sums in another call of a module, and other shapes. Results differ by rounding, as the bias is added
        inside the convolution.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,3,8,8]
        ...   %w = param "w" : f32[4,3,1,1]
        ...   %b = param "b" : f32[4]
        ...   %0 = Conv(%x, %w) : f32[N,4,8,8]
        ...   %1 = const [1, 2] : i64[2]
        ...   %2 = Unsqueeze(%b, %1) : f32[4,1,1]
        ...   %y = Add(%0, %2) : f32[N,4,8,8]
        ...   return "y" = %y
        ... }''')
        >>> for change in JoinBiases().run(graph):
        ...     print(change)
        JB101 is the bias of the convolution before it - at `Add`
    """

    name: ClassVar[str] = "join-biases"
    codes: ClassVar[dict[str, str]] = {"JB101": "a bias is added after its convolution"}
    rewordings: ClassVar[frozenset[str]] = frozenset({"JB101"})
    needs_dataflow: ClassVar[bool] = True
    operators: ClassVar[tuple[str, ...]] = ("Add",)
    nested: ClassVar[bool] = True

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Join; see the class."""
        found = _find_convolution(graph, node)
        if found is None:
            return ""
        convolution, bias = found
        graph.set_operand(convolution.key, 2, bias)
        graph.replace_uses(Value(node.key), Value(convolution.key))
        return "is the bias of the convolution before it"


def _find_convolution(part: Graph, node: Operator) -> tuple[Operator, Value] | None:
    """Return the convolution before an Add and the bias that it adds; None without one."""
    operands = part.operands(node.key)
    for value, other in (operands, reversed(operands)):
        layer = None if value is None else part.producer(value)
        if value is None or other is None or not isinstance(layer, Operator):
            continue
        if layer.qualified_name not in _CONVOLUTIONS or layer.call != node.call:
            continue
        if len(part.operands(layer.key)) > 2 or len(part.users(value)) != 1 or part.is_output(value):
            continue
        bias = _find_bias(part, layer, other)
        if bias is not None:
            return layer, bias
    return None


def _find_bias(part: Graph, layer: Operator, value: Value) -> Value | None:
    """Return the value of one axis that another spreads over the channels of a layer; None without one."""
    whole, type_ = layer.types[0], part.type_of(value)
    if whole is None or whole.shape is None or type_ is None or type_.shape is None:
        return None
    channels, rank = whole.shape[1], len(whole.shape)
    shape = (1,) * (rank - len(type_.shape)) + tuple(type_.shape)
    if not isinstance(channels, int) or shape != (1, channels, *[1] * (rank - 2)) or channels == 1:
        return None
    node = part.producer(value)
    if isinstance(node, Constant) and node.data.load is not None:
        return part.add_constant(np.ascontiguousarray(node.data.numpy().reshape(-1)))
    if isinstance(node, Parameter) and len(part.users(value)) == 1 and not part.is_output(value):
        node.data = _flat(node.data)
        return value
    if not isinstance(node, Operator) or node.qualified_name != "Unsqueeze":
        return None
    bias = part.operands(node.key)[0]
    held = None if bias is None else part.producer(bias)
    return bias if isinstance(held, Parameter) and held.data.shape == (channels,) else None


def _flat(data: TensorData) -> TensorData:
    """Return a tensor as a vector, without a copy of it."""
    load = None if data.load is None else lambda: data.numpy().reshape(-1)
    return replace(data, shape=(prod(data.shape),), load=load, storage=None, digest="")
