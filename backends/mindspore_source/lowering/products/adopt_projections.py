"""adopt-projections: modules that are nn.MultiheadAttention hold the parameters of their `out_proj`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .....ir import Graph, Operator, Parameter, Value
from .....ir.composites.multihead import INPUTS
from .....passes.base import Change, Pass
from ...emitters.attention import PARAMETERS


@dataclass(frozen=True)
class AdoptProjections(Pass):
    """Let attention modules hold the parameters of their output projection themselves.

    What it does:
        Moves the parameters of the child `out_proj`, which is never called, into a module that computes
        nothing but a multi-head attention that MindSpore's layer computes alike for every input.

    Why:
        torch's layer holds the projection as a module that it never calls; so does MindSpore's, as one
        layer. A module whose every parameter is one layer's is written as that layer.

    Leaves alone:
        Modules that compute more, and those of another framework that mask with two element types, or whose
        masks may hide a whole row.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   return "y" = %x
        ... }''')
        >>> AdoptProjections().run(graph)
        []
    """

    name: ClassVar[str] = "adopt-projections"
    codes: ClassVar[dict[str, str]] = {"MS112": "an attention module holds the parameters of its projection"}

    def run(self, graph: Graph) -> list[Change]:
        """Adopt; see the class."""
        tree = graph.modules
        by_module: dict[int, list[Operator]] = {}
        inside: dict[int, int] = {}
        found = [o for o in graph.operators() if o.qualified_name == "regraft.MultiheadAttention"]
        if not found:
            return []
        for operator in graph.operators():
            for call in tree.ancestors(operator.call):
                module = tree.call(call).module
                inside[module] = inside.get(module, 0) + 1
        for operator in found:
            if operator.call is not None:
                by_module.setdefault(tree.call(operator.call).module, []).append(operator)
        return [
            Change("MS112", "holds the parameters of its projection", tree.path(key))
            for key, operators in by_module.items()
            if key
            and inside[key] == len(operators)
            and (graph.origin.framework == "mindspore" or all(_is_equal(graph, o) for o in operators))
            and _adopt(graph, key, operators[0])
        ]


def _adopt(graph: Graph, key: int, operator: Operator) -> bool:
    """Move the projection's parameters to the module; False if they are not that module's alone."""
    tree, module = graph.modules, graph.modules.module(key)
    operands = dict(zip(INPUTS, graph.operands(operator.key), strict=False))
    projection = module.children.get("out_proj")
    if projection is None or tree.calls(projection) or len(tree.paths(projection)) > 1:
        return False
    own = set(module.parameters.values())
    theirs = {p: n for n, p in tree.module(projection).parameters.items()}
    for name, target in PARAMETERS.items():
        value = operands.get(name)
        if value is not None and value.node not in (theirs if "." in target else own):
            return False
    for parameter, name in theirs.items():
        module.parameters[f"out_proj.{name}"] = parameter
    tree.unregister(key, "out_proj")
    return True


def _is_equal(graph: Graph, operator: Operator) -> bool:
    """Whether MindSpore's layer computes the same for every input."""
    operands = dict(zip(INPUTS, graph.operands(operator.key), strict=False))
    masks = [v for n in ("key_padding_mask", "attn_mask") if (v := operands.get(n)) is not None]
    if len({graph.known_type(m).dtype for m in masks}) > 1:
        return False  # MindSpore adds a mask of truth values to one of numbers as ones
    if operands.get("bias_k") is not None or operator.int("add_zero_attn"):
        return True
    # where all keys of a query are hidden, MindSpore's softmax spoils the queries beside it, on CPU
    return not masks or (len(masks) == 1 and _hides_no_row(graph, masks[0]))


def _hides_no_row(graph: Graph, mask: Value) -> bool:
    node = graph.node(mask.node)
    buffer = isinstance(node, Parameter) and node.is_buffer
    array = node.data.numpy() if isinstance(node, Parameter) and buffer else graph.constant_value(mask)
    if array is None:
        return False
    hidden = array if array.dtype == np.bool_ else array == -np.inf
    return not hidden.all(axis=-1).any()
