"""Operators without a lowering, expanded by PyTorch's own decompositions for just that operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node


def decomposed(node: Node) -> tuple[GraphModule, list[Node]] | None:
    """One call of an operator as a graph of simpler ones.

    The rest of the program stays as it is: functionalising all of it would cost three times the export.

    Returns:
        The graph and, for each of its placeholders, the node of the program that feeds it; None where
        PyTorch has no decomposition, or it cannot be traced on these arguments.
    """
    import torch
    import torch.utils._pytree as pytree
    from torch.fx import Node
    from torch.fx.experimental.proxy_tensor import make_fx

    function = _decomposition(node.target)
    if function is None:
        return None
    leaves, spec = pytree.tree_flatten((list(node.args), dict(node.kwargs)))
    slots = [
        i
        for i, leaf in enumerate(leaves)
        if isinstance(leaf, Node) and hasattr(leaf.meta.get("val"), "dtype")
    ]
    values = [leaf.meta["val"] if isinstance(leaf, Node) else leaf for leaf in leaves]
    modes = [m for i in slots if (m := getattr(values[i], "fake_mode", None)) is not None]
    if not modes:
        return None

    def run(*tensors: torch.Tensor) -> Any:
        given = list(values)
        for slot, tensor in zip(slots, tensors, strict=True):
            given[slot] = tensor
        args, kwargs = pytree.tree_unflatten(given, spec)
        return function(*args, **kwargs)

    try:
        with modes[0]:
            body = make_fx(run)(*(values[i] for i in slots))
    except Exception:  # a decomposition may fail in any way on sizes that are symbols: then there is none
        return None
    return body, [leaves[i] for i in slots]


def _decomposition(target: Any) -> Callable[..., Any] | None:
    import torch
    from torch._decomp import decomposition_table

    if target in decomposition_table:
        return decomposition_table[target]
    if not hasattr(target, "_schema"):
        return None
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")
    return target.decompose if composite else None
