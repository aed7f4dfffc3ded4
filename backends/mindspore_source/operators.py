"""Declares the operators that only MindSpore source has, in a domain of their own."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Dim, InvalidGraphError, Operator, TensorType
from ...ir.declarations import DeclarationTable
from ...ir.signatures import AttributeSpec
from ...ir.traits import Traits

DOMAIN = "regraft.mindspore"

TABLE = DeclarationTable(DOMAIN)

IF, WHILE, ENTRY = (f"{DOMAIN}.{name}" for name in ("If", "While", "Entry"))

ARGUMENT, SIZE_TENSOR = f"{DOMAIN}.Argument", f"{DOMAIN}.SizeTensor"

Types = Sequence[TensorType | None]


def _first(operator: Operator, types: Types) -> list[TensorType | None]:  # noqa: ARG001 - a typing rule
    return [types[0]]


def _per_channel(operator: Operator, types: Types) -> list[TensorType | None]:
    """Infer the type of the input; axis 1 must be as long as the slope, unless the slope has one element."""
    given, slope = types[0], types[1]
    if given and slope and given.shape and slope.shape and len(given.shape) > 1:
        channels, slopes = given.shape[1], slope.shape[0]
        if isinstance(channels, int) and isinstance(slopes, int) and slopes not in (1, channels):
            raise InvalidGraphError(
                "E301", f"expected {channels} slopes of `{operator.op_type}`, got {slopes}"
            )
    return [given]


def _infer_nothing(operator: Operator, types: Types) -> list[TensorType | None]:  # noqa: ARG001 - a typing rule
    return [None] * len(operator.types)


def _of_branches(operator: Operator, types: Types) -> list[TensorType | None]:
    """Infer the types that both branches return, where they agree."""
    count = _half(operator, types, "results of branches")
    rows = zip(types[3 : 3 + count], types[3 + count :], strict=True)
    return [_common(operator, a, b) for a, b in rows]


def _of_turns(operator: Operator, types: Types) -> list[TensorType | None]:
    """Infer the types of the state before the first turn and after each, where they agree."""
    count = _half(operator, types, "values of state")
    rows = zip(types[2 : 2 + count], types[3 + count :], strict=True)
    return [_common(operator, a, b) for a, b in rows]


def _half(operator: Operator, types: Types, what: str) -> int:
    """Return the number of outputs; there are two operands for each, besides three others."""
    count = len(operator.types)
    if len(types) != 3 + 2 * count:
        raise InvalidGraphError("E301", f"expected {2 * count} {what}, got {len(types) - 3}")
    return count


def _common(operator: Operator, a: TensorType | None, b: TensorType | None) -> TensorType | None:
    if a is None or b is None:
        return None
    if a.dtype != b.dtype:
        raise InvalidGraphError("E301", f"expected one element type of `{operator.op_type}`, got {a} and {b}")
    return a if a == b else None


def is_batch_of_products(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """Whether matrices of two shapes meet in pairs: as many on either side, and no batch is broadcast."""
    return len(a) == len(b) > 2 and a[:-2] == b[:-2] and None not in a[:-2]


def _product(operator: Operator, types: Types) -> list[TensorType | None]:
    """Infer the product's type, of one matrix a batch; operands must agree in their batch and inner size."""
    a, b = types[0], types[1]
    if a is None or b is None or a.shape is None or b.shape is None:
        return [None]
    *batch, rows, inner = _exchanged(a.shape, operator.int("transA"))
    *other, depth, columns = _exchanged(b.shape, operator.int("transB"))
    pairs = zip((*batch, inner), (*other, depth), strict=False)
    if len(batch) != len(other) or any(
        isinstance(m, int) and isinstance(n, int) and m != n for m, n in pairs
    ):
        raise InvalidGraphError("E301", f"expected one product of matrices for each example, got {a} and {b}")
    return [TensorType(a.dtype, (*batch, rows, columns))]


def _exchanged(shape: tuple[Dim, ...], turned: int) -> tuple[Dim, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if turned else shape


def _argmin(operator: Operator, types: Types) -> list[TensorType | None]:
    given = types[0]
    if given is None or given.shape is None:
        return [None]
    axis = operator.int("axis") % len(given.shape)
    kept = (1,) if operator.int("keepdims") else ()
    return [TensorType("int32", (*given.shape[:axis], *kept, *given.shape[axis + 1 :]))]


def _top_k(operator: Operator, types: Types) -> list[TensorType | None]:
    given = types[0]
    if given is None or given.shape is None:
        return [None, None]
    axis = operator.int("axis") % len(given.shape)
    shape = (*given.shape[:axis], None, *given.shape[axis + 1 :])
    return [TensorType(given.dtype, shape), TensorType("int32", shape)]


TABLE.add(
    "ArgMin",
    inputs="data",
    attributes=[
        AttributeSpec("axis", "int", default=0),
        AttributeSpec("keepdims", "int", default=1),
        AttributeSpec("select_last_index", "int", default=0),
    ],
    infer=_argmin,
    summary="ONNX's ArgMin, whose places are int32",
)
TABLE.add(
    "MatMul",
    inputs="A B",
    attributes=[AttributeSpec("transA", "int", default=0), AttributeSpec("transB", "int", default=0)],
    infer=_product,
    summary="MatMul of one product a batch, whose operands may have their last two axes exchanged",
)
TABLE.add(
    "TopK",
    inputs="X K",
    outputs="Values Indices",
    attributes=[
        AttributeSpec("axis", "int", default=-1),
        AttributeSpec("largest", "int", default=1),
        AttributeSpec("sorted", "int", default=1),
    ],
    infer=_top_k,
    summary="ONNX's TopK, whose places are int32",
)
TABLE.add(
    "Argument",
    inputs="X",
    infer=_first,
    summary="A value as one argument of a module call, distinct from the call's others; written as the value",
)
TABLE.add(
    "SizeTensor",
    inputs="sizes",
    infer=_first,
    summary="A tensor of sizes, which are Python numbers before",
)
TABLE.add(
    "PRelu",
    inputs="X slope",
    infer=_per_channel,
    summary="PRelu of one slope a channel, given as (C): nn.PReLU",
    traits=Traits(elementwise=True, activation=True, bends=(0.0,)),
)
TABLE.add(
    "Sigmoid",
    inputs="X",
    infer=_first,
    summary="Sigmoid that is as precise on CPU as elsewhere: written as a function of the file's own",
    traits=Traits(elementwise=True, activation=True),
)
TABLE.add(
    "Tanh",
    inputs="X",
    infer=_first,
    summary="Tanh that is as precise on CPU as elsewhere: written as a function of the file's own",
    traits=Traits(elementwise=True, activation=True),
)
TABLE.add(
    "Softmax",
    inputs="X",
    attributes=[AttributeSpec("axis", "int", default=-1)],
    infer=_first,
    summary="Softmax of rows, of which some may be -inf whole: written as a function of the file's own",
    traits=Traits(activation=True),
)
TABLE.add(
    "LogSoftmax",
    inputs="X",
    attributes=[AttributeSpec("axis", "int", default=-1)],
    infer=_first,
    summary="LogSoftmax that is as precise on CPU as elsewhere: written as a function of the file's own",
    traits=Traits(activation=True),
)
TABLE.add(
    "Entry",
    inputs="",
    outputs="entered state*",
    infer=_infer_nothing,
    summary="What a region is entered with, in the region's call: a token, and the state of a turn",
)
TABLE.add(
    "If",
    inputs="condition then_entry else_entry results*",
    outputs="Y*",
    infer=_of_branches,
    summary="A Python `if`; `results` are what the first region returns, then what the second does",
)
TABLE.add(
    "While",
    inputs="condition entry values*",
    outputs="Y*",
    infer=_of_turns,
    summary="A Python `while`; `values` are its first state, the condition of another turn, the next state",
)
