"""join-dense: a product with a matrix and a sum that are all of a layer are one dense layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ....ir import Builder, Graph, Operator, Parameter, Value
from ....passes.base import Change, Pass
from ....passes.places import Places


class _Dense(NamedTuple):
    """The operators of a dense layer: the product, the sum behind it, and the bias."""

    product: Operator
    sum: Operator | None
    bias: Value | None


@dataclass(frozen=True)
class JoinDense(Pass):
    """Make one dense layer of the product and the sum that an ONNX file has for it.

    What it does:
        Replaces the MatMul and Add, the MatMul, or the Gemm that are all of a module's call by one Linear,
        whose weight is stored (out, in). The values are turned when they are read; no copy is made.

    Why:
        What stays is nn.Dense, as an engineer would write it.

    Leaves alone:
        Modules of other frameworks, whose authors chose their own form, and those that do more. A weight or
        bias that anything else reads.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "dense" Dense {weight=%w, bias=%b}
        ...   %x = input "x" : f32[N,5,4]
        ...   %w = param "dense.weight" : f32[4,2]
        ...   %0 = MatMul(%x, %w) : f32[N,5,2] @ "dense#1"
        ...   %b = param "dense.bias" : f32[2]
        ...   %y = Add(%0, %b) : f32[N,5,2] @ "dense#1"
        ...   return "y" = %y
        ... }''')
        >>> for change in JoinDense().run(graph):
        ...     print(change)
        MS139 is one dense layer - at `MatMul` in `dense#1`
    """

    name: ClassVar[str] = "join-dense"
    codes: ClassVar[dict[str, str]] = {"MS139": "a product with a matrix and a sum are one dense layer"}

    def run(self, graph: Graph) -> list[Change]:
        """Join; see the class."""
        if graph.origin.framework not in ("onnx", ""):  # a graph as text has none
            return []
        places = Places(graph)
        inside: dict[int, list[Operator]] = {}
        for node in graph.operators():
            if node.call is not None:
                inside.setdefault(node.call, []).append(node)
        around = {call.parent for call in graph.modules.calls()}
        found = [d for call, nodes in inside.items() if call not in around and (d := _dense(graph, nodes))]
        count = len(found) + 1
        while len(found) < count:
            count, joined = len(found), _by_module(graph, found)
            found = [dense for dense in found if _is_alone(graph, dense, joined)]
        changes = [Change("MS139", "is one dense layer", places.of(graph, d.product.key)) for d in found]
        turned: set[int] = set()
        for dense in found:
            _join(graph, dense, turned)
        return changes


def _dense(graph: Graph, nodes: list[Operator]) -> _Dense | None:
    """Return the operators of a call as a dense layer; None where they are something else."""
    product, *rest = nodes
    operands = graph.operands(product.key)
    if product.qualified_name == "Gemm" and not rest and len(operands) > 1:
        factors = product.float("alpha") == product.float("beta") == 1.0
        if not factors or product.int("transA") or product.int("transB"):
            return None
        dense = _Dense(product, None, operands[2] if len(operands) > 2 else None)
    elif product.qualified_name == "MatMul" and not rest:
        dense = _Dense(product, None, None)
    elif product.qualified_name == "MatMul" and [node.qualified_name for node in rest] == ["Add"]:
        summands = graph.operands(rest[0].key)
        others = [v for v in summands if v != Value(product.key)]
        if (
            len(others) != 1
            or len(graph.users(Value(product.key))) > 1
            or graph.is_output(Value(product.key))
        ):
            return None
        dense = _Dense(product, rest[0], others[0])
    else:
        return None
    x, weight = operands[0], _parameter(graph, operands[1])
    known = None if x is None else graph.type_of(x)
    if known is None or known.shape is None or len(known.shape) < 2 or weight is None:
        return None
    if len(weight.data.shape) != 2 or "float" not in weight.data.dtype:
        return None
    bias = _parameter(graph, dense.bias)
    width = weight.data.shape[1]
    if dense.bias is not None and (bias is None or bias.data.shape not in ((width,), (1, width))):
        return None
    return dense


def _by_module(graph: Graph, found: list[_Dense]) -> dict[int, set[int]]:
    """Return, by key of a module, the operators of its calls that are joined."""
    joined: dict[int, set[int]] = {}
    for dense in found:
        keys = {node.key for node in (dense.product, dense.sum) if node is not None}
        joined.setdefault(_module(graph, dense.product), set()).update(keys)
    return joined


def _is_alone(graph: Graph, dense: _Dense, joined: dict[int, set[int]]) -> bool:
    """Whether nothing reads a layer's parameters but calls that are joined too, of modules that hold them."""
    own = _module(graph, dense.product)
    for value in (graph.operands(dense.product.key)[1], dense.bias):
        if value is None:
            continue
        if graph.is_output(value):
            return False
        for reader in graph.flow.succ[value.node]:
            node = graph.node(reader)
            module = _module(graph, node) if isinstance(node, Operator) and node.call is not None else own
            holds = module == own or value.node in graph.modules.module(module).parameters.values()
            if not holds or reader not in joined.get(module, ()):
                return False
    return True


def _module(graph: Graph, node: Operator) -> int:
    assert node.call is not None
    return graph.modules.call(node.call).module


def _parameter(graph: Graph, value: Value | None) -> Parameter | None:
    node = None if value is None else graph.node(value.node)
    return node if isinstance(node, Parameter) else None


def _join(graph: Graph, dense: _Dense, turned: set[int]) -> None:
    x, weight = graph.operands(dense.product.key)[:2]
    for parameter in (_parameter(graph, weight), _parameter(graph, dense.bias)):
        if parameter is not None and parameter.key not in turned:
            turned.add(parameter.key)
            is_bias = weight is None or parameter.key != weight.node
            data = parameter.data
            parameter.data = data.reshaped(data.shape[-1:]) if is_bias else data.transposed()
    last = dense.sum or dense.product
    b = Builder(graph)
    with b.inside(dense.product.call, dense.product.location):
        given = [x, weight] if dense.bias is None else [x, weight, dense.bias]
        joined = b.op("regraft.Linear", *given, types=last.types)
    graph.replace_uses(Value(last.key), joined)
    for key in dict.fromkeys((last.key, dense.product.key)):  # the product is unused only then
        graph.remove(key)
