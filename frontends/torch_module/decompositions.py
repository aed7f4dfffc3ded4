"""Operators without a lowering, expanded by our own or PyTorch's decompositions for just that operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from .export.decided_sizes import SizeDecision, differ, first_deviating, shape_at, sizes_decided

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node


class Untraceable(Exception):  # noqa: N818 - a signal to the lowering, never shown to a user
    """A decomposition that these arguments do not fit; the message says why."""


def decomposed(node: Node) -> tuple[GraphModule, list[Node]] | None:
    """Return one call of an operator as a graph of simpler ones.

    The rest of the program stays as it is: functionalising all of it would cost three times the export.

    Returns:
        The graph and, for each of its placeholders, the node of the program that feeds it; None where there
        is no decomposition.

    Raises:
        Untraceable: when there is one that cannot be traced on these arguments.
    """
    import torch.utils._pytree as pytree
    from torch.fx import Node

    functions = _decompositions(node.target)
    if not functions:
        return None
    leaves, spec = pytree.tree_flatten((list(node.args), dict(node.kwargs)))
    slots = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Node) and is_fed(leaf.meta.get("val"))]
    values = [leaf.meta["val"] if isinstance(leaf, Node) else leaf for leaf in leaves]
    mode = fake_mode(node)
    if mode is None:
        return None

    def run(function: Callable[..., Any], *tensors: torch.Tensor) -> Any:
        given = list(values)
        for slot, tensor in zip(slots, tensors, strict=True):
            given[slot] = tensor
        args, kwargs = pytree.tree_unflatten(given, spec)
        found = function(*args, **kwargs)
        return tuple(found) if isinstance(found, tuple) else found  # a named one would be built in the graph

    body = trace_first([partial(run, function) for function in functions], [values[i] for i in slots], mode)
    return body, [leaves[i] for i in slots]


def is_fed(value: Any) -> bool:
    """Whether a trace takes what a node has as an input: a tensor, or an open size."""
    import torch

    return hasattr(value, "dtype") or isinstance(value, torch.SymInt)


def fake_mode(node: Node) -> Any:
    """Return the mode of the fake tensors that a call takes and gives; None where it has none."""
    import torch.utils._pytree as pytree

    values = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
    modes = (getattr(fake, "fake_mode", None) for fake in pytree.tree_leaves(values))
    return next((mode for mode in modes if mode is not None), None)


def trace_first(
    functions: Sequence[Callable[..., Any]],
    values: Sequence[torch.Tensor],
    mode: Any,
    *,
    composites: bool = False,
) -> GraphModule:
    """Return the graph of the first of several functions that can be traced on fake tensors.

    Args:
        functions: what to try, in order.
        values: the fake tensors.
        mode: theirs.
        composites: keep the operators that torch itself composes of others, such as `matmul`.

    Raises:
        Untraceable: when none can.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    from .expansions import Inexpressible

    refusal = "its decomposition cannot be traced on these arguments"
    for function in functions:
        try:
            with mode, _without_values(mode), sizes_decided() as decisions:
                body = make_fx(function, pre_dispatch=composites)(*values)
        except Inexpressible as error:
            refusal = str(error)
        except Exception as error:  # a decomposition may fail in any way on sizes that are symbols
            refusal = f"{refusal} ({type(error).__name__})" if function is functions[-1] else refusal
        else:
            decided = _decided(decisions, function, body, values, mode)
            if decided is None:
                return body
            refusal = f"its decomposition goes by sizes: `{decided.text()}` in the example"
    raise Untraceable(refusal)


def _decided(
    decisions: Sequence[SizeDecision],
    function: Callable[..., Any],
    body: GraphModule,
    values: Sequence[Any],
    mode: Any,
) -> SizeDecision | None:
    """Return the first condition on sizes for which a traced graph is not its function at other sizes."""
    import torch

    environment = mode.shape_env

    def drawn(value: Any, sizes: Mapping[Any, int]) -> Any:
        shape = shape_at(value.shape if hasattr(value, "shape") else [value], environment, sizes)
        if shape is None:
            raise Untraceable("its decomposition goes by sizes that data decides")
        if not hasattr(value, "shape"):
            return shape[0]
        if value.dtype.is_floating_point or value.dtype.is_complex:
            return torch.randn(shape, dtype=value.dtype)
        return torch.randint(2, shape).to(value.dtype)

    def differs(sizes: Mapping[Any, int]) -> bool | None:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            given = [drawn(value, sizes) for value in values]
            try:
                wanted = function(*given)
            except Exception:  # a decomposition may refuse sizes in any way
                return None
            try:
                return differ(wanted, torch.fx.Interpreter(body).run(*given))
            except Exception:  # what was traced for other sizes may fail in any way
                return True

    return first_deviating(decisions, environment, differs) if decisions else None


@contextmanager
def _without_values(mode: Any) -> Iterator[None]:
    """Compute no values beside the fake ones in a with block: those of composites have no kernel."""
    kept = mode.propagate_real_tensors
    mode.propagate_real_tensors = False
    try:
        yield
    finally:
        mode.propagate_real_tensors = kept


def _decompositions(target: Any) -> list[Callable[..., Any]]:
    """Ours, else the composite kernel that PyTorch itself runs, then what its compilers use, else a body."""
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
    return found or _bodies(target)


def _bodies(target: Any) -> list[Callable[..., Any]]:
    """Return the Python bodies of a library's operator: its kernel for autograd, or that of a custom_op.

    The first is run by calling the operator, since torch gets there before the trace does.
    """
    import importlib

    import torch

    if not hasattr(target, "_schema") or target.namespace in ("aten", "prims", "regraft"):
        return []
    own = getattr(importlib.import_module("torch._library.custom_ops"), "OPDEFS", {}).get(target.name())
    kernels = getattr(own, "_backend_fns", {})
    kernel = kernels.get("cpu") or kernels.get(None)
    if kernel is not None:
        return [kernel]
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return [target] if has_kernel(target.name(), "AutogradCPU") else []
