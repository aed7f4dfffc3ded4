"""Borrowing a caller's net: everything that recording and compiling change is put back afterwards."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dis import get_instructions
from inspect import getclosurevars
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from ...ir.outside.own_folders import temporary_folder
from ..live_objects import USUAL_ATOMS, Snapshot
from .mixed_precision import precision_kept

_WRITERS = re.compile(r"assign|scatter|set_data|setitem|inplace|[a-z]_$", re.IGNORECASE)


@contextmanager
def borrow(cells: Sequence[Any], parameters: Sequence[Any]) -> Iterator[None]:
    """Put a net into a state fit for capture, and back into exactly its own state afterwards.

    Inside: PyNative mode without `ms.jit`, one operator after another, evaluation mode, unique parameter
    names, no compile cache, no scopes. What is put back: the attributes of every Cell (flags, phases, hooks,
    caches), the parameters' names, the context, and values where the user's code names an operator that
    writes some.

    Args:
        cells: every Cell of the net, the root first.
        parameters: every Parameter, each once.
    """
    import mindspore
    from mindspore import Tensor, nn

    mode = mindspore.get_context("mode")
    structure = Snapshot(cells, lambda x: isinstance(x, nn.Cell), lambda x: isinstance(x, Tensor))
    names = [(p, p.name) for p in parameters]
    tensors = {id(t): t for t in (*structure.tensors, *parameters)} if may_write(cells) else {}
    values = [(t, np.array(t.asnumpy(), copy=True)) for t in tensors.values()]
    folder = temporary_folder()
    environment = {
        "MS_OM_PATH": str(folder.path),  # where a failed compile leaves rank_0/om/analyze_fail.ir
        "MS_JIT": "0",  # a function under `ms.jit` runs as Python, so that the Cells in it are called
    }
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
        for number, parameter in enumerate(parameters):
            parameter.name = f"regraft.{number}"
        for cell in cells:
            cell.set_train(False)
            cell._scope = None
            cell._is_check_and_refresh = True  # no name is there twice, which each call would look for
            cell.compile_cache.clear()
        with waiting_for_operators(), _slices_without_names(), precision_kept():
            yield
    finally:
        for parameter, name in names:
            parameter.name = name
        structure.restore()
        for tensor, value in values:
            if not np.array_equal(tensor.asnumpy(), value, equal_nan=value.dtype.kind == "f"):
                tensor.assign_value(Tensor(value, tensor.dtype))
        mindspore.set_context(mode=mode)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        folder.remove()


@contextmanager
def waiting_for_operators() -> Iterator[None]:
    """Make PyNative mode compute each operator before the next in a with block.

    Otherwise threads wait for one another by asking again and again: small nets take 2 to 8 times as long.
    It holds for all operators only where the first one of the process ran within it, as `start_mindspore`
    sees to.
    """
    from mindspore._c_expression import MSContext, ms_ctx_param

    # mindspore.runtime.launch_blocking() cannot be taken back, and set_context warns
    context, name = MSContext.get_instance(), ms_ctx_param.pynative_synchronize
    before = context.get_param(name)
    context.set_param(name, True)
    try:
        yield
    finally:
        context.set_param(name, before)


@contextmanager
def _slices_without_names() -> Iterator[None]:
    """Let a slice of a list of Cells leave the names of their Parameters alone.

    MindSpore makes a new list of it, which renames them to ``0.weight``, where two lists collide.
    """
    from mindspore import nn

    kinds: tuple[Any, ...] = (nn.CellList, nn.SequentialCell)
    originals = [(kind, kind.__getitem__) for kind in kinds]

    def keeping(original: Any) -> Any:
        def getitem(held: Any, index: Any) -> Any:
            if not isinstance(index, slice):
                return original(held, index)
            names = [(parameter, parameter.name) for parameter in held.get_parameters()]
            found = original(held, index)
            for parameter, name in names:
                parameter.name = name
            return found

        return getitem

    try:
        for kind, original in originals:
            kind.__getitem__ = keeping(original)
        yield
    finally:
        for kind, original in originals:
            kind.__getitem__ = original


def may_write(cells: Sequence[Any]) -> bool:
    """Whether user code that a run may reach names anything that writes into a tensor; construction is none.

    A method is reached where code that is reached has its name, whatever the class; all are by `getattr`.
    """
    held = {name for cell in cells for name in cell._params}
    methods: dict[str, list[FunctionType]] = {}
    for kind in {base for cls in set(map(type, cells)) for base in cls.__mro__}:
        if kind is not object and not kind.__module__.startswith("mindspore."):
            for name, found in vars(kind).items():
                methods.setdefault(name, []).extend(_functions(found))
    waiting = [
        f for name in methods if name not in _CONSTRUCTORS and _is_called_unnamed(name) for f in methods[name]
    ]
    waiting += [
        function
        for cell in cells
        for value in vars(cell).values()
        if type(value) not in USUAL_ATOMS  # most attributes, and none holds a function
        for function in _functions(value)
    ]
    seen: set[CodeType] = set()
    while waiting:
        function = waiting.pop()
        if function.__code__ in seen or (function.__module__ or "").startswith(_NOT_OF_USERS):
            continue
        seen.add(function.__code__)
        names = set(_names(function.__code__, held))
        if any(map(_WRITERS.search, names)):
            return True
        if "getattr" in names:
            names |= methods.keys()
        for name in names - _CONSTRUCTORS:
            waiting += [*methods.get(name, ()), *_functions(function.__globals__.get(name))]
        enclosed = getclosurevars(function).nonlocals if function.__closure__ else {}
        waiting += _functions(enclosed)  # what a decorator wraps
    return False


_CONSTRUCTORS = {"__init__", "__new__"}

_NOT_OF_USERS = ("mindspore.", f"{__name__.partition('.')[0]}.")
"""Beginnings of the modules of functions that are MindSpore's, or stand in for a user's for some time."""


def _is_called_unnamed(method: str) -> bool:
    return method == "construct" or (method.startswith("__") and method.endswith("__"))


def _functions(held: Any) -> Iterator[FunctionType]:
    """Yield functions kept in an attribute: a method, a property, a function, a container of them."""
    if isinstance(held, property):
        held = (held.fget, held.fset)
    for each in (
        held.values() if isinstance(held, dict) else held if isinstance(held, (list, tuple)) else (held,)
    ):
        found = getattr(each, "__func__", each) if isinstance(each, _METHODS) else each
        if isinstance(found, FunctionType):
            yield found


_METHODS = (MethodType, staticmethod, classmethod)


def _names(code: CodeType, held: Container[str]) -> Iterator[str]:
    """Yield the names in code, and writes without one: an index, an attribute that holds a Parameter."""
    yield from code.co_names
    for instruction in get_instructions(code):
        if instruction.opname == "STORE_SUBSCR":
            yield "setitem"
        elif instruction.opname == "STORE_ATTR" and instruction.argval in held:
            yield "assign"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant, held)
