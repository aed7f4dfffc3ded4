"""The nodes of an fx program: names of their operators, kinds of node, and what nests in what."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.fx import Graph, Node

IGNORED = frozenset(
    {
        "aten._assert_async.default",
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default",
        "aten._linalg_check_errors.default",
        "aten.sym_constrain_range_for_size.default",
        "aten.sym_constrain_range.default",
    }
)
"""Operators that check and compute nothing."""

RELEASE = "aten.set_.default"
"""`x.set_()`, by which reversible blocks give up a tensor's memory: `x` has no elements afterwards."""

RUN_WHOLE = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}
"""Higher-order operators that run their body: name -> position of the body among the arguments."""

CONTROL_FLOW = ("cond", "while_loop", "scan", "map_impl")
"""Higher-order operators that run one of their bodies, or one several times."""


def target_name(target: Any) -> str:
    """Return ``aten.conv2d.default``, ``operator.getitem`` or a higher-order operator's name."""
    if hasattr(target, "_schema"):
        return str(target)
    module = getattr(target, "__module__", "") or ""
    name = getattr(target, "__name__", str(target))
    return f"{module.lstrip('_')}.{name}" if module in ("_operator", "math") else name


@lru_cache(maxsize=4096)
def functional_name(target: Any) -> str | None:
    """Return the name of the operator that computes what an in-place one writes, or None for any other."""
    import torch

    schema = getattr(target, "_schema", None)
    if schema is None or not schema.is_mutable or not schema.name.endswith("_"):
        return None
    namespace, _, name = schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name.rstrip("_"), None)
    overload = getattr(target, "_overloadname", "default")
    for twin in (overload, "default"):  # floor_divide_.Tensor is that of floor_divide.default
        if packet is not None and twin in packet.overloads():
            return f"{namespace}.{name.rstrip('_')}.{twin}"
    return None


@lru_cache(maxsize=4096)
def arguments_of(target: Any, name: str) -> tuple[tuple[str, str, Any], ...]:
    """Return an operator's arguments: (name as the lowering `name` knows it, its own name, default).

    An in-place operator may call its first argument otherwise than the one whose lowering it uses.
    """
    import torch

    arguments = target._schema.arguments
    own = [a.name for a in arguments]
    names = own
    if name != str(target):
        namespace, base, overload = name.split(".")
        twin = getattr(getattr(getattr(torch.ops, namespace), base), overload)
        theirs = [a.name for a in twin._schema.arguments]
        names = theirs if len(theirs) == len(own) else own
    return tuple((n, a.name, a.default_value) for n, a in zip(names, arguments, strict=True))


def is_tensor_result(node: Node) -> bool:
    """Whether some result of a node is a tensor."""
    fake = node.meta.get("val")
    fakes = fake if isinstance(fake, (list, tuple)) else [fake]
    return any(hasattr(f, "dtype") for f in fakes)


def is_structural(node: Node) -> bool:
    """Whether a node computes nothing."""
    name = target_name(node.target)
    structural = name in ("operator.getitem", RELEASE) or name in IGNORED or name in RUN_WHOLE
    return node.op != "call_function" or structural or name in CONTROL_FLOW


def graph_modules(root: Any) -> Iterator[torch.fx.GraphModule]:
    """Yield a program and all that is nested in it."""
    import torch

    for module in root.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield module


def owners(root: Any) -> dict[Graph, Node]:
    """Return the graph of every body nested in a program -> the node that runs it."""
    return {
        getattr(module, str(body.target)).graph: node
        for module in graph_modules(root)
        for node in module.graph.nodes
        if target_name(node.target) in (*RUN_WHOLE, *CONTROL_FLOW)
        for body in node.all_input_nodes
        if body.op == "get_attr" and hasattr(getattr(module, str(body.target)), "graph")
    }
