"""fold-transposes: a batched product takes its operands as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph, Operator, Value
from ....passes.pattern import PatternPass
from ..operators import DOMAIN, is_batch_of_products

_DTYPES = ("float16", "float32", "float64")
"""Element types of which ops.BatchMatMul has kernels and gradients on CPU."""


@dataclass(frozen=True)
class FoldTransposes(PatternPass):
    """Fold a Transpose of the last two axes into the batched product that reads it.

    What it does:
        Makes a MatMul that alone reads a Transpose of the last two axes a `regraft.mindspore.MatMul` of what
        is transposed: ``ops.BatchMatMul(transpose_b=True)``.

    Why:
        Attention is written so by hand. PyNative mode copies what is transposed; the product reads it as
        it lies.

    Leaves alone:
        Matrices without a batch, batches that are broadcast, integers, an axis of no elements, and another
        module's Transpose.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %q = input "q" : f32[N,5,4]
        ...   %k = input "k" : f32[N,6,4]
        ...   %0 = Transpose(%k) {perm=[0, 2, 1]} : f32[N,4,6]
        ...   %y = MatMul(%q, %0) : f32[N,5,6]
        ...   return "y" = %y
        ... }''')
        >>> for change in FoldTransposes().run(graph):
        ...     print(change)
        MS143 transposes its second operand itself - at `MatMul`
    """

    name: ClassVar[str] = "fold-transposes"
    codes: ClassVar[dict[str, str]] = {"MS143": "a batched product transposes its operands itself"}
    operators: ClassVar[tuple[str, ...]] = ("MatMul",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Fold; see the class."""
        sources = _find_transposed(graph, node) if _is_batched(graph, node) else {}
        if not sources:
            return ""
        for slot, source in sources.items():
            graph.set_operand(node.key, slot, source)
            node.attributes[("transA", "transB")[slot]] = 1
        node.domain = DOMAIN
        if len(sources) > 1:
            return "transposes both operands itself"
        return (
            "transposes its second operand itself" if 1 in sources else "transposes its first operand itself"
        )


def _is_batched(graph: Graph, node: Operator) -> bool:
    """Whether a MatMul has one product per matrix, each of at least one element, in a type with kernels."""
    a, b = (None if v is None else graph.type_of(v) for v in graph.operands(node.key))
    if a is None or b is None or a.shape is None or b.shape is None or a.dtype not in _DTYPES:
        return False
    return is_batch_of_products(a.shape, b.shape) and 0 not in (*a.shape, *b.shape)


def _find_transposed(graph: Graph, node: Operator) -> dict[int, Value]:
    """Return slot -> what the operand was before its last two axes were exchanged, for it alone."""
    found: dict[int, Value] = {}
    for slot, operand in enumerate(graph.operands(node.key)):
        turning = None if operand is None else graph.node(operand.node)
        if operand is None or not isinstance(turning, Operator) or turning.qualified_name != "Transpose":
            continue
        (source,) = graph.operands(turning.key)
        is_alone = graph.users(operand) == [(node.key, slot)] and not graph.is_output(operand)
        if source is not None and is_alone and turning.call == node.call and _exchanges(graph, operand):
            found[slot] = source
    return found


def _exchanges(graph: Graph, transposed: Value) -> bool:
    """Whether a Transpose exchanges the last two axes and no other."""
    rank = graph.known_type(transposed).rank
    permutation = graph.operator(transposed.node).ints("perm")
    return rank is not None and permutation == [*range(rank - 2), rank - 1, rank - 2]
