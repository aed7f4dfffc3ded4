"""Gradients of a torch module in evaluation mode; the module is left as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...frontends.torch_module.export.tensors import array_of, as_real
from ...ir import ModelError


def gradients_of(
    model: Any, tensors: Mapping[str, Any], forward: Callable[[], Any], weights: Sequence[np.ndarray | None]
) -> dict[str, np.ndarray]:
    """Return name of a parameter or buffer -> the gradient of the outputs' weighted sum.

    Running statistics have no gradient in torch and are left out. Frozen parameters and other buffers have
    one.

    Args:
        model: the module, in evaluation mode.
        tensors: its parameters and buffers by name.
        forward: runs it.
        weights: one array for each output; None leaves it out.

    Raises:
        ModelError: when torch cannot differentiate it.
    """
    import torch
    from torch.utils import _pytree as pytree

    statistics = {
        id(module._buffers.get(name))
        for module in model.modules()
        for name in ("running_mean", "running_var")
    }
    taken = {name: t for name, t in tensors.items() if _has_gradient(t) and id(t) not in statistics}
    kept = [(t, t.requires_grad, t.grad) for t in taken.values()]
    try:
        for tensor, _, _ in kept:
            tensor.requires_grad_(True)
        with torch.enable_grad(), _without_statistics(statistics):
            leaves = pytree.tree_leaves(forward())
            found = [x for x in leaves if isinstance(x, (torch.Tensor, int, float))]
            if len(found) != len(weights):  # numbers that depend on no input are no outputs
                found = [x for x in found if isinstance(x, torch.Tensor)]
            total = torch.zeros((), dtype=torch.float64)
            for output, weight in zip(found, weights, strict=True):
                if weight is not None and isinstance(output, torch.Tensor) and output.requires_grad:
                    total = total + (as_real(output).double() * torch.from_numpy(weight)).nan_to_num().sum()
            if not total.requires_grad:
                raise ModelError("E702", "no output has a gradient")
            gradients = torch.autograd.grad(total, list(taken.values()), allow_unused=True)
    except ModelError:
        raise
    except Exception as error:  # the user's forward, and functions without a derivative, may raise anything
        raise ModelError("E702", f"no gradients: {type(error).__name__}: {error}") from error
    finally:
        for tensor, required, gradient in kept:
            tensor.requires_grad_(required)
            tensor.grad = gradient
    return {
        name: np.zeros(tuple(as_real(t).shape)) if g is None else array_of(as_real(g))
        for (name, t), g in zip(taken.items(), gradients, strict=True)
        if id(t) not in statistics
    }


def _without_statistics(found: set[int]) -> Any:
    """Return a mode in which normalisations have no gradient by their statistics, which torch cannot give.

    Args:
        found: where it adds the identities of those that a function of `torch` or `torch.nn.functional` was
            given, whatever a class calls them.
    """
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    def without_gradient(given: Any) -> Any:
        found.add(id(given))
        return given.detach()

    class WithoutStatistics(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            args, kwargs = list(args), dict(kwargs or {})
            if getattr(func, "__name__", "") in ("batch_norm", "instance_norm", "native_batch_norm"):
                begin = 1 if func in (functional.batch_norm, functional.instance_norm) else 3
                for at, name in enumerate(("running_mean", "running_var"), begin):
                    if kwargs.get(name) is not None:
                        kwargs[name] = without_gradient(kwargs[name])
                    elif at < len(args) and args[at] is not None:
                        args[at] = without_gradient(args[at])
            return func(*args, **kwargs)

    return WithoutStatistics()


def _has_gradient(tensor: Any) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and not tensor.is_meta and tensor.is_leaf
