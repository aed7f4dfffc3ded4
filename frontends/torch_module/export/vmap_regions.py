"""Operators on single slices, of `torch.vmap` and of flex_attention, become operators on whole tensors."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .patches import patched

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram


def without_vmap(program: ExportedProgram) -> ExportedProgram:
    """Return the program with every region of `torch.vmap` written out; itself where it has none.

    torch's own batching rules do that when it traces the program again, every operator as it is. They also
    write out `flex_attention`, whose functions of a score and of its place torch batches in eager mode.
    """
    targets = {node.target for node in program.graph.nodes if node.op == "call_function"}
    if any(getattr(target, "__name__", "") == "flex_attention" for target in targets):
        with patched("torch._higher_order_ops.flex_attention:FlexAttentionHOP", __call__=_attend_eagerly):
            return program.run_decompositions({})
    if any(getattr(target, "__module__", "") == "torch._functorch.predispatch" for target in targets):
        _remove_unread(program)
        with _regions_end():
            return program.run_decompositions({})
    return program


def _remove_unread(program: ExportedProgram) -> None:
    """Remove operators whose results nothing reads, and the constants that they alone read.

    Where a region is inside another, torch's rules for the outer one are traced beside what they compute:
    they read a slice of a trace that is no constant, and cannot be traced again.
    """
    graph, signature = program.graph, program.graph_signature
    for node in reversed(list(graph.nodes)):
        schema = getattr(node.target, "_schema", None)
        if node.op == "call_function" and not node.users and schema is not None and not schema.is_mutable:
            graph.erase_node(node)
    left = {node.name: node for node in graph.nodes if node.op == "placeholder" and not node.users}
    dead = [s for s in signature.input_specs if s.kind.name == "CONSTANT_TENSOR" and s.arg.name in left]
    for spec in dead:
        graph.erase_node(left[spec.arg.name])
        signature.input_specs.remove(spec)
        program.constants.pop(str(spec.target), None)


@contextmanager
def _regions_end() -> Iterator[None]:
    """Leave the regions that a trace entered and did not leave before it raised: they would last."""
    functorch: Any = importlib.import_module("torch._C._functorch")
    depth = functorch.get_dynamic_layer_stack_depth()
    try:
        yield
    except Exception:
        try:
            functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        except RuntimeError:  # torch before 2.12, when the stack is empty
            assert functorch.get_dynamic_layer_stack_depth() == depth
        raise


def _attend_eagerly(
    _self: object,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    _options: Mapping[str, Any],
    score_buffers: tuple[Any, ...] = (),
    mask_buffers: tuple[Any, ...] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what torch's eager `flex_attention` computes, without constants that a second trace refuses.

    Args:
        query: (B, H, L, E).
        key: (B, G, S, E), where G divides H.
        value: (B, G, S, V).
        score_mod: one score and its batch, head, query and key -> another score.
        block_mask: last of all, batch, head, query and key -> whether the score counts.
        scale: of the scores.
        score_buffers: further arguments of `score_mod`.
        mask_buffers: further arguments of the mask.
    """
    import torch
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    batch, heads = query.shape[:2]
    if key.shape[1] != heads:
        times = heads // key.shape[1]
        key, value = (torch.repeat_interleave(each, times, dim=1) for each in (key, value))
    precise = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = query.to(precise) @ key.to(precise).transpose(-2, -1) * scale
    places = [torch.arange(size) for size in (batch, heads, *scores.shape[2:])]
    change = _vmap_for_bhqkv(score_mod, prefix=(0,), suffix=(None,) * len(score_buffers))
    shows = _vmap_for_bhqkv(block_mask[-1], prefix=(), suffix=(None,) * len(mask_buffers))
    reads = _reads(block_mask[-1])
    shown = [each if is_read else torch.arange(1) for each, is_read in zip(places, reads, strict=True)]
    with TransformGetItemToIndex():
        hidden = ~shows(*shown, *mask_buffers)
        scores = change(scores, *places, *score_buffers).masked_fill(hidden, -math.inf)
    weights = torch.ops.aten._safe_softmax.default(scores, -1)
    found = weights.to(query.dtype) @ value.to(query.dtype)
    return found, scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)


def _reads(function: Any) -> list[bool]:
    """Return which of batch, head, query and key a mask reads; it is the same for all of the others."""
    nodes = getattr(getattr(function, "graph", None), "nodes", ())
    return ([bool(node.users) for node in nodes if node.op == "placeholder"] + [True] * 4)[:4]
