"""Gives Cells Tensors of a checkpoint in place of their Parameters, those of large layers by rows."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...ir import TensorData
from ...ir.outside.page_cache import unmap
from .pace import Read
from .widening import Recycled, widen_array

if TYPE_CHECKING:
    from collections.abc import Callable

_BLOCK = 1 << 21
"""Elements of the weight of a dense layer that are in memory at a time."""


class _Watched(Protocol):
    """The observer of parameters that are read."""

    read: Read
    has_read: Callable[[str], None]


class CheckpointReader:
    """Gives Tensors of a checkpoint in place of Parameters, of which the last ones stay in memory.

    Args:
        watched: is told of each parameter before and after it is read.
        values: name -> stored values.
        names: id of a Parameter -> its name in `values`.
        exact: name -> values to be taken in place of those stored.
        budget: bytes of parameters that stay in memory.
        wide: whether to widen to float32 what is narrower.
    """

    def __init__(
        self,
        watched: _Watched,
        values: Mapping[str, TensorData],
        names: Mapping[int, str],
        exact: Mapping[str, np.ndarray],
        *,
        budget: int,
        wide: bool,
    ) -> None:
        self._watched, self._values, self._names, self._exact = watched, values, names, exact
        self._budget, self._wide = budget, wide
        self._kept: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._memory = Recycled(max(budget, 8 * _BLOCK))

    def __call__(self, parameter: Any) -> Any:
        """Return a Tensor with the values of a Parameter; itself where it is none of the net's."""
        name = self._names.get(id(parameter))
        if name is None:
            return parameter
        if name in self._kept:
            self._kept.move_to_end(name)
            return self._kept[name][0]
        self._watched.read(self._values[name].nbytes)
        stored = self._values[name].numpy()
        array = self._exact.get(name, stored)
        size = array.nbytes * (2 if self._widens(array) else 1)
        while self._kept and sum(s for _, s in self._kept.values()) + size > self._budget:
            self._kept.popitem(last=False)
        tensor = self._tensor(array)
        self._watched.has_read(name)
        unmap(stored)
        self._kept[name] = tensor, size
        return tensor

    def is_large(self, parameter: Any) -> bool:
        """Whether a Parameter is a matrix of the net's that is read some rows at a time."""
        name = self._names.get(id(parameter))
        if name is None or name in self._exact or name in self._kept:
            return False
        shape = self._values[name].shape
        return len(shape) == 2 and shape[0] > 1 and shape[0] * shape[1] > _BLOCK

    def blocks(self, parameter: Any) -> Iterator[tuple[slice, Any]]:
        """Yield the rows of a large Parameter in order: which they are, and a Tensor of them."""
        name = self._names[id(parameter)]
        self._watched.read(self._values[name].nbytes)
        array = self._values[name].numpy()
        many = max(1, _BLOCK // array.shape[1])
        for first in range(0, len(array), many):
            rows = slice(first, min(first + many, len(array)))
            yield rows, self._tensor(array[rows])
        self._watched.has_read(name)
        unmap(array)

    def rows(self, parameter: Any, indices: np.ndarray) -> tuple[Any, np.ndarray] | None:
        """Return a Tensor of those rows of a large Parameter that indices name, and the indices of its rows.

        None for indices that it does not have.
        """
        name = self._names[id(parameter)]
        self._watched.read(self._values[name].nbytes)
        array = self._values[name].numpy()
        if not indices.size or indices.min() < 0 or indices.max() >= len(array):
            return None
        used, places = np.unique(indices, return_inverse=True)
        found = self._tensor(array[used])
        self._watched.has_read(name)
        unmap(array)
        return found, places.reshape(indices.shape).astype(indices.dtype)

    def _widens(self, array: np.ndarray) -> bool:
        return self._wide and array.dtype.name == "bfloat16"

    def _tensor(self, array: np.ndarray) -> Any:
        from mindspore import Tensor

        if not self._widens(array):
            return Tensor(np.ascontiguousarray(widen_array(array) if self._wide else array))
        own = self._memory.take(array.shape)  # as long as a Tensor is on it
        widen_array(array, own)
        return Tensor.from_numpy(own)


class _Tuple(Sequence[Any]):
    """Parameters of a Cell in a tuple, each given as a Tensor of a checkpoint when it is asked for."""

    def __init__(self, parameters: Sequence[Any], read: CheckpointReader) -> None:
        self._parameters, self._read = parameters, read

    def __len__(self) -> int:
        return len(self._parameters)

    def __getitem__(self, index: Any) -> Any:
        found = self._parameters[index]
        return _Tuple(found, self._read) if isinstance(index, slice) else self._read(found)


@contextmanager
def reading(read: CheckpointReader, cells: Iterable[Any]) -> Iterator[None]:
    """Make Cells find Tensors of a checkpoint in place of their Parameters in a with block.

    A dense layer with a large weight computes some of its outputs at a time, by its own code, and a large
    table gives the rows that are asked for by its own code too.

    Args:
        read: gives the Tensors.
        cells: the net's.
    """
    from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
    from mindspore.nn import Cell

    original: Any = Cell.__getattr__
    construct: Any = nn.Dense.construct
    tables = {kind: name for kind in {*map(type, cells)} if (name := _table_of(kind))}
    constructs: dict[type, Any] = {kind: kind.construct for kind in tables}
    parts: dict[int, Any] = {}

    def look_up(cell: Any, name: str) -> Any:
        found = original(cell, name)
        if isinstance(found, Parameter):
            return parts[id(found)] if id(found) in parts else read(found)
        return _Tuple(found, read) if isinstance(found, ParameterTuple) else found

    def construct_in_blocks(cell: Any, x: Any) -> Any:
        weight, bias = (cell._params.get(name) for name in ("weight", "bias"))
        # an activation may look at all outputs, as Softmax does
        if cell.activation_flag or not read.is_large(weight):
            return construct(cell, x)
        whole = read(bias) if bias is not None else None
        found: list[Any] = []
        try:
            for rows, block in read.blocks(weight):
                parts[id(weight)] = block
                if whole is not None:
                    parts[id(bias)] = whole[rows]
                found.append(construct(cell, x))
        finally:
            parts.clear()
        return ops.cat(found, -1)

    def gather_rows(cell: Any, ids: Any) -> Any:
        table, by = cell._params.get(tables[type(cell)]), constructs[type(cell)]
        large = read.is_large(table) and not getattr(cell, "use_one_hot", False)
        rows = read.rows(table, ids.asnumpy()) if large else None
        if rows is None:
            return by(cell, ids)
        try:
            parts[id(table)], places = rows
            return by(cell, Tensor(places))
        finally:
            parts.clear()

    tuples = [
        (vars(cell), name, value)  # which no `__getattr__` is asked for
        for cell in cells
        for name, value in vars(cell).items()
        if isinstance(value, ParameterTuple)
    ]
    for attributes, name, value in tuples:
        attributes[name] = _Tuple(value, read)
    Cell.__getattr__ = look_up  # type: ignore[method-assign]
    nn.Dense.construct = construct_in_blocks  # type: ignore[method-assign]
    for kind in tables:
        kind.construct = gather_rows
    try:
        yield
    finally:
        Cell.__getattr__ = original
        for attributes, name, value in tuples:
            attributes[name] = value
        nn.Dense.construct = construct
        for kind, by in constructs.items():
            kind.construct = by


_GATHER = re.compile(r"return ops\.gather\(self\.(\w+), (\w+), 0\)")


@cache
def _table_of(kind: type) -> str:
    """Return the parameter of a class of Cells that does nothing but to give rows of it; empty for others."""
    from mindspore import nn

    if kind is nn.Embedding:
        return "embedding_table"
    try:
        source = ast.parse(textwrap.dedent(inspect.getsource(kind.construct))).body[0]
    except (OSError, TypeError, AttributeError, SyntaxError):
        return ""
    if not isinstance(source, ast.FunctionDef) or len(source.body) != 1 or len(source.args.args) != 2:
        return ""
    found = _GATHER.fullmatch(ast.unparse(source.body[0]))
    return found[1] if found is not None and found[2] == source.args.args[1].arg else ""


@cache
def let_threads_sleep() -> None:
    """Run a graph, behind which threads that share an operator sleep until there is one.

    Before the first graph they ask for work without end, in PyNative mode too.
    """
    import mindspore
    from mindspore import Tensor

    @mindspore.jit
    def next_number(x: Any) -> Any:
        return x + 1

    next_number(Tensor(np.zeros(1, np.float32)))
