"""Infers the types of an operator's outputs from its operands, by ONNX's rule or by its declaration's."""

from __future__ import annotations

import hashlib
import marshal
import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import onnx

from .arity import check_operator
from .declarations import find_declaration
from .errors import InvalidGraphError
from .graph import Graph
from .nodes import Constant, Operator, Parameter
from .operators import onnx_schema, signature
from .signatures import OPSET
from .tensors import TensorData
from .types import DTYPES, Array, TensorType, is_array, type_of_proto, type_to_proto

_OPSETS = [onnx.helper.make_opsetid("", OPSET)]
_SMALL = 1024  # elements: shapes, axes and pads, which is what ONNX's rules read

_PLAIN = frozenset({int, float, str, list})
_MOST_KNOWN = 1 << 14
_known: dict[Hashable, tuple[TensorType | None, ...]] = {}
"""Valid applications of operators -> the types that their rule gave; cleared when full."""

_FAULTS = (
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
    ArithmeticError,
    AssertionError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors that typing rules raise for operands or attributes that do not fit."""

_SCHEMA_NAMES = {"float32": "float", "float64": "double"}

_ALIKE = frozenset({"GroupNormalization", "MeanVarianceNormalization"})
"""Operators without a rule in ONNX whose output has the type of the first operand."""

Operands = Sequence[tuple[int, int] | None]
"""(node, output number) of every operand by slot, as a `Value` is; None where an optional one is absent."""


def attribute_proto(name: str, value: object, kind: str | None = None) -> onnx.AttributeProto:
    """Return ONNX's form of an attribute value, which must not be a nested graph."""
    if is_array(value):
        return onnx.helper.make_attribute(name, _tensor_proto(value))
    if isinstance(value, (list, tuple)) and not value:
        types = {
            "ints": onnx.AttributeProto.INTS,
            "floats": onnx.AttributeProto.FLOATS,
            "strings": onnx.AttributeProto.STRINGS,
        }
        return onnx.helper.make_attribute(name, [], attr_type=types[kind or "ints"])
    if kind == "float":
        value = float(value)  # type: ignore[arg-type] - of the kind that its operator states
    if kind == "floats":
        value = [float(v) for v in value]  # type: ignore[union-attr] - likewise
    return onnx.helper.make_attribute(name, value)


def infer_types(
    graph: Graph, operator: Operator, operands: Operands, outputs: int
) -> Sequence[TensorType | None]:
    """Return the types of an operator's outputs; None where its rule does not give one.

    The rule is evaluated once for all equal applications of an operator; its result is cached.

    Args:
        graph: the graph that holds the operands.
        operator: the operator; its own `types` are not read.
        operands: its inputs by slot.
        outputs: how many outputs it has.

    Raises:
        InvalidGraphError: when arity, attributes or operand types contradict the operator's rule.
    """
    key = _application(graph, operator, operands, outputs)
    found = None if key is None else _known.get(key)
    if found is None:
        check_operator(operator, len(operands), outputs)
        found = (*_infer(graph, operator, operands, outputs),)
        if key is not None:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[key] = found
    return found


def _application(graph: Graph, operator: Operator, operands: Operands, outputs: int) -> Hashable:
    """Return a key of everything that an operator's types depend on; None if the key would be large."""
    attributes = operator.attributes
    if not _PLAIN.issuperset(map(type, attributes.values())):
        return None  # tensors and nested graphs
    node_of = graph.flow.node
    parts: list[object] = [operator.op_type, operator.domain, outputs]
    for operand in operands:
        if operand is None:
            parts.append("")
            continue
        node = node_of(operand[0])
        if isinstance(node, (Constant, Parameter)):
            data = node.data
            parts += (data.dtype, data.shape)
            if isinstance(node, Constant) and _is_readable(data):
                content = data.numpy().tobytes()
                parts.append(content if len(content) <= 64 else hashlib.sha256(content).digest())
        else:
            parts.append(node.types[operand[1]])
    try:
        parts.append(marshal.dumps(attributes, 2))  # tells 1 from 1.0, as the kinds of attributes do
    except ValueError:  # a list of something else: its operator refuses it
        return None
    return tuple(parts)


def _infer(graph: Graph, operator: Operator, operands: Operands, outputs: int) -> Sequence[TensorType | None]:
    types = [None if v is None else graph.node(v[0]).types[v[1]] for v in operands]
    if operator.domain:
        rule = find_declaration(operator.op_type, operator.domain).infer
        try:
            found = rule(operator, types)
        except _FAULTS as error:
            raise _make_refusal(operator, types, str(error)) from error
        return [*found, *([None] * (outputs - len(found)))][:outputs]
    if operator.subgraphs():
        return [None] * outputs  # ONNX's rules give nothing for If and Loop: their builder states the types
    if operator.op_type in _ALIKE:
        return [types[0]]
    if any(v is not None and t is None for v, t in zip(operands, types, strict=True)):
        return [None] * outputs
    node = _node_proto(operator, operands, outputs)
    read: dict[str, onnx.TensorProto] = {}
    for name, value in zip(node.input, operands, strict=True):
        producer = None if value is None else graph.node(value[0])
        if isinstance(producer, Constant) and _is_readable(producer.data):
            read[name] = _tensor_proto(np.asarray(producer.data.numpy(), order="C"))
    schema = onnx_schema(operator.op_type)
    try:
        inferred = _ask(schema, node, types, read)
    except _FAULTS as error:
        other = _of_another_width(schema, types)
        if other is None:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise _make_refusal(operator, types, lines[-1] if lines else "inference failed") from error
        inferred = _as_another_width(schema, node, types, other)
    return [t if t is None else _drop_wrong_dims(operator, t) for t in inferred]


def _ask(
    schema: onnx.defs.OpSchema,
    node: onnx.NodeProto,
    types: Sequence[TensorType | None],
    read: dict[str, onnx.TensorProto],
) -> list[TensorType | None]:
    """Return the types that ONNX's rule gives; `read` holds the operands whose values it may read."""
    known = {name: type_to_proto(t) for name, t in zip(node.input, types, strict=True) if t is not None}
    given = onnx.shape_inference.infer_node_outputs(schema, node, known, read, opset_imports=_OPSETS)
    return [type_of_proto(given[name]) if name in given else None for name in node.output]


def _of_another_width(
    schema: onnx.defs.OpSchema, types: Sequence[TensorType | None]
) -> dict[str, str] | None:
    """Map element types that the schema lacks to types of the same kind that it has; None for a fault.

    Celu takes float32 alone in ONNX, but has a meaning for float16, which other targets support; Sqrt of
    integers has none.
    """
    found: dict[str, str] = {}
    for slot, type_ in enumerate(types):
        if type_ is None:
            continue
        allowed = schema.inputs[min(slot, len(schema.inputs) - 1)].types
        names = [name for name in DTYPES if f"tensor({_SCHEMA_NAMES.get(name, name)})" in allowed]
        if type_.dtype in names:
            continue
        fitting = sorted(name for name in names if _kind(name) == _kind(type_.dtype))
        if not fitting:
            return None
        found[type_.dtype] = fitting[0]
    return found or None


def _as_another_width(
    schema: onnx.defs.OpSchema,
    node: onnx.NodeProto,
    types: Sequence[TensorType | None],
    other: dict[str, str],
) -> list[TensorType | None]:
    """Return the types that the rule gives for operands cast to the element types in `other`."""
    taken = {name: dtype for dtype, name in other.items()}
    asked = [t and TensorType(other.get(t.dtype, t.dtype), t.shape) for t in types]
    try:
        found = _ask(schema, node, asked, {})
    except _FAULTS:  # operands of several widths, of which the schema leaves some out
        return [None] * len(node.output)
    return [t and TensorType(taken.get(t.dtype, t.dtype), t.shape) for t in found]


def _tensor_proto(array: Array) -> onnx.TensorProto:
    numpy_helper: Any = onnx.numpy_helper  # whose annotations leave out what arrays hold
    return numpy_helper.from_array(array)


def _kind(dtype: str) -> str:
    return "float" if "float" in dtype else "int" if "int" in dtype else dtype


def _node_proto(operator: Operator, operands: Operands, outputs: int) -> onnx.NodeProto:
    """Return ONNX's form of an operator without nested graphs; its values are named by their slots."""
    specs = signature(operator.op_type).attributes
    names = [f"i{slot}" if value is not None else "" for slot, value in enumerate(operands)]
    node = onnx.NodeProto(op_type=operator.op_type, input=names, output=[f"o{i}" for i in range(outputs)])
    for name, value in operator.attributes.items():
        kind = specs[name].kind if name in specs else None
        try:
            node.attribute.append(attribute_proto(name, value, kind))
        except (
            TypeError,
            ValueError,
            OverflowError,
        ) as error:  # numbers that ONNX's 64 or 32 bits cannot hold
            raise InvalidGraphError(
                "E301",
                f"attribute `{name}` of `{operator.op_type}` cannot be written: {error}",
                place=operator.location,
            ) from error
    return node


def _drop_wrong_dims(operator: Operator, type_: TensorType) -> TensorType:
    """Return a type that ONNX's rule gives, with unknown dimensions for those that the rule gets wrong.

    ConvTranspose's rule takes negative padding of SAME_UPPER and SAME_LOWER (strides above the kernel) for 0,
    unlike the runtimes; STFT's takes 0 for the default of `onesided`, which is 1.
    """
    shape = type_.shape
    if shape is None:
        return type_
    if operator.op_type == "ConvTranspose" and operator.str("auto_pad").startswith("SAME"):
        return type_.with_shape((*shape[:2], *[None] * (len(shape) - 2)))
    if operator.op_type == "STFT" and "onesided" not in operator.attributes:
        return type_.with_shape((*shape[:2], None, *shape[3:]))
    return type_


def _make_refusal(operator: Operator, types: Sequence[TensorType | None], detail: str) -> InvalidGraphError:
    got = ", ".join(str(t) for t in types)
    return InvalidGraphError(
        "E301",
        f"operands of `{operator.op_type}` contradict its rule: {detail}; "
        f"got ({got}) with {operator.attributes}",
        place=operator.location,
    )


def _is_readable(data: TensorData) -> bool:
    """Whether a constant is there, and small enough to be a shape, axes or pads."""
    return data.load is not None and data.dtype != "string" and math.prod(data.shape) <= _SMALL
