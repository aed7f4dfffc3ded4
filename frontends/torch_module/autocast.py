"""The casts that operators of an autocast region make of their operands, written into the program."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from .decompositions import fake_mode
from .nodes import CONTROL_FLOW, RUN_WHOLE, target_name

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node

_AUTOCAST = "wrap_with_autocast"


def state_casts(program: ExportedProgram) -> None:
    """Put a cast before every operand that autocast has an operator take in another element type.

    Autocast's lists of operators are torch's own: each call is tried on its fake tensors. A program without
    such a region stays as it is, and so does one that has its casts already.
    """
    _visit(program.graph_module, None)


def _visit(module: GraphModule, region: tuple[Any, ...] | None) -> None:
    """Write out the casts of a body that runs in a region: the arguments of `torch.autocast`, or None."""
    changed = False
    for node in list(module.graph.nodes):
        name = target_name(node.target)
        if name in RUN_WHOLE or name in CONTROL_FLOW:
            own = tuple(node.args[:3]) if name == _AUTOCAST else region
            for body in node.all_input_nodes:
                found: Any = getattr(module, str(body.target), None) if body.op == "get_attr" else None
                if hasattr(found, "graph"):
                    _visit(found, own if own is not None and own[2] else None)
        elif region is not None and node.op == "call_function" and hasattr(node.target, "_schema"):
            changed |= _cast_operands(node, region)
    if changed:
        module.recompile()


def _cast_operands(node: Node, region: tuple[Any, ...]) -> bool:
    import torch

    casts = _casts(node, region)
    for operand, dtype in casts.items():
        with node.graph.inserting_before(node):
            new = node.graph.call_function(torch.ops.aten.to.dtype, (operand, dtype))
        new.meta = {k: v for k, v in node.meta.items() if k != "val"}
        new.meta["val"] = operand.meta["val"].to(dtype)
        node.replace_input_with(operand, new)
    return bool(casts)


def _unasked(mode: Any) -> AbstractContextManager[object]:
    """Let a run on fake tensors decide no size of the program: some kernels of torch before 2.13 ask."""
    return nullcontext() if mode.shape_env is None else mode.shape_env.suppress_guards()


def _casts(node: Node, region: tuple[Any, ...]) -> dict[Node, torch.dtype]:
    """Return operand -> the element type that autocast gives it: what is cast before anything is computed."""
    import torch
    from torch.fx.node import map_arg
    from torch.utils._python_dispatch import TorchDispatchMode

    mode = fake_mode(node)
    operands: dict[int, list[Node]] = {}  # copies of a node have one tensor
    for operand in node.all_input_nodes:
        if hasattr(operand.meta.get("val"), "dtype"):
            operands.setdefault(id(operand.meta["val"]), []).append(operand)
    if mode is None or not operands:
        return {}
    found: dict[Node, torch.dtype] = {}

    class Watching(TorchDispatchMode):
        computing = False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default and id(args[0]) in operands and not self.computing:
                found.update((operand, result.dtype) for operand in operands[id(args[0])])
            elif func.namespace != "prim":  # which asks for a device
                self.computing = True
            return result

    values = map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    device, dtype, _ = region
    target: Any = node.target
    # torch raises many kinds for what fake tensors cannot do; the casts come before
    with suppress(Exception), warnings.catch_warnings(), _unasked(mode):
        warnings.simplefilter("ignore")
        with mode, torch.no_grad(), torch.autocast(device, dtype=dtype, cache_enabled=False), Watching():
            target(*values[0], **values[1])
    return found
