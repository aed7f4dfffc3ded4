"""Refuses parameters that are no plain tensors: quantised ones with a class of their own, parts of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....ir import ModelError

if TYPE_CHECKING:
    from torch.nn import Module


def require_plain(root: Module) -> None:
    """Refuse parameters and buffers whose class runs torch's operators itself, or that are parts of others.

    Raises:
        ModelError: E104 naming the first of them.
    """
    import torch

    _require_unobserved(root)
    tensors: Any = torch.Tensor
    plain = tensors.__torch_dispatch__
    for path, module in root.named_modules():
        if type(module).__name__ == "FullyShardedDataParallel":
            raise ModelError(
                "E104",
                "expected whole parameters, got a `FullyShardedDataParallel`, which holds parts of them",
                place=path or type(module).__name__,
                hint="give the module before it is wrapped, with the full state dict (StateDictType."
                "FULL_STATE_DICT)",
            )
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is None or getattr(type(tensor), "__torch_dispatch__", plain) == plain:
                continue
            whole = "full_tensor" if hasattr(tensor, "full_tensor") else "dequantize"
            raise ModelError(
                "E104",
                f"expected plain tensors as parameters, got a `{type(tensor).__name__}`, which runs "
                "operators in its own way",
                place=f"{path}.{name}" if path else name,
                hint=f"give the model with plain ones (`tensor.{whole}()` where the class has that), and "
                f"quantise or distribute the output with the target's own tools",
            )


def _require_unobserved(root: Module) -> None:
    """Refuse observers, which watch a model before it is quantised, and change in every run.

    Raises:
        ModelError: E104 naming the first of them.
    """
    found: list[str] = []
    faking: list[str] = []
    for path, module in root.named_modules():
        kind = type(module)
        if ".quantization." not in f"{kind.__module__}.":
            continue
        if "FakeQuantize" in kind.__name__:
            faking.append(f"{path}.")
        elif kind.__name__.endswith("Observer") and not path.startswith(tuple(faking)):
            found.append(path)
    if found:
        raise ModelError(
            "E104",
            f"expected a model after its quantisation, got one with {len(found)} observers, which watch it",
            place=found[0],
            hint="convert it first (`convert_pt2e`, `torch.ao.quantization.convert`), or give the float "
            "model",
        )
