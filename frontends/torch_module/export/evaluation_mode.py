"""Evaluation mode for the time of a capture, after which the module is as it was."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...live_objects import Snapshot
from ..modules.live_state import Untouched, structure_kept
from .patches import original, patched

if TYPE_CHECKING:
    import torch
    from torch.nn import Module
    from torch.overrides import TorchFunctionMode


@contextmanager
def evaluation(module: Module) -> Iterator[Snapshot]:
    """Switch to evaluation mode without calling the model's own `train`; restore everything afterwards.

    The block gets the state before it.

    A forward that keeps what it computed (a table of biases), or assigns a weight anew, would keep
    torch.export's tensors without values. Values that a real call writes are `dry_run`'s to undo.
    """
    with structure_kept(module) as state, _switched(module):
        yield state


@contextmanager
def dry_run(module: Module, kept: Untouched | None = None) -> Iterator[None]:
    """Switch to evaluation mode for calls without gradients; then restore values and random state too.

    Args:
        module: the module.
        kept: what the dry runs of a module share that follow one another.
    """
    import torch

    from ..quantised.layers import quantised_layers

    seeds = torch.random.fork_rng(devices=[])
    with kept or Untouched(module), _switched(module), seeds, torch.no_grad(), quantised_layers(module):
        yield


@contextmanager
def _switched(module: Module) -> Iterator[None]:
    """Switch to evaluation mode; the modules' modes are restored with their attributes."""
    import torch

    fastpath = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # its fused operator hides the layer's parts
    try:
        for m in module.modules():
            m.training = False
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)


@contextmanager
def values_kept(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Undo the writes into tensors inside the block."""
    import torch

    values = [(t, t.detach().clone()) for t in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in values:
                tensor.copy_(value)


@contextmanager
def plainly() -> Iterator[None]:
    """Run what torch would compile as Python does: compiled modules, bodies of `cond`, `scan` and the like.

    Compiled code runs past hooks and the modes that trace a step, and gives a loop no gradient. Orders that
    torch leaves open, of an unsorted `topk` and of equals in a `topk`, `kthvalue` or `sort`, are the graph's.
    """
    # torch's products of bytes saturate on some processors (oneDNN, AVX2)
    with uncompiled(), _in_order(), patched("torch", _int_mm=_multiply_bytes):
        yield


def _multiply_bytes(a: Any, b: Any) -> Any:
    """Return what `torch._int_mm` is to give."""
    import torch

    return (a.double() @ b.double()).to(torch.int32)


def _in_order() -> TorchFunctionMode:
    import torch
    from torch.overrides import TorchFunctionMode

    class InOrder(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            if func in tops and "out" not in given:
                return take_first_of_equals(*args, **given)
            if func in kths and "out" not in given:
                return take_in_order(*args, **given)
            if func in sorts and not any(isinstance(a, str) for a in args[1:]):
                positions = dict(zip(("dim", "descending"), args[1:3], strict=False))
                args, given = args[:1], {**positions, **given, "stable": True}
            return func(*args, **given)

    def take_first_of_equals(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(("input", "k", "dim", "largest"), args, strict=False)) | kwargs
        dim, descending = given.get("dim", -1), given.get("largest", True)
        found = torch.sort(given["input"], dim=dim, descending=descending, stable=True)
        first = [t.narrow(dim, 0, given["k"]).contiguous() if t.dim() else t for t in found]
        return torch.return_types.topk(first)  # type: ignore[attr-defined]

    def take_in_order(*args: Any, **kwargs: Any) -> Any:
        given = {"dim": -1, "keepdim": False} | dict(
            zip(("input", "k", "dim", "keepdim"), args, strict=False)
        )
        given |= kwargs
        x, dim = given["input"], given["dim"]
        if not x.dim() or isinstance(dim, str):
            return torch.kthvalue(*args, **kwargs)
        found = torch.sort(x, dim=dim, stable=True)
        picked = [t.narrow(dim, given["k"] - 1, 1) for t in found]
        return torch.return_types.kthvalue([t if given["keepdim"] else t.squeeze(dim) for t in picked])  # type: ignore[attr-defined]

    kths = (torch.kthvalue, torch.Tensor.kthvalue)
    tops = (torch.topk, torch.Tensor.topk, torch.ops.aten.topk.default)
    sorts = (torch.sort, torch.Tensor.sort, torch.argsort, torch.Tensor.argsort)
    return InOrder()


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run what torch would compile as Python does."""
    import torch

    compiled = original("torch._higher_order_ops.utils", "_hop_compile_and_call")

    def run(operator: Any, arguments: Sequence[Any], keywords: Any = None) -> Any:
        if operator.__name__ == "_cond_op_wrapper":
            predicate, yes, no, operands = arguments
            return (yes if bool(predicate) else no)(*operands)
        if operator.__name__ == "_while_loop_op_wrapper":
            condition, body, carried, operands = arguments
            while bool(condition(*carried, *operands)):
                carried = body(*carried, *operands)
            return carried
        if operator.__name__ == "run_flattened_scan":
            return _scan(*arguments)
        if operator.__name__ == "run_flattened_map":
            function, rows, further = arguments
            return _map_rows(function, rows, further, inspect.getclosurevars(operator).nonlocals)
        with torch.compiler.set_stance("default"):
            return compiled(operator, arguments, keywords)

    eager = patched("torch._higher_order_ops.utils", _hop_compile_and_call=run)
    with eager, torch.compiler.set_stance("force_eager"):
        yield


def _scan(combine: Any, carried: Sequence[Any], rows: Sequence[Any]) -> tuple[Any, Any]:
    """Return what `scan` gives: the carried values after the last row, and the results of all rows."""
    from torch.utils import _pytree as pytree

    found: list[Any] = []
    nest: Any = None
    for at in range(rows[0].shape[0]):
        nest, result = combine(*carried, *(row[at] for row in rows))
        carried = pytree.tree_leaves(nest)
        found.append(result)
    return nest, _stacked(found)


def _map_rows(function: Any, rows: Sequence[Any], further: Sequence[Any], nests: Mapping[str, Any]) -> Any:
    """Return what `map` gives: the results of all rows."""
    from torch.utils import _pytree as pytree

    more = pytree.tree_unflatten(list(further), nests["args_spec"])
    found = [
        function(pytree.tree_unflatten([row[at] for row in rows], nests["xs_spec"]), *more)
        for at in range(rows[0].shape[0])
    ]
    return _stacked(found)


def _stacked(found: Sequence[Any]) -> Any:
    """Return the results of all rows, each of their tensors joined on a new axis 0."""
    import torch
    from torch.utils import _pytree as pytree

    columns = zip(*(pytree.tree_leaves(each) for each in found), strict=True)
    return pytree.tree_unflatten([torch.stack(each) for each in columns], pytree.tree_structure(found[0]))
