"""`len`, `int` and `list` while a module is traced: Python wants numbers of them, which would fix sizes."""

from __future__ import annotations

import builtins
import sys
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from .export_errors import user_location
from .patches import original, patched

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_NUMBERS = frozenset({"len", "int", "list"})
_LIBRARIES = sys.stdlib_module_names | {"torch", "numpy"}
_OURS = __name__.partition(".export.")[0]
"""The package of what reads modules of torch: the interpreter of archives takes numbers by itself."""


@contextmanager
def symbolic_lengths(module: Module) -> Iterator[bool]:
    """Keep sizes symbolic in the code of the model's own classes and their calls, inside the block.

    `len` of a tensor is its first size, `int` of a symbolic number another, `list` of a tensor what can only
    be joined again; all are what they were for everything else, types and instances included. Yields whether
    there is any such code.
    """
    import torch

    def length(of: Any) -> Any:
        of = of.whole if isinstance(of, Rows) else of
        return of.shape[0] if isinstance(of, torch.Tensor) and of.dim() else builtins.len(of)

    own = {"len": length, "int": _Whole, "list": Listed}
    added = [(home, n) for home in _measuring(module) for n in own if n not in home]
    for home, name in added:
        home[name] = own[name]
    try:
        yield bool(added)
    finally:
        for home, name in added:
            if home.get(name) is own[name]:
                del home[name]


@contextmanager
def numbers_taken() -> Iterator[list[str]]:
    """Record, while the block runs, the places where `int` takes a quotient of symbolic sizes."""
    kept = original("torch:SymFloat", "__int__")
    found: list[str] = []

    def whole(self: Any) -> int:
        found.append(user_location(traceback.extract_stack()))
        return kept(self)

    with patched("torch:SymFloat", __int__=whole):
        yield found


def products_by_example() -> AbstractContextManager[None]:
    """The order of an einsum of several tensors is the one for the example's sizes, which stay symbolic."""
    kept = original("torch.backends", "opt_einsum")
    return patched("torch.backends", opt_einsum=_Orders(kept))


class _Orders:
    """torch's link to opt_einsum, which is given sizes as numbers."""

    def __init__(self, link: Any) -> None:
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def get_opt_einsum(self) -> Any:
        """Return what finds orders; None where the package is not installed."""
        return None if self._link.get_opt_einsum() is None else self

    def contract_path(self, equation: str, *operands: Tensor, **options: Any) -> Any:
        """Return the order of the example's sizes."""
        shapes = [tuple(map(_in_example, operand.shape)) for operand in operands]
        return self._link.get_opt_einsum().contract_path(equation, *shapes, shapes=True, **options)


def _in_example(size: Any) -> int:
    if isinstance(size, builtins.int):
        return size
    hint = getattr(size.node, "hint", None)
    return 8 if hint is None else builtins.int(hint)  # any order is right


def _measuring(module: Module) -> list[dict[str, Any]]:
    """The global names of the Python modules whose code the model's classes run, where it takes numbers."""
    homes: dict[int, dict[str, Any]] = {}
    for function in functions_of(module):
        if any(_NUMBERS.intersection(code.co_names) for code in _nested(function.__code__)):
            homes[id(function.__globals__)] = function.__globals__
    return list(homes.values())


def functions_of(module: Module) -> Iterator[FunctionType]:
    """The functions that the model's classes define or hold, and those that these name; libraries' apart."""
    classes = {c for m in module.modules() for c in type(m).__mro__ if not _is_library(c.__module__)}
    held = [v for owner in (*classes, *module.modules()) for v in vars(owner).values()]
    waiting = [f for f in map(_function, held) if f is not None]
    seen: set[int] = set()
    while waiting:
        function = waiting.pop()
        if id(function) in seen or _is_library(function.__module__ or ""):
            continue
        seen.add(id(function))
        yield function
        names = {n for code in _nested(function.__code__) for n in code.co_names}
        home = function.__globals__
        used = [home.get(n) for n in names]
        used += [vars(m).get(n) for m in used if isinstance(m, ModuleType) for n in names]
        waiting += [f for u in used if (f := _function(u)) is not None]


def _function(value: object) -> FunctionType | None:
    """Return the function that a property, static method or decorated function is made of."""
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, FunctionType):
        value = vars(value).get("__wrapped__", value)
    return value if isinstance(value, FunctionType) else None


def _is_library(name: str) -> bool:
    return name.partition(".")[0] in _LIBRARIES or name.startswith(_OURS)


def _nested(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


# -- what is put in their place ----------------------------------------------------------------------


class StandIn(type):
    """The type of a class that `isinstance`, `issubclass` and comparisons take for `standard`; to be derived.

    Attributes:
        standard: Python's own type.
    """

    standard: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, type(cls).standard)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, type(cls).standard)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is type(cls).standard

    def __hash__(cls) -> int:
        return hash(type(cls).standard)


class _Int(StandIn):
    standard = builtins.int

    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        import torch

        if len(args) == 1 and isinstance(args[0], torch.Tensor):
            args = (args[0].item(),)
        if len(args) == 1 and isinstance(args[0], (torch.SymInt, torch.SymFloat)):
            return torch.sym_int(args[0])
        return builtins.int(*args, **keywords)


class _Whole(builtins.int, metaclass=_Int):
    """`int`, but of a symbolic number a symbolic one."""


class Rows(builtins.list):
    """The rows of a tensor for `torch.cat` and `torch.stack`; whatever else wants them fails.

    Attributes:
        whole: the tensor.
    """

    def __init__(self, whole: Tensor) -> None:
        super().__init__([_Every(whole)])
        self.whole = whole

    def __iter__(self) -> Iterator[NoReturn]:
        raise TypeError("the rows of a symbolic size cannot be counted")

    def __len__(self) -> int:
        raise TypeError("the rows of a symbolic size cannot be counted")

    __getitem__: Any = __iter__


class _Every:
    """Stands for all rows where torch is given them."""

    def __init__(self, whole: Tensor) -> None:
        self.whole = whole

    def __torch_function__(
        self, function: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Tensor:
        import torch

        given = {**dict(zip(("tensors", "dim"), args, strict=False)), **(kwargs or {})}
        known = given.get("dim", 0) == 0 and given.keys() <= {"tensors", "dim"}
        if known and function is torch.cat and self.whole.dim() > 1:
            return self.whole.flatten(0, 1)
        if known and function is torch.stack:
            return self.whole
        raise TypeError(f"{function} of the rows of a symbolic size")


class _List(StandIn):
    standard = builtins.list

    def __call__(cls, *args: Any) -> Any:
        import torch

        of = args[0] if args and isinstance(args[0], torch.Tensor) and args[0].dim() else None
        return builtins.list(*args) if of is None or isinstance(of.shape[0], int) else Rows(of)


class Listed(builtins.list, metaclass=_List):
    """`list`, but of a tensor of a symbolic size its rows."""
