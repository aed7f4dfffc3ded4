"""Operators without a lowering, expanded by our own or PyTorch's decompositions for just that operator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node


class Untraceable(Exception):  # noqa: N818 - a signal to the lowering, never shown to a user
    """A decomposition that these arguments do not fit; the message says why."""


def decomposed(node: Node) -> tuple[GraphModule, list[Node]] | None:
    """One call of an operator as a graph of simpler ones.

    The rest of the program stays as it is: functionalising all of it would cost three times the export.

    Returns:
        The graph and, for each of its placeholders, the node of the program that feeds it; None where there
        is no decomposition.

    Raises:
        Untraceable: when there is one that cannot be traced on these arguments.
    """
    import torch
    import torch.utils._pytree as pytree
    from torch.fx import Node
    from torch.fx.experimental.proxy_tensor import make_fx

    from .expansions import Inexpressible

    functions = _decompositions(node.target)
    if not functions:
        return None
    leaves, spec = pytree.tree_flatten((list(node.args), dict(node.kwargs)))
    slots = [
        i
        for i, leaf in enumerate(leaves)
        if isinstance(leaf, Node) and hasattr(leaf.meta.get("val"), "dtype")
    ]
    values = [leaf.meta["val"] if isinstance(leaf, Node) else leaf for leaf in leaves]
    fakes = [*(values[i] for i in slots), *pytree.tree_leaves(node.meta.get("val"))]
    modes = [m for fake in fakes if (m := getattr(fake, "fake_mode", None)) is not None]
    if not modes:
        return None

    def run(function: Callable[..., Any], *tensors: torch.Tensor) -> Any:
        given = list(values)
        for slot, tensor in zip(slots, tensors, strict=True):
            given[slot] = tensor
        args, kwargs = pytree.tree_unflatten(given, spec)
        found = function(*args, **kwargs)
        return tuple(found) if isinstance(found, tuple) else found  # a named one would be built in the graph

    refusal = "its decomposition cannot be traced on these arguments"
    for function in functions:
        try:
            with modes[0]:
                body = make_fx(partial(run, function))(*(values[i] for i in slots))
            return body, [leaves[i] for i in slots]
        except Inexpressible as error:
            refusal = str(error)
        except Exception as error:  # a decomposition may fail in any way on sizes that are symbols
            refusal = f"{refusal} ({type(error).__name__})" if function is functions[-1] else refusal
    raise Untraceable(refusal)


def _decompositions(target: Any) -> list[Callable[..., Any]]:
    """Ours, else the composite kernel that PyTorch itself runs, then what its compilers use."""
    import torch
    from torch._decomp import decomposition_table

    from .expansions import EXPANSIONS

    if str(target) in EXPANSIONS:
        return [EXPANSIONS[str(target)]]
    found: list[Callable[..., Any]] = []
    if hasattr(target, "_schema") and torch._C._dispatch_has_kernel_for_dispatch_key(
        target.name(), "CompositeImplicitAutograd"
    ):
        found.append(target.decompose)
    if target in decomposition_table:
        found.append(decomposition_table[target])
    return found
