"""Declares the operators that only Python source has, in a domain of their own."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import InvalidGraphError, Operator, TensorType
from ...ir.declarations import DeclarationTable
from ...ir.dims import broadcast
from ...ir.signatures import AttributeSpec
from ...ir.traits import Traits

DOMAIN = "regraft.source"

TABLE = DeclarationTable(DOMAIN)

IF, WHILE, ENTRY = (f"{DOMAIN}.{name}" for name in ("If", "While", "Entry"))

ARGUMENT, SIZE_TENSOR, INDEX = (f"{DOMAIN}.{name}" for name in ("Argument", "SizeTensor", "Index"))

Types = Sequence[TensorType | None]


def infer_first(operator: Operator, types: Types) -> list[TensorType | None]:  # noqa: ARG001 - a typing rule
    """Infer the type of the first operand."""
    return [types[0]]


def _infer_nothing(operator: Operator, types: Types) -> list[TensorType | None]:  # noqa: ARG001 - a typing rule
    return [None] * len(operator.types)


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


def _of_indices(operator: Operator, types: Types) -> list[TensorType | None]:
    """Infer the type of elements: the indices' common shape stands where the axes did."""
    given, axis = types[0], operator.int("axis")
    shapes = [None if t is None else t.shape for t in types[1:]]
    known = [shape for shape in shapes if shape is not None]
    if given is None or given.shape is None or len(known) != len(shapes):
        return [None]
    return [
        TensorType(given.dtype, (*given.shape[:axis], *broadcast(*known), *given.shape[axis + len(known) :]))
    ]


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


TABLE.add(
    "Argument",
    inputs="X",
    infer=infer_first,
    summary="A value as one argument of a module call, distinct from the call's others; written as the value",
)
TABLE.add(
    "SizeTensor",
    inputs="sizes",
    infer=infer_first,
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
    "Index",
    inputs="X indices*",
    attributes=[AttributeSpec("axis", "int", default=0)],
    infer=_of_indices,
    summary="A subscript of several tensors that broadcast, for the axes from `axis` on: `x[:, i, j]`",
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
