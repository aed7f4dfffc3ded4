"""The state dict in a file of torch.save, which may lie inside a larger checkpoint, and its optimizer's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..formats.pickled import FOREIGN, Strided, Unknown
from ..formats.torch_file import TorchFile
from ..ir import ModelError, TensorData, require_name
from .optimizer_state import OptimizerState, of_torch
from .parts import part_of

_WRAPPERS = ("state_dict", "model_state_dict", "model", "model_state", "module", "net", "params")
"""Keys under which training scripts keep the state beside other things, the first that a file has."""

_OPTIMIZERS = ("optimizer", "optimizer_state_dict", "optim", "optimizer_state", "optimizer_states")
"""Keys under which they keep `optimizer.state_dict()`; Lightning a list of them."""

_HINT = "save the state dict alone: torch.save(model.state_dict(), path)"

_MAKERS = "torch._utils._rebuild_"
"""Prefixes of the names of functions that make a tensor of torch, plain or not."""

_SHOWN = 8


class TorchStates:
    """The states in a file of ``torch.save``; tensors stay in the file, and nothing is executed.

    Args:
        path: the file.
        part: which of several states in it is read: a key, or keys with dots between; or what the names of
            its tensors begin with.

    Raises:
        ModelError: when the file is missing or malformed.
    """

    def __init__(self, path: Path, part: str | None = None) -> None:
        self._file, self._part = TorchFile(path), part

    def tensors(self, notes: list[str]) -> dict[str, TensorData]:
        """Return the tensors of the state dict.

        Args:
            notes: gets a sentence where the state was found inside a larger checkpoint.

        Raises:
            ModelError: when the file holds anything but tensors by name.
        """
        path = self._file.path
        state, rest = _state(self._file.content, path, self._part, notes)
        found = {name: self._handle(name, tensor) for name, tensor in state.items()}
        return part_of(found, rest, path)

    def optimizer(self, tensors: Mapping[str, TensorData]) -> OptimizerState | None:
        """Return what an optimizer keeps of the file's tensors; None where there is none."""
        content = self._file.content if isinstance(self._file.content, Mapping) else {}
        for key in _OPTIMIZERS:
            found = content.get(key)
            found = found[0] if isinstance(found, list) and len(found) == 1 else found
            if isinstance(found, Mapping):
                return of_torch(found, tensors, self._slot)
        return None

    def _slot(self, value: object) -> TensorData | None:
        return self._handle("slot", value) if isinstance(value, Strided) else None

    def _handle(self, name: str, tensor: Strided) -> TensorData:
        path = self._file.path
        require_name(name, "the name of a tensor", str(path))
        found = self._file.tensor(name, tensor)
        if found is None:
            what = f"`{name}` torch.{tensor.dtype}"
            raise ModelError("E101", f"expected a plain tensor, got {what}", place=str(path))
        return found


def _state(
    content: object, path: Path, part: str | None, notes: list[str]
) -> tuple[Mapping[str, Strided], str | None]:
    """Return (the state of a training checkpoint, what names of a part in it begin with)."""
    steps: list[str] = []
    if part is not None:
        content, steps, part = _below(content, part)
    while isinstance(content, Mapping) and not _is_flat(content):
        states = [k for k, v in content.items() if isinstance(k, str) and _has_state(v)]
        key = next((k for k in _WRAPPERS if k in states), None)
        if key is None:  # a name that nobody else gives it, where nothing else can be meant
            if len(states) > 1 and part is not None:
                listed = ", ".join(f"`{k}`" for k in states[:_SHOWN])
                raise ModelError(
                    "E801",
                    f"expected tensors under `{part}`, got none",
                    place=str(path),
                    hint=f"the file has {listed}",
                )
            if len(states) > 1:
                raise ModelError(
                    "E101",
                    f"expected tensors by name, got {len(states)} sets of them: "
                    + ", ".join(f"`{k}`" for k in states[:_SHOWN]),
                    place=str(path),
                    hint=f"say which with --part, such as --part {states[0]}",
                )
            if not states:
                break
            key = states[0]
        others = [k for k in states if k != key and k not in _OPTIMIZERS]
        if others:
            listed = ", ".join(f"`{'.'.join([*steps, k])}`" for k in others[:_SHOWN])
            notes.append(f"`{path.name}` has other tensors under {listed}, which --part reads")
        steps.append(key)
        content = content[key]
    if isinstance(content, Unknown):
        message = f"expected tensors, numbers and texts, got `{_shown(content)}`, which was not run"
        raise ModelError("E101", message, place=str(path), hint=_HINT)
    if not isinstance(content, Mapping):
        what = _kind(content)
        raise ModelError("E101", f"expected tensors by name, got a `{what}`", place=str(path))
    for name, value in content.items():
        if isinstance(value, Unknown):
            raise _not_plain(name, value, path, among=any(map(_is_tensor, content.values())))
    for name, value in content.items():
        if not _is_name(name) or not _is_tensor(value):
            raise ModelError(
                "E101",
                f"expected tensors by name, got a `{_kind(value)}` under {name!r}",
                place=str(path),
                hint=_HINT,
            )
    if steps:
        notes.append(f"`{path.name}`: read the tensors under {' -> '.join(f'`{s}`' for s in steps)}")
    return content, part


def _not_plain(name: object, value: Unknown, path: Path, *, among: bool) -> ModelError:
    """Return the error for an object in the place of a tensor, or of all tensors."""
    shown = _shown(value)
    message = f"expected a plain tensor under `{name}`, got `{shown}`, which was not run"
    hint = "where its class is available, save plain tensors; .dequantize() makes one of a quantised tensor"
    if not among and not shown.startswith(_MAKERS):
        message = f"expected tensors by name under `{name}`, got `{shown}`, which was not run"
        hint = _HINT
    return ModelError("E101", message, place=str(path), hint=hint)


def _below(content: object, part: str) -> tuple[object, list[str], str | None]:
    """Return (what lies under a part, the keys that lead there, what is left of the part)."""
    steps: list[str] = []
    rest = part
    while rest and isinstance(content, Mapping):
        keys = [k for k in content if isinstance(k, str) and f"{rest}.".startswith(f"{k}.")]
        keys = [k for k in keys if isinstance(content[k], Mapping)]
        if not keys:
            break
        key = max(keys, key=len)
        content, rest = content[key], rest[len(key) + 1 :]
        steps.append(key)
    return content, steps, rest or None


def _is_flat(content: Mapping[object, object]) -> bool:
    return all(_is_tensor(value) or isinstance(value, Unknown) for value in content.values())


def _shown(value: Unknown) -> str:
    return value.name.removeprefix("__builtin__.").removeprefix("builtins.")[:80]


def _is_name(key: object) -> bool:
    return isinstance(key, str) and not key.startswith(FOREIGN)


def _kind(value: object) -> str:
    return "Tensor" if isinstance(value, Strided) else type(value).__name__


def _is_tensor(value: object) -> bool:
    return isinstance(value, Strided)


def _has_state(value: object, depth: int = 3) -> bool:
    """Whether tensors by name lie in a value, or in a dictionary of it."""
    if not isinstance(value, Mapping) or depth == 0:
        return False
    return _is_state(value) or any(_has_state(v, depth - 1) for k, v in value.items() if isinstance(k, str))


def _is_state(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and all(map(_is_name, value))
        and _is_flat(value)
        and any(map(_is_tensor, value.values()))
    )
