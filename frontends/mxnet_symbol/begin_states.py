"""Zeros of a batch that nothing states, ``(0, H)``: recurrent cells that are written out start from them.

MXNet finds their batch backwards, from what they are added to. All their rows are alike, and so are those of
what is computed of them row by row: one row stands for all, until it meets the batch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...ir import UnsupportedError
from .attributes import literal
from .reader import Symbol, SymbolNode

_MEETING = {
    *(f"elemwise_{name}" for name in ("add", "sub", "mul", "div")),
    *(f"broadcast_{name}" for name in ("add", "sub", "mul", "div", "maximum", "minimum")),
    *("add_n", "_maximum", "_minimum"),
}
_BY_ROW = {
    *_MEETING,
    *(
        "Activation",
        "relu",
        "sigmoid",
        "tanh",
        "softsign",
        "LeakyReLU",
        "FullyConnected",
        "_copy",
        "BlockGrad",
    ),
    *("_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar", "square", "clip"),
    *("SliceChannel", "slice_axis", "Dropout"),
}


def with_begin_states(symbol: Symbol, parameters: Collection[int]) -> Symbol:
    """Return the symbol with one row in the place of zeros of an unknown batch.

    Args:
        symbol: the symbol.
        parameters: indices of its variables that are parameters.

    Raises:
        UnsupportedError: E203 where a batch that nothing tells matters.
    """
    rows = {node.index: node for node in symbol.operators() if _is_open(symbol, node)}
    if not rows:
        return symbol
    single = set(rows)
    for node in symbol.operators():
        sources = {index for index, _ in node.inputs if index not in parameters}
        met = sources & single
        if not met:
            continue
        alone = met == sources
        axis = node.attributes.get("axis", "1")
        if node.op not in (_BY_ROW if alone else _MEETING) or axis not in ("1", "-1"):
            raise _refusal(rows, node)
        if alone:
            single.add(node.index)
    ends = [index for index, _ in symbol.heads if index in single]
    if ends:
        raise _refusal(rows, next(node for node in symbol.nodes if node.index == ends[0]))
    nodes = [_as_row(node) if node.index in rows else node for node in symbol.nodes]
    return replace(symbol, nodes=tuple(nodes))


def _refusal(rows: dict[int, SymbolNode], node: SymbolNode) -> UnsupportedError:
    first = next(iter(rows.values()))
    return UnsupportedError(
        "E203",
        f"expected a known batch of `{first.name}`, which `{node.op}` needs, got {first.attributes['shape']}",
        place=node.place,
        hint="give the begin state as an input, or its batch in the symbol",
    )


def _shape(node: SymbolNode) -> list[int]:
    try:
        found = literal(node.attributes.get("shape", "()"))
    except ValueError:
        return []
    sizes = found if isinstance(found, (tuple, list)) else ()
    return [size for size in sizes if isinstance(size, int)]


def _is_open(symbol: Symbol, node: SymbolNode) -> bool:
    """Whether a node gives zeros of two or more axes, of which only the first is open."""
    if node.op not in ("_zeros", "_ones"):
        return False
    shape = _shape(node)
    users = {user.op for user in symbol.operators() if any(index == node.index for index, _ in user.inputs)}
    return len(shape) > 1 and shape[0] == 0 and all(size > 0 for size in shape[1:]) and "RNN" not in users


def _as_row(node: SymbolNode) -> SymbolNode:
    return replace(node, attributes={**node.attributes, "shape": str((1, *_shape(node)[1:]))})
