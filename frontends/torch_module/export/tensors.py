"""Tensors as arrays and back, and the tensors that a program takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....ir import ModelError, numpy_dtype

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor's values; by way of their bits those of types that NumPy has not of its own.

    Of a quantised tensor they are the integers.

    Raises:
        ModelError: when it has none.
    """
    import torch

    if tensor.is_meta:
        raise ModelError(
            "E101",
            f"expected values, got a tensor {list(tensor.shape)} on the device `meta`, which has none",
            hint="give the model its weights first: module.to_empty(device='cpu'), then load_state_dict",
        )
    tensor = tensor.detach().cpu()
    if tensor.is_quantized:
        return tensor.int_repr().numpy()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    if name == "bfloat16" or name.startswith("float8_e"):
        bits = torch.int16 if name == "bfloat16" else torch.uint8
        return tensor.view(bits).numpy().view(numpy_dtype(name))
    return tensor.numpy()


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in the graph's form: a complex one as real and imaginary parts on a last axis."""
    import torch

    if not tensor.is_complex():
        return tensor
    return torch.view_as_real(tensor.resolve_conj())


def as_complex(tensor: torch.Tensor) -> torch.Tensor:
    """Return the inverse of `as_real` for a tensor that is known to be complex."""
    import torch

    return torch.view_as_complex(tensor.contiguous())


def tensor_of(array: np.ndarray) -> torch.Tensor:
    """Return a tensor of its own with these values; the inverse of `array_of`."""
    import torch

    name = array.dtype.name
    if name == "bfloat16" or name.startswith("float8_e"):
        bits = np.int16 if name == "bfloat16" else np.uint8
        return torch.from_numpy(array.view(bits).copy()).view(getattr(torch, name))
    return torch.from_numpy(np.array(array, copy=True))


def copied_array(tensor: torch.Tensor) -> np.ndarray:
    """Return a copy of a tensor's values, which later calls do not overwrite."""
    return np.array(array_of(tensor), copy=True)


def array_of_number(value: Any) -> np.ndarray:
    """Return a Python number as a tensor of torch's default type."""
    return np.asarray(value, np.float32 if isinstance(value, float) else None)


def tensors_in(result: Any) -> list[torch.Tensor]:
    """Return the tensors of a result, in order."""
    import torch
    from torch.utils import _pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def replace_tensors(result: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """Return a result with other tensors in place of its own, in order."""
    import torch
    from torch.utils import _pytree as pytree

    left = list(tensors)
    leaves, spec = pytree.tree_flatten(result)
    leaves = [
        quantised_like(left.pop(0), leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
    ]
    return pytree.tree_unflatten(leaves, spec)


def quantised_like(tensor: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """Return integers as a tensor in the scale of another one, where that is quantised by one scale."""
    import torch

    if not model.is_quantized or model.qscheme() != torch.per_tensor_affine:
        return tensor
    make: Any = torch._make_per_tensor_quantized_tensor  # type: ignore[attr-defined]
    return make(tensor.to(model.int_repr().dtype), model.q_scale(), model.q_zero_point())


def unquantised(tensor: torch.Tensor) -> torch.Tensor:
    """Return the floats that a quantised tensor stands for; any other tensor as it is."""
    return tensor.dequantize() if tensor.is_quantized else tensor


def tensor_placeholders(program: ExportedProgram) -> list[Node]:
    """Return the placeholders of a program's tensor inputs, in order."""
    users = set(program.graph_signature.user_inputs)
    return [
        node
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in users and hasattr(node.meta.get("val"), "shape")
    ]
