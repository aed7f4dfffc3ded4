"""Regions of torch.autocast: casts that torch makes inside its operators become operators of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .nodes import graph_modules, target_name

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

_ENABLED, _BODY = 2, 4
"""Positions of these among the arguments of `wrap_with_autocast`."""

_OF_TWO_TYPES = ("batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm")
"""Operators that take parameters of a wider type than their input, in which they compute."""


def state_casts(program: ExportedProgram) -> None:
    """Before every operator of a region whose result has another type than its operands, cast these.

    That is what autocast does: products in the lower type, sums and exponentials in float32. A second run
    changes nothing.
    """
    for module in graph_modules(program.graph_module):
        for node in module.graph.nodes:
            if target_name(node.target) == "wrap_with_autocast" and node.args[_ENABLED]:
                body: Any = getattr(module, str(node.args[_BODY].target))
                for inner in list(body.graph.nodes):
                    _cast_operands(inner)


def _cast_operands(node: Node) -> None:
    import torch

    result: Any = node.meta.get("val")
    first: Any = result[0] if isinstance(result, (list, tuple)) and result else result
    if not hasattr(node.target, "_schema") or not _is_real(first):
        return
    operands = [n for n in node.all_input_nodes if _is_real(n.meta.get("val"))]
    types = {n.meta["val"].dtype for n in operands if n.meta["val"].dim()}
    if not types or types == {first.dtype} or (len(types) > 1 and first.dtype == torch.float32):
        return  # of several types, torch itself takes the widest
    computed = first.dtype
    if target_name(node.target).partition(".")[2].startswith(_OF_TWO_TYPES):
        computed = torch.float32
        with node.graph.inserting_after(node):
            back = node.graph.call_function(torch.ops.aten.to.dtype, (node, first.dtype))
        node.replace_all_uses_with(back, lambda user: user is not back)
        back.meta = dict(node.meta)
        node.meta["val"] = first.to(computed)
    for operand in operands:
        if operand.meta["val"].dtype != computed:
            with node.graph.inserting_before(node):
                cast = node.graph.call_function(torch.ops.aten.to.dtype, (operand, computed))
            cast.meta = {**node.meta, "val": operand.meta["val"].to(computed)}
            node.replace_input_with(operand, cast)


def _is_real(value: Any) -> bool:
    return hasattr(value, "dtype") and value.is_floating_point()
