"""Runs the twins of an input as one: concatenated on the batch axis, computed once, and split again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...ir import Builder, Dim, Graph, Operator, PassError, TensorType, Value
from ...ir.dims import product
from .copying import add_example, check_names, find_statistics, input_called

_PER_SAMPLE = {
    *("Conv", "ConvTranspose", "GroupNormalization", "InstanceNormalization", "LRN", "DepthToSpace"),
    *("SpaceToDepth", "Identity", "Dropout", "StopGradient", "MakeLoss"),
}
"""Operators that treat each sample alone when the batch is axis 0 of their first operand."""

_NOT_POOLS = {"MaxRoiPool", "RoiAlign"}

_ALONG_AN_AXIS = {
    "Softmax",
    "LogSoftmax",
    "Hardmax",
    "ArgMax",
    "ArgMin",
    "CumSum",
    "Split",
    "Concat",
    "Gather",
}

Axes = Sequence[int | None]
"""The batch axis of each operand; None for one that is no part of the batch."""


class _MixingError(Exception):
    """The reason why an operator cannot be computed on several batches at once."""


def join_twins(graph: Graph, source: str, new: Sequence[str], prefixes: Sequence[str]) -> list[list[str]]:
    """Compute what depends on an input once, for it and new inputs together; returns each one's outputs.

    Raises:
        PassError: for what `make_twin` refuses, and where a sample's result may depend on the others.
    """
    old = input_called(graph, source)
    names = [check_names(graph, source, n, p) for n, p in zip(new, prefixes, strict=True)]
    twice = find_statistics(graph, source)
    if twice:
        raise _refusal(
            f"`{twice[0]}` is normalised by its batch in training, and one batch of all branches is another",
            "leave `strategy=batch` out: each branch then has a batch of its own",
        )
    axes = _trace(graph, old.key)
    parts = {value: graph.type_of(value) for value in axes}
    for value, axis in axes.items():
        type_ = parts[value]
        if value.node != old.key and type_ is not None:
            graph.operator(value.node).types[value.output] = _times(type_, axis, 1 + len(new))
    root = next((call.key for call in graph.modules.calls() if call.parent is None), None)
    builder = Builder(graph, call=root, location=f"{source}_batch")
    inputs = [Value(old.key), *(graph.add_input(name, old.type) for name in new)]
    joined = builder.op("Concat", *inputs, types=[_times(old.type, 0, len(inputs))], axis=0)
    graph.replace_uses(Value(old.key), joined, except_in=[joined.node])
    found: list[list[tuple[str, Value]]] = [[] for _ in new]
    for at, (name, value) in enumerate(list(graph.outputs)):
        if value == joined or value in axes:
            axis = axes.get(value, 0)
            builder.location = name.removesuffix("_output")
            count = len(inputs)
            types = [parts.get(value)] * count
            first, *others = builder.ops(
                "Split", value, outputs=count, types=types, axis=axis, num_outputs=count
            )
            graph.outputs[at] = (name, first)
            for pairs, twins, part in zip(found, names, others, strict=True):
                pairs.append((twins[name], part))
    graph.outputs += [pair for pairs in found for pair in pairs]
    made = [[name for name, _ in pairs] for pairs in found]
    for name, outputs in zip(new, made, strict=True):
        add_example(graph, source, name)
        graph.origin.joined.append((name, source, tuple(outputs)))
    return made


def _refusal(message: str, hint: str = "", place: str = "") -> PassError:
    return PassError(
        "E501", f"expected branches that one batch can compute, but {message}", hint=hint, place=place
    )


def _trace(graph: Graph, source: int) -> dict[Value, int]:
    """Return the batch axis of every value that depends on an input."""
    shape = graph.known_type(Value(source)).shape
    if not shape or shape[0] is None:
        raise _refusal("the input has no batch axis")
    axes = {Value(source): 0}
    dependent = graph.flow.descendants(source)
    for node in graph.operators():
        if node.key not in dependent:
            continue
        operands = graph.operands(node.key)
        held = [None if v is None else axes.get(v) for v in operands]
        try:
            if node.is_random and not node.traits.dropout:
                raise _MixingError("draws numbers for the whole batch")
            axis = _follow(graph, node, held)
        except _MixingError as mixes:
            raise _refusal(
                f"`{node.op_type}` {mixes}",
                "leave `strategy=batch` out: the branches are then computed one by one",
                graph.describe(node.key),
            ) from None
        axes |= {Value(node.key, i): axis for i in range(len(node.types))}
    return axes


def _follow(graph: Graph, node: Operator, held: Axes) -> int:
    """Return the batch axis of an operator's results.

    Raises:
        _MixingError: where a sample's result may depend on other samples.
    """
    given = [i for i, axis in enumerate(held) if axis is not None]
    if graph.captured(node.key) or not given:
        raise _MixingError("is not known to keep samples apart")
    axis = held[0]
    if node.traits.elementwise:
        return _aligned(graph, node, held)
    if node.op_type == "MakeLoss" and node.str("normalization") != "null":
        raise _MixingError("divides its gradient by the batch")
    alone = node.op_type in _PER_SAMPLE or (node.traits.pool and node.op_type not in _NOT_POOLS)
    if alone or node.op_type == "BatchNormalization":
        return _require(given == [0] and axis == 0)
    if node.traits.own_gradient and node.op_type != "MakeLoss":
        raise _MixingError(
            "is the head of a loss, with a label for one branch (`at=` ends the net before it)"
        )
    if node.op_type in _RULES:
        return _RULES[node.op_type](graph, node, held)
    raise _MixingError("is not known to keep samples apart")


def _require(fits: object, axis: int = 0, why: str = "does not keep the batch apart here") -> int:
    if not fits:
        raise _MixingError(why)
    return axis


def _rank(graph: Graph, node: Operator, slot: int = 0) -> int:
    value = graph.operands(node.key)[slot]
    shape = None if value is None else graph.known_type(value).shape
    if shape is None:
        raise _MixingError("has an operand of unknown rank")
    return len(shape)


def _numbers(graph: Graph, node: Operator, slot: int) -> list[int]:
    """Return the integers of a constant operand."""
    operands = graph.operands(node.key)
    array = graph.constant_value(operands[slot]) if slot < len(operands) else None
    if array is None:
        raise _MixingError("has axes or sizes that are computed")
    return [int(n) for n in np.ravel(array)]


def _aligned(graph: Graph, node: Operator, held: Axes) -> int:
    """Elementwise: all of the batch meet at one axis, at which what is no part of it has one size for all."""
    ranks = [0 if v is None else _rank(graph, node, i) for i, v in enumerate(graph.operands(node.key))]
    rank = max(ranks)
    places = {axis + rank - ranks[i] for i, axis in enumerate(held) if axis is not None}
    (place,) = places if len(places) == 1 else (-1,)
    _require(place >= 0)
    for i, value in enumerate(graph.operands(node.key)):
        own = place - rank + ranks[i]
        if value is not None and held[i] is None and own >= 0:
            _require(
                (graph.known_type(value).shape or ())[own] == 1, why="has an operand as large as one batch"
            )
    return place


def _along(graph: Graph, node: Operator, held: Axes) -> int:
    """Softmax and its kind: along another axis than the batch."""
    axis = held[0]
    slots = node.op_type == "CumSum"
    over = _numbers(graph, node, 1)[0] if slots else node.int("axis")
    over %= _rank(graph, node)
    removed = node.op_type in ("ArgMax", "ArgMin") and not node.int("keepdims")
    _require(axis is not None and over != axis, why="works along the batch")
    assert axis is not None
    return axis - (removed and over < axis)


def _reduction(graph: Graph, node: Operator, held: Axes) -> int:
    axis, rank = held[0], _rank(graph, node)
    operands = graph.operands(node.key)
    over = [a % rank for a in _numbers(graph, node, 1)] if len(operands) > 1 and operands[1] else []
    if not over and not node.int("noop_with_empty_axes"):
        over = list(range(rank))
    _require(axis is not None and axis not in over, why="reduces over the batch")
    assert axis is not None
    return axis if node.int("keepdims") else axis - sum(a < axis for a in over)


def _concat(graph: Graph, node: Operator, held: Axes) -> int:
    over = node.int("axis") % _rank(graph, node)
    _require(None not in held, why="has an operand as large as one batch")
    _require(len(set(held)) == 1 and over != held[0], why="works along the batch")
    assert held[0] is not None
    return held[0]


def _gather(graph: Graph, node: Operator, held: Axes) -> int:
    """Return rows of a table by the batch's indices, or entries of each sample by fixed ones."""
    over = node.int("axis") % _rank(graph, node)
    data, indices = held
    if data is None and indices is not None:
        return over + indices
    _require(indices is None and data is not None and over != data, why="works along the batch")
    assert data is not None
    return data if data < over else data + _rank(graph, node, 1) - 1


def _reshape(graph: Graph, node: Operator, held: Axes) -> int:
    """Return a batch that is axis 0, before and behind, and not by a literal size."""
    value = graph.operands(node.key)[0]
    assert value is not None
    before, after = graph.known_type(value).shape, graph.known_type(Value(node.key)).shape
    _require(held[0] == 0 and before and after and before[0] == after[0], why="moves the batch")
    if node.op_type == "Flatten":
        return _require(node.int("axis") == 1, why="moves the batch")
    first = _numbers(graph, node, 1)[:1]
    copied = first == [0] and not node.int("allowzero")
    return _require(copied or first == [-1], why="has the size of the batch in its shape")


def _transpose(graph: Graph, node: Operator, held: Axes) -> int:
    order = node.ints("perm") or list(reversed(range(_rank(graph, node))))
    assert held[0] is not None
    return list(order).index(held[0])


def _squeeze(graph: Graph, node: Operator, held: Axes) -> int:
    rank, axis = _rank(graph, node), held[0]
    gone = [a % rank for a in _numbers(graph, node, 1)]
    _require(axis is not None and axis not in gone, why="takes the batch away")
    assert axis is not None
    return axis - sum(a < axis for a in gone)


def _unsqueeze(graph: Graph, node: Operator, held: Axes) -> int:
    added = _numbers(graph, node, 1)
    rank = _rank(graph, node) + len(added)
    left = [a for a in range(rank) if a not in {n % rank for n in added}]
    assert held[0] is not None
    return left[held[0]]


def _slice(graph: Graph, node: Operator, held: Axes) -> int:
    rank, operands = _rank(graph, node), graph.operands(node.key)
    given = len(operands) > 3 and operands[3] is not None
    over = (
        [a % rank for a in _numbers(graph, node, 3)] if given else list(range(len(_numbers(graph, node, 1))))
    )
    _require(not any(axis is not None for axis in held[1:]), why="has bounds that are computed")
    assert held[0] is not None
    return _require(held[0] not in over, held[0], "cuts the batch")


def _pad(graph: Graph, node: Operator, held: Axes) -> int:
    rank, axis = _rank(graph, node), held[0]
    pads = _numbers(graph, node, 1)
    assert axis is not None
    whole = len(pads) == 2 * rank and not pads[axis] and not pads[axis + rank]
    return _require(whole, axis, "pads the batch")


def _tile(graph: Graph, node: Operator, held: Axes) -> int:
    assert held[0] is not None
    return _require(_numbers(graph, node, 1)[held[0]] == 1, held[0], "repeats the batch")


def _layer_norm(graph: Graph, node: Operator, held: Axes) -> int:
    first = node.int("axis") % _rank(graph, node)
    only = held[0] is not None and not any(a is not None for a in held[1:])
    return _require(only and (held[0] or 0) < first, held[0] or 0, "normalises over the batch")


def _linear(graph: Graph, node: Operator, held: Axes) -> int:
    only = held[0] is not None and not any(a is not None for a in held[1:])
    return _require(only and (held[0] or 0) < _rank(graph, node) - 1, held[0] or 0)


def _matmul(graph: Graph, node: Operator, held: Axes) -> int:
    """Return rows of the batch times a matrix, or two stacks of matrices of one batch."""
    left, right = held
    if left is None or right is not None:
        ranks = {_rank(graph, node, 0), _rank(graph, node, 1)}
        _require(left is not None and left == right and len(ranks) == 1 and left < min(ranks) - 2)
    else:
        _require(_rank(graph, node, 1) == 2 and left < _rank(graph, node) - 1)
    assert left is not None
    return left


_RULES: dict[str, Callable[[Graph, Operator, Axes], int]] = {
    **dict.fromkeys(_ALONG_AN_AXIS, _along),
    **{
        f"Reduce{n}": _reduction
        for n in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum")
    },
    "ReduceSumSquare": _reduction,
    "Concat": _concat,
    "Gather": _gather,
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Pad": _pad,
    "Tile": _tile,
    "LayerNormalization": _layer_norm,
    "Linear": _linear,
    "MatMul": _matmul,
}


def _times(type_: TensorType, axis: int, times: int) -> TensorType:
    """Return the type with its batch multiplied."""
    shape: list[Dim] = list(type_.shape or ())
    shape[axis : axis + 1] = [product([dim, times]) for dim in shape[axis : axis + 1]]
    return type_ if type_.shape is None else type_.with_shape(tuple(shape))
