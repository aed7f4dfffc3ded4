"""Parts of a program that depend on nothing: torch itself computes them, to the bit."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .aliases import written_argument
from .export.tensors import array_of

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Graph, Node

LIMIT = 4096
"""Elements up to which a result is kept: those up to which constants are folded anyway."""


class KnownValues:
    """Results of a program's operators that depend on no input, parameter or buffer.

    One unit in the last place between two libraries' `exp` is nothing, until a time of 999 is multiplied by
    it and goes into a sine. Only what is computed counts: what is made and moved is the same anywhere.

    Args:
        program: the program.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._constants: dict[str, Any] = {
            name: program.constants[target]
            for name, target in program.graph_signature.inputs_to_lifted_tensor_constants.items()
        }
        self._values: dict[Graph, dict[Node, np.ndarray]] = {}

    def of(self, node: Node) -> np.ndarray | None:
        """Return the value of a node that others, which are not known, read; None where it is not known."""
        if node.graph not in self._values:
            self._values[node.graph] = dict(self._computed(node.graph))
        return self._values[node.graph].get(node)

    def _computed(self, graph: Graph) -> Iterator[tuple[Node, np.ndarray]]:
        """Return the values of one graph that are worth keeping; nested graphs have their own."""
        written = _written(graph)
        constant: dict[Node, bool] = {}  # -> whether something was computed, rather than moved
        for node in graph.nodes:
            if _storage(node) in written:
                continue
            if node.op == "placeholder" and node.name in self._constants:
                constant[node] = False
            elif (
                node.op == "call_function" and _is_static(node) and set(node.all_input_nodes) <= set(constant)
            ):
                inherited = any(constant[n] for n in node.all_input_nodes)
                constant[node] = inherited or _computes(node)
        kept = {n for n, computed in constant.items() if computed and _is_kept(n)}
        tensors: dict[Node, torch.Tensor] = {}
        for node in constant:
            if node in kept and any(user not in kept for user in node.users):
                found = self._evaluate(node, tensors)
                if found is not None:
                    yield node, array_of(found)

    def _evaluate(self, node: Node, tensors: dict[Node, torch.Tensor]) -> torch.Tensor | None:
        """Return the value of one node, and of all that it is made of; None where torch cannot compute it."""
        import torch
        from torch.fx.node import map_arg

        waiting = [node]
        with torch.no_grad():
            while waiting:
                current = waiting[-1]
                missing = [n for n in current.all_input_nodes if n not in tensors]
                if missing:
                    waiting += missing
                    continue
                waiting.pop()
                if current.op == "placeholder":
                    tensors[current] = self._constants[current.name].detach()
                    continue
                args, kwargs = map_arg((current.args, current.kwargs), tensors.__getitem__)
                target: Any = current.target
                try:
                    tensors[current] = target(*args, **kwargs)
                except Exception:  # torch raises many kinds; what it cannot compute here stays an operator
                    return None
        found = tensors[node]
        fake = node.meta["val"]
        return found if (found.shape, found.dtype) == (fake.shape, fake.dtype) else None


def _is_static(node: Node) -> bool:
    """Whether a node is a pure function of its operands, with one tensor of known shape on the CPU."""
    import torch

    target, fake = node.target, node.meta.get("val")
    return (
        isinstance(target, torch._ops.OpOverload)
        and target.namespace == "aten"
        and not target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in target.tags
        and isinstance(fake, torch.Tensor)
        and fake.device.type == "cpu"
        and all(isinstance(size, int) for size in fake.shape)
        and not target._schema.name.startswith("aten::empty")
    )


def _computes(node: Node) -> bool:
    """Whether a node's result, or what it counts from, was rounded: moves and integers are not."""
    import torch

    target: Any = node.target
    name = target._schema.name.removeprefix("aten::")
    if name in _MOVES or any(r.alias_info is not None for r in target._schema.returns):
        return False
    values = [node.meta["val"], *(n.meta["val"] for n in node.all_input_nodes)]
    return any(v.dtype.is_floating_point or v.dtype.is_complex for v in values if isinstance(v, torch.Tensor))


_MOVES = frozenset(
    {
        "_to_copy",
        "cat",
        "clone",
        "contiguous",
        "eye",
        "expand",
        "flip",
        "full",
        "full_like",
        "gather",
        "index",
        "index_select",
        "lift_fresh_copy",
        "masked_fill",
        "neg",
        "new_full",
        "new_ones",
        "new_zeros",
        "ones",
        "ones_like",
        "pad",
        "repeat",
        "reshape",
        "roll",
        "scalar_tensor",
        "stack",
        "tile",
        "to",
        "tril",
        "triu",
        "where",
        "zeros",
        "zeros_like",
    }
)
"""Operators whose result holds the numbers of their operands, or such as are stated."""


def _is_kept(node: Node) -> bool:
    fake: Any = node.meta["val"]
    return not fake.dtype.is_complex and 0 < fake.numel() <= LIMIT


def _written(graph: Graph) -> set[int | None]:
    """Return the memory that some operator of a graph writes into, or a nested graph may write into."""
    found: set[int | None] = set()
    for node in graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem:
            continue
        if not hasattr(node.target, "_schema"):
            found |= {_storage(n) for n in node.all_input_nodes}
        else:
            found.add(_storage(written) if (written := written_argument(node)) is not None else None)
    return found - {None}


def _storage(node: Node) -> int | None:
    fake: Any = node.meta.get("val")
    return fake.untyped_storage()._cdata if hasattr(fake, "untyped_storage") else None
