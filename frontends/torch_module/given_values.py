"""Gives a module the values of a file: mapped, read when they are used, and written by nobody."""

from __future__ import annotations

import copy
import mmap
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir import ModelError, TensorData, numpy_dtype
from ...ir.outside.memory_limits import data_limit, give_back_memory
from ...ir.outside.page_cache import forget_part
from ..given_values import fit_values, with_names_of
from ..options import LoadOptions
from .export.tensors import tensor_of

if TYPE_CHECKING:
    import torch
    from torch.nn import Module

_COUNTER = "num_batches_tracked"
"""Name of BatchNorm's counter, which older files lack."""


def with_values(
    module: object,
    given: Mapping[str, TensorData],
    *,
    own: bool,
    options: LoadOptions | None = None,
    read_only: bool = False,
) -> object:
    """Return a module with a file's values for all its parameters and stored buffers.

    Args:
        module: a module; its parameters may be on the device ``meta``.
        given: name -> tensor.
        own: whether the module was made for this call, and may be changed; a copy is returned otherwise,
            which shares nothing that is written.
        options: how the file's names become the module's; as they are without.
        read_only: whether nothing writes to parameters, which then take no memory of the process's own.

    Raises:
        ModelError: when the names or shapes do not fit (E801), or a buffer that no file has is on ``meta``.
    """
    from torch.nn import Module
    from torch.nn.parameter import is_lazy

    if not isinstance(module, Module):
        raise ModelError(
            "E103", "expected parameters only for a module, got them for a program, which holds its own"
        )
    state = {n: t for n, t in module.state_dict(keep_vars=True).items() if hasattr(t, "shape")}
    given = with_names_of({n: None if is_lazy(t) else _shape(t) for n, t in state.items()}, given, options)
    wanted = {n: tuple(given[n].shape) if is_lazy(t) and n in given else _shape(t) for n, t in state.items()}
    groups: dict[int, list[str]] = {}
    for name, tensor in state.items():
        groups.setdefault(id(tensor), []).append(name)
    counters = [name for name in state if name.rpartition(".")[2] == _COUNTER]
    dtypes = {n: str(t.dtype).removeprefix("torch.") for n, t in state.items() if n not in counters}
    given = {n: _as_held(d, state.get(n)) for n, d in given.items()}
    fitting = fit_values(wanted, given, list(groups.values()), counters, dtypes)
    if not own:
        module = copied_module(module)
    limit = data_limit()  # pages that may be written count, whether or not they are
    large = limit is not None and 2 * sum(data.nbytes for data in fitting.values()) > limit
    parameters = module.named_parameters(remove_duplicate=False)
    shared = {name for name, _ in parameters} if read_only or large else set[str]()
    tensors = {n: _mapped(data, state[n], private=n not in shared) for n, data in fitting.items()}
    _set(module, tensors)
    left = [n for n, t in (*module.named_parameters(), *module.named_buffers()) if t.is_meta]
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise ModelError(
            "E103",
            f"expected values of `{left[0]}`{more} on the device `meta`, which no file stores",
            hint="name the model with --meta, which makes parameters alone without values",
        )
    return module


def _as_held(data: TensorData, tensor: torch.Tensor | None) -> TensorData:
    """Return a file's tensor as the module holds it: complex where the file has both parts on a last axis."""
    if tensor is None or not tensor.is_complex() or data.shape != (*_shape(tensor), 2):
        return data
    kinds = {"float32": "complex64", "float64": "complex128"}
    if data.dtype not in kinds:
        return data
    made = kinds[data.dtype]
    return TensorData(made, data.shape[:-1], lambda: np.ascontiguousarray(data.numpy()).view(made)[..., 0])


@contextmanager
def without_values() -> Iterator[None]:
    """Make modules with parameters on ``meta`` and normal buffers, in a with block."""
    import torch
    from torch import nn

    give_back_memory()
    register = nn.Module.register_parameter

    def on_meta(self: Module, name: str, param: nn.Parameter | None) -> None:
        register(self, name, param)
        made = self._parameters.get(name)
        if made is not None and not made.is_meta and type(made) is nn.Parameter:
            self._parameters[name] = nn.Parameter(
                torch.empty_like(made, device="meta"), requires_grad=made.requires_grad
            )

    nn.Module.register_parameter = on_meta
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return a tensor's shape; that of a lazy layer's parameter is known when it has run."""
    from torch.nn.parameter import is_lazy

    return () if is_lazy(tensor) else tuple(tensor.shape)


def copied_module(module: Module) -> Module:
    """Return a copy that has the module's own parameters and buffers, none of them copied."""
    held: dict[int, Any] = {id(t): t for t in (*module.parameters(), *module.buffers())}
    return copy.deepcopy(module, held)


def _set(module: Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Put tensors in place of parameters and buffers; what was one tensor stays one."""
    from torch import nn

    made: dict[int, Any] = {}
    new_ones: set[int] = set()
    for prefix, part in module.named_modules(remove_duplicate=False):
        for held, is_parameter in ((part._parameters, True), (part._buffers, False)):
            for name, old in list(held.items()):
                new = tensors.get(f"{prefix}.{name}" if prefix else name)
                if old is None or new is None or id(old) in new_ones:  # a module under a second name
                    continue
                if id(old) not in made:
                    made[id(old)] = (
                        nn.Parameter(new, requires_grad=old.requires_grad) if is_parameter else new
                    )
                    if new in _mapped_files():
                        _mapped_files()[made[id(old)]] = _mapped_files()[new]
                    new_ones.add(id(made[id(old)]))
                held[name] = made[id(old)]


def release_values(module: Module) -> None:
    """Let go of the pages that reading a module's mapped parameters filled; they are read again when used."""
    for tensor in module.parameters():
        _release(tensor)


def forget_values(module: Module) -> None:
    """Let the system forget the pages of files that a module's own mapped parameters lie on."""
    for tensor in module.parameters(recurse=False):
        lies = _release(tensor)  # pages that a process has are not forgotten
        if lies is not None:
            forget_part(lies.path, lies.start, tensor.nbytes)


def _release(tensor: torch.Tensor) -> _Mapped | None:
    """Let go of the pages of a mapped parameter; return None for any other, and one written to since."""
    lies = _mapped_files().get(tensor)
    if lies is None or tensor._version:
        return None
    lies.mapped.madvise(mmap.MADV_DONTNEED)
    return lies


def place_of(tensor: torch.Tensor) -> tuple[Path, int] | None:
    """Return the file and byte from which a parameter was mapped, whatever it holds now; None without one."""
    lies = _mapped_files().get(tensor)
    return None if lies is None else (lies.path, lies.start)


def prefetch_values(module: Module) -> int:
    """Let the system begin to read a module's own mapped parameters; return the bytes of all its own."""
    size = 0
    for tensor in module._parameters.values():
        if tensor is None:
            continue
        size += tensor.nbytes
        lies = _mapped_files().get(tensor)
        if lies is not None:
            lies.mapped.madvise(mmap.MADV_WILLNEED)
    return size


@dataclass(frozen=True, slots=True)
class _Mapped:
    """Elements of a file from a byte on, as they are mapped."""

    path: Path
    start: int
    mapped: Any


@cache
def _mapped_files() -> Any:
    """Return parameter -> the `_Mapped` elements that it lies on, as long as it lives."""
    from torch.utils.weak import WeakIdKeyDictionary

    return WeakIdKeyDictionary()


def _mapped(data: TensorData, old: torch.Tensor, *, private: bool) -> torch.Tensor:
    """Return a tensor on a file's elements; what is written to it is this process's own.

    It has the type of the parameter that it stands for, unless that one is on ``meta`` and of a type like it.

    Args:
        data: the elements.
        old: the parameter.
        private: whether it may be written to at all.
    """
    import torch

    if data.place is not None:
        path, start = data.place
        kind = numpy_dtype(data.dtype)
        mapped = np.memmap(path, kind, "c" if private else "r", start, data.shape or (1,))
        array: np.ndarray = mapped.view(np.ndarray).reshape(data.shape)
        bits = array.view(np.int16) if data.dtype == "bfloat16" else array
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that writing to what cannot be written is undefined
            found = torch.from_numpy(bits)
        found = found.view(torch.bfloat16) if data.dtype == "bfloat16" else found
        _mapped_files()[found] = _Mapped(path, start, mapped._mmap)  # type: ignore[attr-defined]
    else:
        found = tensor_of(data.numpy())
    if old.is_meta and old.is_floating_point() == found.is_floating_point():
        return found
    return found.to(old.dtype)
