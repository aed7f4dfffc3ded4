"""Reads the pickles of `torch.save` by an interpreter of our own, which can call nothing.

A pickle is a program for a small machine, and Python's machine calls whatever the program names. This one
knows the instructions that build values, and the dozen calls by which tensors are written; any other call
becomes an `Unknown`, which remembers its name and does nothing.
"""

from __future__ import annotations

import mmap
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from .refusals import malformed, quote

_MARK = object()
FOREIGN = "\0"
"""Begins the key of an item whose own key is an object."""

_MOST_AXES = 128
_LARGEST = 1 << 60  # whole numbers below have few hashes in common, which bounds the time of a dict


@dataclass(slots=True)
class Unknown:
    """A name that the pickle would import, or what it would make by calling one.

    Attributes:
        name: ``module.name`` of what is imported or called.
        arguments: what it would be called with; None for the bare name.
        state: what it would be given after.
    """

    name: str
    arguments: Any = None
    state: Any = None


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes in a record of the same archive.

    Attributes:
        key: the record's name below ``data/``.
        dtype: torch's name of the element type; "" where the storage has none of its own.
        first: the element of the record with which it begins; other than 0 before torch 1.6 alone.
    """

    key: str
    dtype: str
    first: int = 0


@dataclass(frozen=True, slots=True)
class Strided:
    """A tensor: a view of a storage."""

    storage: Storage
    dtype: str
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    is_parameter: bool = False
    conjugate: bool = False
    negative: bool = False


_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "",
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
    "QUInt4x2Storage": "quint4x2",
    "QUInt2x4Storage": "quint2x4",
}
_DTYPE_NAMES = """
float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool
complex32 complex64 complex128
float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu
"""
_DTYPES = frozenset(_DTYPE_NAMES.split())


def read_pickle(
    data: bytes | mmap.mmap, place: str, most: int, storages: dict[str, str] | None = None
) -> object:
    """Return the value that a pickle of `torch.save` describes.

    Args:
        data: the record ``data.pkl``; or a file from before torch 1.6, which is read from where it stands to
            the end of one pickle.
        place: what messages call it.
        most: how many instructions it may have.
        storages: gets the key and the element type of every storage that the pickle names.

    Returns:
        None, numbers, strings, bytes, lists, tuples, dicts, `Strided` tensors, and `Unknown` for all else.

    Raises:
        ModelError: when it is no pickle, or has more instructions than `most`.
    """
    try:
        return _Machine(place, {} if storages is None else storages).run(data, most)
    except (
        ValueError,
        TypeError,
        IndexError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        # pickletools and the stack's own operations, on bytes that anyone may have written
        raise malformed("expected a pickle of torch.save, got something damaged", place) from error


@dataclass(slots=True)
class _Machine:
    place: str
    storages: dict[str, str]
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def run(self, data: bytes | mmap.mmap, most: int) -> object:
        for number, (code, argument, _) in enumerate(pickletools.genops(cast(bytes, data))):
            if number >= most:
                raise malformed(f"expected at most {most:,} instructions, got more", self.place)
            name = code.name
            if name == "STOP":
                break
            if name in _VALUES:
                self._push(_whole(argument))
            elif name in _CONSTANTS:
                self._push(_CONSTANTS[name]())
            else:
                step = _STEPS.get(name)
                if step is None:
                    raise malformed(
                        f"expected a pickle of torch.save, got the instruction {name}", self.place
                    )
                step(self, argument)
        if len(self.stack) != 1:
            raise malformed("expected a pickle of torch.save, got one without a value", self.place)
        return self.stack[0]

    def _push(self, value: Any) -> None:
        self.stack.append(value)

    def _pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise IndexError
        return value

    def _items(self) -> list[Any]:
        """Return all above the last mark."""
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:  # as far in all as there are instructions that push
            at -= 1
            if at < 0:
                raise IndexError
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def _name(self, module: object, name: object) -> object:
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError
        return Unknown(f"{module}.{name}")

    def _call(self, function: Any, arguments: Any) -> object:
        if (
            not isinstance(function, Unknown)
            or function.arguments is not None
            or not isinstance(arguments, tuple)
        ):
            return Unknown(getattr(function, "name", "?"), arguments)
        known = _CALLS.get(function.name)
        made = None if known is None else known(*arguments)
        return Unknown(function.name, arguments) if made is None else made

    def step_global(self, argument: Any) -> None:
        self._push(self._name(*argument.split(" ", 1)))

    def step_stack_global(self, _: Any) -> None:
        name, module = self._pop(), self._pop()
        self._push(self._name(module, name))

    def step_reduce(self, _: Any) -> None:
        arguments, function = self._pop(), self._pop()
        self._push(self._call(function, arguments))

    def step_newobj_ex(self, _: Any) -> None:
        keywords, arguments, function = self._pop(), self._pop(), self._pop()
        self._push(Unknown(getattr(function, "name", "?"), (arguments, keywords)))

    def step_inst(self, argument: Any) -> None:
        self._push(Unknown(str(argument).replace(" ", "."), tuple(self._items())))

    def step_obj(self, _: Any) -> None:
        function, *arguments = self._items()
        self._push(Unknown(getattr(function, "name", "?"), tuple(arguments)))

    def step_build(self, _: Any) -> None:
        state, target = self._pop(), self.stack[-1]
        if isinstance(target, Unknown):
            target.state = state
        elif not (isinstance(target, dict) and isinstance(state, dict)):  # attributes of an OrderedDict
            self.stack[-1] = Unknown("?", (target,), state)

    def step_persistent(self, _: Any) -> None:
        kind, storage, key, _, _, *view = self._pop()
        module, _, name = storage.name.rpartition(".")
        if kind != "storage" or module not in ("torch", "torch.storage") or name not in _STORAGES:
            raise malformed(f"expected a storage of tensors, got {quote(storage.name)}", self.place)
        if not isinstance(key, str) or not key.isdigit():
            raise malformed(f"expected the name of a storage, got {quote(key)}", self.place)
        first = view[0][1] if view and isinstance(view[0], tuple) else 0  # of a storage within another
        if type(first) is not int or first < 0:
            raise TypeError
        self.storages[key] = _STORAGES[name]
        self._push(Storage(key, _STORAGES[name], first))

    def step_put(self, argument: Any) -> None:
        self.memo[argument] = self.stack[-1]

    def step_memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def step_get(self, argument: Any) -> None:
        self._push(self.memo[argument])

    def step_mark(self, _: Any) -> None:
        self._push(_MARK)

    def step_pop(self, _: Any) -> None:
        self.stack.pop()

    def step_pop_mark(self, _: Any) -> None:
        self._items()

    def step_dup(self, _: Any) -> None:
        value = self._pop()
        self.stack += [value, value]

    def step_tuple(self, _: Any) -> None:
        self._push(tuple(self._items()))

    def step_list(self, _: Any) -> None:
        self._push(self._items())

    def step_dict(self, _: Any) -> None:
        items = self._items()
        made: dict[Any, Any] = {}
        _fill(made, items)
        self._push(made)

    def step_frozenset(self, _: Any) -> None:
        self._push(Unknown("builtins.frozenset", tuple(self._items())))

    def take(self, count: int) -> None:
        values = [self._pop() for _ in range(count)]
        self._push(tuple(reversed(values)))

    def step_append(self, _: Any) -> None:
        value = self._pop()
        self._extend([value])

    def step_appends(self, _: Any) -> None:
        self._extend(self._items())

    def _extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Unknown):  # a list or set of a class of its own
            target.state = (target.state, values)
        elif isinstance(target, list):
            target.extend(values)
        else:
            raise TypeError

    def step_setitem(self, _: Any) -> None:
        value, key = self._pop(), self._pop()
        self._update([key, value])

    def step_setitems(self, _: Any) -> None:
        self._update(self._items())

    def _update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Unknown):
            target.state = (target.state, items)
        elif isinstance(target, dict):
            _fill(target, items)
        else:
            raise TypeError

    def ignore(self, _: Any) -> None:
        return


def _fill(target: dict[Any, Any], items: list[Any]) -> None:
    if len(items) % 2:
        raise TypeError
    for key, value in zip(items[::2], items[1::2], strict=True):
        plain = key is None or isinstance(key, (str, int))
        target[key if plain else f"{FOREIGN}{len(target)}"] = value


def _whole(value: Any) -> Any:
    """Return a value of the pickle; numbers of more than 60 bits, as in states of generators, are unknown."""
    large = isinstance(value, int) and not -_LARGEST < value < _LARGEST
    return Unknown("builtins.int", ()) if large else value


def _tensor(
    storage: Any,
    offset: Any,
    sizes: Any,
    strides: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
    *more: Any,
    dtype: str = "",
) -> Strided | None:
    del hooks, more  # which a plain tensor has not
    flags: dict[Any, Any] = metadata if isinstance(metadata, dict) else {}
    if (
        not isinstance(sizes, tuple)
        or not isinstance(strides, tuple)
        or len(sizes) + len(strides) > _MOST_AXES
    ):
        return None
    if not isinstance(storage, Storage) or any(type(n) is not int for n in (offset, *sizes, *strides)):
        return None
    return Strided(
        storage,
        dtype or storage.dtype,
        offset + storage.first,
        sizes,
        strides,
        requires_grad is True,
        conjugate=flags.get("conj") is True,
        negative=flags.get("neg") is True,
    )


def _typed_tensor(storage: Any, offset: Any, sizes: Any, strides: Any, *more: Any) -> Strided | None:
    """Rebuild a tensor of an untyped storage: ``requires_grad, hooks, dtype, metadata`` follow."""
    requires_grad, hooks, kind, *rest = more
    module, _, name = getattr(kind, "name", "").rpartition(".")
    if module != "torch" or name not in _DTYPES:
        return None
    return _tensor(storage, offset, sizes, strides, requires_grad, hooks, *rest[:1], dtype=name)


def _parameter(data: Any, requires_grad: Any, *_: Any) -> Strided | Unknown | None:
    if not isinstance(data, Strided):
        return data if isinstance(data, Unknown) else None
    return replace(data, requires_grad=requires_grad is True, is_parameter=True)


def _of_class(function: Any, kind: Any, arguments: Any, *_: Any) -> Any:
    """Return a tensor whose class is stated: torch's own are plain, any other is unknown."""
    if not isinstance(function, Unknown) or not isinstance(kind, Unknown) or not isinstance(arguments, tuple):
        return None
    made = _CALLS[function.name](*arguments) if function.name in _CALLS else None
    return made if made is not None and kind.name in _PLAIN_CLASSES else Unknown(kind.name, arguments)


_PLAIN_CLASSES = frozenset(
    {"torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"}
)


def _empty(*items: Any) -> dict[Any, Any] | None:
    """Return an OrderedDict as torch.save writes it, empty until its items follow."""
    return None if items else {}


def _size(*given: Any) -> tuple[int, ...] | None:
    return given[0] if len(given) == 1 and isinstance(given[0], tuple) else None


_CALLS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _typed_tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._tensor._rebuild_from_type_v2": _of_class,
    "collections.OrderedDict": _empty,
    "collections.defaultdict": lambda *_: {},
    "torch.Size": _size,
}
_VALUE_NAMES = """
INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT
UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES BINBYTES8 BYTEARRAY8
"""
_VALUES = frozenset(_VALUE_NAMES.split())
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": lambda: Unknown("builtins.set", ()),
}
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": _Machine.ignore,
    "FRAME": _Machine.ignore,
    "GLOBAL": _Machine.step_global,
    "STACK_GLOBAL": _Machine.step_stack_global,
    "REDUCE": _Machine.step_reduce,
    "NEWOBJ": _Machine.step_reduce,
    "NEWOBJ_EX": _Machine.step_newobj_ex,
    "INST": _Machine.step_inst,
    "OBJ": _Machine.step_obj,
    "BUILD": _Machine.step_build,
    "BINPERSID": _Machine.step_persistent,
    "PUT": _Machine.step_put,
    "BINPUT": _Machine.step_put,
    "LONG_BINPUT": _Machine.step_put,
    "MEMOIZE": _Machine.step_memoize,
    "GET": _Machine.step_get,
    "BINGET": _Machine.step_get,
    "LONG_BINGET": _Machine.step_get,
    "MARK": _Machine.step_mark,
    "POP": _Machine.step_pop,
    "POP_MARK": _Machine.step_pop_mark,
    "DUP": _Machine.step_dup,
    "TUPLE": _Machine.step_tuple,
    "TUPLE1": lambda machine, _: machine.take(1),
    "TUPLE2": lambda machine, _: machine.take(2),
    "TUPLE3": lambda machine, _: machine.take(3),
    "LIST": _Machine.step_list,
    "DICT": _Machine.step_dict,
    "FROZENSET": _Machine.step_frozenset,
    "APPEND": _Machine.step_append,
    "APPENDS": _Machine.step_appends,
    "ADDITEMS": _Machine.step_appends,
    "SETITEM": _Machine.step_setitem,
    "SETITEMS": _Machine.step_setitems,
}
