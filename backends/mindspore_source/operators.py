"""Declares the operators that only MindSpore source has, in a domain of their own."""

from __future__ import annotations

from ...ir import Dim, InvalidGraphError, Operator, TensorType
from ...ir.declarations import DeclarationTable
from ...ir.signatures import AttributeSpec
from ...ir.traits import Traits
from ..source.operators import Types, infer_first

DOMAIN = "regraft.mindspore"

TABLE = DeclarationTable(DOMAIN)


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
    "Sigmoid",
    inputs="X",
    infer=infer_first,
    summary="Sigmoid that is as precise on CPU as elsewhere: written as a function of the file's own",
    traits=Traits(elementwise=True, activation=True),
)
TABLE.add(
    "Tanh",
    inputs="X",
    infer=infer_first,
    summary="Tanh that is as precise on CPU as elsewhere: written as a function of the file's own",
    traits=Traits(elementwise=True, activation=True),
)
TABLE.add(
    "Mish",
    inputs="X",
    infer=infer_first,
    summary="Mish that is finite on CPU as elsewhere: written as a function of the file's own",
    traits=Traits(elementwise=True, activation=True),
)
TABLE.add(
    "Softmax",
    inputs="X",
    attributes=[AttributeSpec("axis", "int", default=-1)],
    infer=infer_first,
    summary="Softmax of rows, of which some may be -inf whole: written as a function of the file's own",
    traits=Traits(activation=True),
)
TABLE.add(
    "LogSoftmax",
    inputs="X",
    attributes=[AttributeSpec("axis", "int", default=-1)],
    infer=infer_first,
    summary="LogSoftmax that is as precise on CPU as elsewhere: written as a function of the file's own",
    traits=Traits(activation=True),
)
