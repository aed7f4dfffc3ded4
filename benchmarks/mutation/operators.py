"""Faults in single operators, for an ONNX file and for the graph alike: neighbours, attributes, operands."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx

Attribute = int | float | str | list[int] | list[float] | list[str]


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of one operator.

    Attributes:
        kind: as in `Mutant`.
        what: the change in words.
        op_type: the new operator; "" for the same.
        attributes: those that get another value; None removes one.
        scalars: constants of the first operand's type that follow it.
        order: the old operands in a new order; None as they are; -1 leaves one out.
    """

    kind: str
    what: str
    op_type: str = ""
    attributes: Mapping[str, Attribute | None] = field(default_factory=dict)
    scalars: Sequence[float] = ()
    order: Sequence[int] | None = None


_ONE_OPERAND = {
    "Relu": [
        ("Clip", {}, (0.0, 6.0)),
        ("LeakyRelu", {"alpha": 0.01}, ()),
        ("Elu", {}, ()),
        ("Softplus", {}, ()),
    ],
    "LeakyRelu": [("Relu", {"alpha": None}, ()), ("Elu", {"alpha": 1.0}, ())],
    "Elu": [("Relu", {"alpha": None}, ()), ("Selu", {"alpha": None}, ()), ("Celu", {"alpha": 2.0}, ())],
    "Selu": [("Elu", {"alpha": None, "gamma": None}, ())],
    "Gelu": [("Relu", {"approximate": None}, ()), ("Mish", {"approximate": None}, ())],
    "HardSwish": [("Mish", {}, ()), ("Relu", {}, ())],
    "Mish": [("HardSwish", {}, ())],
    "Sigmoid": [("HardSigmoid", {"alpha": 1 / 6}, ()), ("Tanh", {}, ())],
    "HardSigmoid": [("Sigmoid", {"alpha": None, "beta": None}, ())],
    "Tanh": [("Clip", {}, (-1.0, 1.0)), ("Softsign", {}, ()), ("Sigmoid", {}, ())],
    "Softplus": [("Relu", {}, ())],
    "Softsign": [("Tanh", {}, ())],
    "Softmax": [("LogSoftmax", {}, ())],
    "LogSoftmax": [("Softmax", {}, ())],
    "Floor": [("Ceil", {}, ()), ("Round", {}, ())],
    "Ceil": [("Floor", {}, ()), ("Round", {}, ())],
    "Round": [("Floor", {}, ())],
    "Erf": [("Tanh", {}, ())],
    "Exp": [("Softplus", {}, ())],
    "Sqrt": [("Reciprocal", {}, ())],
    "Sin": [("Cos", {}, ())],
    "Cos": [("Sin", {}, ())],
    "Abs": [("Relu", {}, ()), ("Neg", {}, ())],
    "GlobalAveragePool": [("GlobalMaxPool", {}, ())],
    "GlobalMaxPool": [("GlobalAveragePool", {}, ())],
}
"""Operator -> neighbours of the same operands, attributes that change, constants that follow."""

_SEVERAL = {
    "Add": ["Sub", "Mul"],
    "Sub": ["Add"],
    "Mul": ["Add", "Div"],
    "Div": ["Mul"],
    "Less": ["LessOrEqual", "Greater"],
    "LessOrEqual": ["Less"],
    "Greater": ["GreaterOrEqual", "Less"],
    "GreaterOrEqual": ["Greater"],
    "And": ["Or"],
    "Or": ["And"],
    "Max": ["Min"],
    "Min": ["Max"],
    "ReduceMean": ["ReduceSum", "ReduceMax"],
    "ReduceSum": ["ReduceMean"],
    "ReduceMax": ["ReduceMean", "ReduceMin"],
    "ReduceMin": ["ReduceMax"],
    "ReduceL2": ["ReduceL1"],
    "ArgMax": ["ArgMin"],
    "ArgMin": ["ArgMax"],
    "AveragePool": ["LpPool"],
    "MaxPool": ["AveragePool"],
}

_NOT_COMMUTATIVE = frozenset(
    {"Sub", "Div", "Pow", "MatMul", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Mod"}
)

_FLAGS = {
    "pool": "count_include_pad ceil_mode include_pad",
    "transposition": "transA transB",
    "recurrent": "linear_before_reset batch_first bidirectional",
    "attention": "is_causal causal",
    "scan": "exclusive reverse inclusive",
    "arg": "select_last_index",
    "top k": "largest",
    "resize": "align_corners antialias exclude_outside",
    "reduction": "keepdims keep_dims",
}
"""What a flag is of -> its names."""

_FLAG_OF = {name: what for what, names in _FLAGS.items() for name in names.split()}

_WORDS = {
    "approximate": ("none", "tanh"),
    "nearest_mode": ("round_prefer_floor", "floor", "ceil", "round_prefer_ceil"),
    "coordinate_transformation_mode": ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"),
    "auto_pad": ("SAME_UPPER", "SAME_LOWER"),
    "direction": ("forward", "reverse"),
    "mode": ("linear", "nearest", "cubic", "constant", "reflect", "edge", "DCR", "CRD"),
    "reduction": ("mean", "sum"),
}

_AXES = ("axis", "axes", "dim", "dims", "normalized_axes")


def edits(
    op_type: str, given: Mapping[str, object], operands: Sequence[bool], rank: int | None, domain: str = ""
) -> Iterator[Edit]:
    """Every change of an operator that may change what it computes.

    Args:
        op_type: its name.
        given: its attributes; those of ONNX's operators that are left out have the schema's defaults.
        operands: which operands are there.
        rank: of the first operand.
        domain: of the operator; composites of ours have no schema.
    """
    for other, attributes, scalars in _ONE_OPERAND.get(op_type, []):
        changed = {n: v for n, v in attributes.items() if v is not None or n in given}
        yield Edit("neighbour of the operator", f"{op_type} -> {other}", other, changed, scalars)
    for other in _SEVERAL.get(op_type, []):
        extra = {n: None for n in ("storage_order", "dilations") if n in given and op_type == "MaxPool"}
        if other == "LpPool":
            extra = {n: None for n in ("count_include_pad",) if n in given}
        yield Edit("neighbour of the operator", f"{op_type} -> {other}", other, extra)
    if op_type in _NOT_COMMUTATIVE and len(operands) == 2:
        yield Edit("operands swapped", op_type, order=(1, 0))
    if op_type == "Concat" and len(operands) > 1:
        yield Edit("operands swapped", op_type, order=(1, 0, *range(2, len(operands))))
    if op_type == "Where":
        yield Edit("operands swapped", op_type, order=(0, 2, 1))
    if op_type == "Attention" and len(operands) > 2:
        yield Edit("operands swapped", "key and value", order=(0, 2, 1, *range(3, len(operands))))
        yield Edit("operands swapped", "query and key", order=(1, 0, *range(2, len(operands))))
        if len(operands) > 3 and operands[3]:
            yield Edit("operand left out", "mask", order=(0, 1, 2, -1, *range(4, len(operands))))
    if op_type in ("Conv", "ConvTranspose", "Gemm", "Linear") and len(operands) > 2 and operands[2]:
        yield Edit("bias left out", op_type, order=(0, 1))
    if op_type == "Clip":
        for slot in (1, 2):
            if len(operands) > slot and operands[slot]:
                order = [0, 1, 2][: len(operands)]
                order[slot] = -1
                yield Edit("operand left out", ("", "min", "max")[slot], order=tuple(order))
    if op_type in ("LSTM", "GRU", "RNN"):
        if len(operands) > 3 and operands[3]:
            yield Edit(
                "bias left out", op_type, order=tuple(-1 if i == 3 else i for i in range(len(operands)))
            )
        for slot, what in ((5, "initial state"), (4, "lengths")):
            if len(operands) > slot and operands[slot]:
                kept = tuple(-1 if i == slot else i for i in range(len(operands)))
                yield Edit("operand left out", what, order=kept)
    kernel = given.get("kernel_shape")
    point = isinstance(kernel, list) and set(kernel) == {1}
    for name, value in {**({} if domain else _defaults(op_type)), **given}.items():
        if name == "dilations" and point:  # a kernel of one element has no gaps
            continue
        if name == "count_include_pad" and not (
            given.get("ceil_mode") or any(given.get("pads") or ()) or given.get("auto_pad")
        ):
            continue
        yield from _attribute_edits(op_type, name, value, rank)


def _attribute_edits(op_type: str, name: str, value: object, rank: int | None) -> Iterator[Edit]:
    def edit(kind: str, new: Attribute) -> Edit:
        return Edit(kind, f"{op_type} {name} {value} -> {new}", attributes={name: new})

    if name in _FLAG_OF and value in (0, 1):
        yield edit(f"flag of {_FLAG_OF[name]}", 1 - int(value))
    elif name in _AXES and isinstance(value, int) and rank is not None and rank > 1:
        for step in (1, -1):
            yield edit("axis shifted", (value + step) % rank - (rank if value < 0 else 0))
    elif name in _AXES and isinstance(value, list) and rank is not None and rank > 1:
        yield edit("axis shifted", [(int(v) + 1) % rank for v in value])
    elif isinstance(value, float):
        if name in ("epsilon", "eps"):
            yield edit("epsilon x 10", value * 10)
        elif name not in ("momentum", "ratio", "p", "dropout", "probability") and value:
            yield edit("float attribute x 1.1", value * 1.1)
            yield edit("float attribute x 1.001", value * 1.001)
    elif name in ("pads", "padding") and isinstance(value, list) and value:
        half = len(value) // 2
        for at in range(half):
            for a, b in ((at, at + half), (at + half, at)):
                if value[a] > 0:
                    yield edit("padding shifted", [v - (i == a) + (i == b) for i, v in enumerate(value)])
        yield edit("padding + 1", [v + 1 for v in value])
    elif (
        name in ("strides", "dilations", "kernel_shape", "output_padding")
        and isinstance(value, list)
        and value
    ):
        if name == "kernel_shape" and "Pool" not in op_type:  # the weight's own shape says it too
            return
        kind = {"strides": "stride", "dilations": "dilation"}.get(name, name.replace("_", " "))
        yield edit(f"{kind} + 1", [int(v) + 1 for v in value])
        if len(set(value)) > 1:
            yield edit(f"{kind} transposed", list(reversed(value)))
    elif name in ("perm",) and isinstance(value, list):
        for i in range(len(value) - 1):
            new = list(value)
            new[i], new[i + 1] = new[i + 1], new[i]
            yield edit("permutation changed", new)
    elif name == "group" and isinstance(value, int) and value > 1:
        yield edit("groups halved", value // 2)
    elif name in _WORDS and value in _WORDS[name]:
        for other in _WORDS[name]:
            if other != value:
                yield edit("mode changed", other)
    elif name == "activations" and isinstance(value, list) and "Tanh" in value:
        yield edit("mode changed", ["Sigmoid" if v == "Tanh" else v for v in value])
    elif name in ("size", "lambd", "p", "blocksize", "k", "num_heads", "q_num_heads") and isinstance(
        value, int
    ):
        yield edit("integer attribute + 1", value + 1)


@functools.cache
def _defaults(op_type: str) -> dict[str, object]:
    """The schema's defaults of an ONNX operator's attributes."""
    if not onnx.defs.has(op_type):
        return {}
    found: dict[str, object] = {}
    for name, attribute in onnx.defs.get_schema(op_type).attributes.items():
        default = attribute.default_value
        if default.name:
            value = onnx.helper.get_attribute_value(default)
            found[name] = value.decode() if isinstance(value, bytes) else value
    return {n: v for n, v in found.items() if isinstance(v, (int, float, str))}
