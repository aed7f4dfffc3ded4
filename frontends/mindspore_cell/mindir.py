"""MindIR, MindSpore's serialised graph, read into plain records: nodes, constants, types and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...ir import TensorType, numpy_dtype

_DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float64",
}
"""Number of an element type in MindIR's TensorProto -> our name."""

Type = "TensorType | tuple[Type, ...] | None"
"""The result of a node: a tensor, a tuple of them, or None for a monad, a closure or other non-data."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Attributes:
        name: its value's name, unique in the graph.
        op: primitive, e.g. ``Conv2D``; ``Constant`` for a constant.
        inputs: names of nodes, parameters or graph inputs.
        attributes: the primitive's own attributes.
        type: what it yields.
        scope: MindSpore's scope string; a hint only: Python functions keep that of their first use.
        value: a constant's value.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    type: Any = None
    scope: str = ""
    value: Any = None


INVOKE = "Invoke"
"""Our name for the call of a function, or of the value that a Switch chose: its first input says which."""


@dataclass(frozen=True, slots=True)
class Function:
    """One nested function, as control flow makes them; what it reads from around it are arguments.

    Attributes:
        name: by which nodes refer to it, where they refer to values.
        inputs: (name, type) in order; None where the type is not stated: numbers, tuples and monads.
        nodes: in execution order.
        output: name of the value that is returned.
    """

    name: str
    inputs: tuple[tuple[str, TensorType | None], ...]
    nodes: tuple[Node, ...]
    output: str


@dataclass(frozen=True, slots=True)
class Program:
    """A whole MindIR graph.

    Attributes:
        inputs: (name, type) in order.
        parameters: value name -> `Parameter.name`.
        nodes: in execution order.
        output: name of the value that is returned; a tuple's parts are found through MakeTuple.
        functions: the nested functions that control flow makes; empty for straight-line code.
    """

    inputs: tuple[tuple[str, TensorType], ...]
    parameters: dict[str, str]
    nodes: tuple[Node, ...]
    output: str
    functions: tuple[Function, ...] = ()

    def all_nodes(self) -> Iterator[Node]:
        """Yield the nodes of the graph and of all functions."""
        yield from self.nodes
        for function in self.functions:
            yield from function.nodes


class _Monad:
    """The one value of constants that only order side effects."""

    def __repr__(self) -> str:
        return "monad"


MONAD = _Monad()


def parse_program(stream: bytes) -> Program:
    """Read a serialised ModelProto."""
    from mindspore.train.mind_ir_pb2 import (  # built at import time
        ModelProto,  # pyright: ignore[reportAttributeAccessIssue]
    )

    model = ModelProto()
    model.ParseFromString(stream)
    return program_of(model)


def program_of(model: Any) -> Program:
    """Return the program of a model: MindSpore's ModelProto, or what has its fields."""
    primitives = {p.name: p for p in model.primitives}
    graph = model.graph
    return Program(
        inputs=tuple((v.name, _tensor_type(v.tensor[0])) for v in graph.input),
        parameters={p.name: p.name.partition(":")[2] for p in graph.parameter},
        nodes=tuple(_node(n, primitives) for n in graph.node),
        output=graph.output[0].name,
        functions=tuple(
            Function(
                name=f.name,
                inputs=tuple((v.name, _tensor_type(v.tensor[0]) if v.tensor else None) for v in f.input),
                nodes=tuple(_node(n, primitives) for n in f.node),
                output=f.output[0].name,
            )
            for f in model.functions
        ),
    )


def _node(proto: Any, primitives: dict[str, Any]) -> Node:
    own = {a.name: a for a in proto.attribute}
    if proto.op_type == "Constant":
        return Node(proto.output[0], "Constant", value=_value(own["value"]))
    op, inputs, attributes = proto.op_type, tuple(proto.input), {}
    if op.startswith("REF::"):
        primitive = primitives.get(op[5:])
        if primitive is None:
            op, inputs = INVOKE, (op[5:], *inputs)
        else:
            op, attributes = primitive.op_type, {a.name: _value(a) for a in primitive.attribute}
    type_ = _type(own["shape"]) if "shape" in own else None
    return Node(proto.output[0], op, inputs, attributes, type_, proto.domain)


def element_type(number: int) -> str | None:
    """Return our name of an element type by MindIR's number; None for one that there is not."""
    return _DTYPES.get(number)


def _tensor_type(proto: Any) -> TensorType:
    dims = None if -2 in proto.dims else tuple(None if d < 0 else int(d) for d in proto.dims)
    return TensorType(_DTYPES[proto.data_type], dims)


_KINDS = (
    *(
        "UNDEFINED",
        "FLOAT",
        "UINT8",
        "INT8",
        "UINT16",
        "INT16",
        "INT32",
        "INT64",
        "STRING",
        "BOOL",
        "FLOAT16",
    ),
    *("DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16", "TENSOR", "GRAPH", "TENSORS"),
    *("TUPLE", "LIST", "DICT", "UMONAD", "IOMONAD", "NONE", "PRIMITIVECLOSURE", "FUNCGRAPHCLOSURE"),
    *("PARTIALCLOSURE", "UNIONFUNCCLOSURE", "CSR_TENSOR", "COO_TENSOR", "ROW_TENSOR", "CLASS_TYPE"),
    *("NAME_SPACE", "SYMBOL", "TYPE_NULL", "MAP_TENSOR", "FUNCTOR", "SCALAR", "SCALAR_GRAPH_HOLDER"),
)
"""Kinds of an attribute, by MindIR's number."""


def _kind(attribute: Any) -> str:
    return _KINDS[attribute.type]


def _type(attribute: Any) -> Any:
    """Return the type that a node's `shape` attribute states."""
    kind = _kind(attribute)
    if kind == "TENSORS":
        found = [_tensor_type(t) for t in attribute.tensors]
        return found[0] if len(found) == 1 else tuple(found)
    if kind == "SCALAR":
        dtype = _DTYPES.get(attribute.tensors[0].data_type, "int64")
        return TensorType("float64" if dtype == "float32" else dtype, ())  # a Python float
    if kind in ("TUPLE", "LIST"):
        return tuple(_type(v) for v in attribute.values)
    return None


_INTEGERS = {"INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"}


def _value(attribute: Any) -> Any:
    """Return the value of a constant or an attribute.

    At top level a scalar is in the singular field (`i`); inside a tuple it is in the repeated one (`ints`).
    """
    kind = _kind(attribute)
    if kind in ("TUPLE", "LIST"):
        return tuple(_value(v) for v in attribute.values)
    if kind in ("TENSOR", "TENSORS"):
        tensors = [attribute.t] if attribute.HasField("t") else list(attribute.tensors)
        arrays = [_array(t) for t in tensors]
        return arrays[0] if len(arrays) == 1 else tuple(arrays)
    if kind == "NONE":
        return None
    if kind in ("UMONAD", "IOMONAD"):
        return MONAD
    scalars = list(_scalars(attribute, kind))
    return scalars[0] if len(scalars) == 1 else tuple(scalars)


def _scalars(attribute: Any, kind: str) -> Iterator[Any]:
    if kind == "BOOL":
        yield from map(bool, attribute.ints or [attribute.i])
    elif kind in _INTEGERS:
        yield from map(int, attribute.ints or [attribute.i])
    elif kind in ("FLOAT", "FLOAT16", "BFLOAT16"):
        # stored as float32: the shortest decimal is what the source said (1e-05, not 9.99999974e-06)
        yield from (float(str(np.float32(v))) for v in attribute.floats or [attribute.f])
    elif kind == "DOUBLE":
        yield from attribute.doubles or [attribute.d]
    elif kind == "STRING":
        yield from (s.decode() for s in attribute.strings or [attribute.s])
    else:
        yield f"<{kind}>"


def _array(proto: Any) -> np.ndarray | str:
    """Return an array, or the name of an element type, which is stored as one without data."""
    dtype = numpy_dtype(_DTYPES[proto.data_type])
    shape = tuple(int(d) for d in proto.dims)
    if not proto.raw_data and 0 not in shape:
        return _DTYPES[proto.data_type]
    return np.frombuffer(proto.raw_data, dtype).reshape(shape)
