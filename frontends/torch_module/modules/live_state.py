"""A live module as it was: attributes, containers, tensors and their values, whatever its forward changes.

Nothing is copied in advance but attributes and the contents of containers. Memory that an operator is about
to write into is copied then (`Untouched`), so that large weights cost nothing as long as nobody writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dis import get_instructions
from functools import cache, partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ...live_objects import Snapshot, container_kept

if TYPE_CHECKING:
    import torch
    from torch.nn import Module
    from torch.utils._python_dispatch import TorchDispatchMode

_NORMALISING = ("running_mean", "running_var")
"""Arguments that batch normalisation writes, which its schema does not say."""


Changed = tuple[dict[str, Any], str, "torch.Tensor"]
"""A parameter or buffer in the table that holds it, and its values then."""


class _Snapshot(Snapshot):
    """A module's structure, and where the values of its tensors are."""

    def __init__(self, module: Module) -> None:
        import torch

        modules, tensors = torch.nn.Module, torch.Tensor
        super().__init__([module], lambda x: isinstance(x, modules), lambda x: isinstance(x, tensors))
        # a wrapper of torch.vmap that outlived its call, as TorchRL's nets hold, answers no question
        native: Any = torch._C
        wrapper = native._functorch.is_functorch_wrapped_tensor
        self.tensors = [t for t in self.tensors if not wrapper(t)]
        plain = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        own = [partial(_tensor_kept, t) for t in self.tensors if type(t) in plain]
        own += [partial(container_kept, t.__dict__) for t in self.tensors if type(t) in plain]
        self._keep += own
        self._undo += [keep() for keep in own]
        self.tensors += [t.grad for t in self.tensors if t.is_leaf and t.grad is not None]


def _tensor_kept(tensor: torch.Tensor) -> Callable[[], bool]:
    """Return the function that restores a tensor's memory, flag and gradient, if they change."""
    data, gradient, needed = tensor.detach(), tensor.grad if tensor.is_leaf else None, tensor.requires_grad
    memory = memory_of(data)

    def undo() -> bool:
        changed = type(tensor.data) is not type(data) or memory_of(tensor) != memory
        if changed:
            tensor.data = data
        if tensor.is_leaf:
            if tensor.requires_grad is not needed:
                tensor.requires_grad_(needed)
                changed = True
            if tensor.grad is not gradient:
                tensor.grad = gradient
                changed = True
        return changed

    return undo


def assigned_by(module: Module, call: Callable[[], object]) -> dict[str, torch.Tensor]:
    """Values of the parameters and buffers to whose `.data` a call assigns, by name; it may be undone then.

    torch.export takes `.data` for an attribute of Python's: its program reads what was there before.
    """
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    before = {name: memory_of(tensor) for name, tensor in held.items()}
    call()
    return {name: t.detach().clone() for name, t in held.items() if memory_of(t) != before[name]}


def may_assign(functions: Iterable[FunctionType]) -> bool:
    """Whether any of these functions that is not torch's assigns an attribute called `data`."""
    return any(
        not (function.__module__ or "").startswith("torch.") and _may_assign(function.__code__)
        for function in functions
    )


def _may_assign(code: CodeType) -> bool:
    names = code.co_names
    if any(_may_assign(inner) for inner in code.co_consts if isinstance(inner, CodeType)):
        return True
    if "data" in code.co_consts and not {"setattr", "__setattr__"}.isdisjoint(names):
        return True
    return "data" in names and any(
        step.opname == "STORE_ATTR" and step.argval == "data" for step in get_instructions(code)
    )


@contextmanager
def structure_kept(module: Module, before: Snapshot | None = None) -> Iterator[Snapshot]:
    """Restore attributes, containers and tensors of a module after a block in which it may be traced.

    The snapshot that the block gets says afterwards whether it had changed anything.

    So are values of tensors that it does not register, on which torch.export computes.

    Args:
        module: the module.
        before: a snapshot of it since which its code has not run, so that it holds the same objects.
    """
    import torch

    snapshot = _Snapshot(module) if before is None else before.again()
    kind = torch.nn.Module  # whose `parameters` an attribute of the module's own may hide
    registered = {id(t) for t in (*kind.parameters(module), *kind.buffers(module))}
    memories = {
        s._cdata: s for t in snapshot.tensors if id(t) not in registered and (s := _storage(t)) is not None
    }
    copies = {key: memory.clone() for key, memory in memories.items()}
    try:
        yield snapshot
    finally:
        snapshot.restore()
        _write_back(memories, copies)


class Untouched:
    """A block with real calls of a module, which is as before afterwards, what they write included.

    Blocks one after another may share it, where nothing changes the module between them.

    Args:
        module: the module.
        state: its state, where that is known.
    """

    def __init__(self, module: Module, state: Snapshot | None = None) -> None:
        self._module = module
        self._state = state

    @property
    def has_changed(self) -> bool:
        """Whether the last block had changed anything."""
        return self._snapshot.has_changed or bool(self._copies)

    @property
    def functions(self) -> frozenset[FunctionType]:
        """The functions that calls of the module may run."""
        return self._taken().functions

    def _taken(self) -> Snapshot:
        self._state = self._state or _Snapshot(self._module)
        return self._state

    def __enter__(self) -> Untouched:
        self._snapshot = self._taken()
        self._snapshot.has_changed = False
        self._memories = {s._cdata: s for t in self._snapshot.tensors if (s := _storage(t)) is not None}
        self._copies: dict[int, Any] = {}
        self._watch = _watch(self._memories, self._copies)
        self._watch.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._watch.__exit__(*error)
        self._snapshot.restore()
        _write_back(self._memories, self._copies)

    def changed(self, module: Module) -> list[Changed]:
        """Return a module's parameters and buffers whose values changed since before the block."""
        import torch

        kind = torch.nn.Module  # an attribute of the module may hide `modules`
        return [
            (table, name, tensor.detach().clone())
            for m in kind.modules(module)
            for table in (m._parameters, m._buffers)
            for name, tensor in table.items()
            if tensor is not None
            and (
                (memory := _storage(tensor)) is None
                or memory._cdata in self._copies
                or memory._cdata not in self._memories
            )
        ]


def _watch(memories: Mapping[int, Any], copies: dict[int, Any]) -> TorchDispatchMode:
    """Copies each of these memories before the first operator that writes into it."""
    import torch
    from torch._subclasses.fake_tensor import unset_fake_temporarily as without_fakes
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        supports_higher_order_operators = True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = kwargs or {}
            for position, name in _written(func):
                value = args[position] if position < len(args) else named.get(name)
                for tensor in value if isinstance(value, (list, tuple)) else [value]:
                    memory = _storage(tensor) if isinstance(tensor, torch.Tensor) else None
                    if memory is not None and memory._cdata in memories and memory._cdata not in copies:
                        with without_fakes():  # which compute on numbers and what is no fake of theirs
                            copies[memory._cdata] = memory.clone()
            return func(*args, **named)

    return Watch()


def _write_back(memories: Mapping[int, Any], copies: Mapping[int, Any]) -> None:
    for key, copied in copies.items():
        if memories[key].nbytes() != copied.nbytes():
            memories[key].resize_(copied.nbytes())
        memories[key].copy_(copied)


@cache
def _written(operator: Any) -> list[tuple[int, str]]:
    """Return places and names of the arguments that an operator writes into."""
    schema = getattr(operator, "_schema", None)
    if schema is None:
        return []
    normalising = "batch_norm" in schema.name
    return [
        (position, argument.name)
        for position, argument in enumerate(schema.arguments)
        if (argument.alias_info is not None and argument.alias_info.is_write)
        or (normalising and argument.name in _NORMALISING)
    ]


def _storage(tensor: torch.Tensor) -> Any:
    """Return a tensor's memory; None where it has none of its own, such as a sparse one's."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


def memory_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return the memory and layout of a tensor's values."""
    storage = _storage(tensor)
    if storage is None:
        return (id(tensor),)
    return (
        storage._cdata,
        tensor.device,
        tensor.dtype,
        tensor.shape,
        tensor.stride(),
        tensor.storage_offset(),
    )
