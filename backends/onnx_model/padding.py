"""Pads in a form that ONNX Runtime's own rewriting does not change the meaning of."""

from __future__ import annotations

from ...ir import Builder, Graph, Operator, walk_operators


def name_every_axis(graph: Graph) -> None:
    """Give each Pad with constant pads of named axes pads of all axes, nested graphs included.

    ONNX Runtime 1.31 moves transposes past a Pad as if there were no `axes` (its transpose optimizer): the
    session then fails, or pads other axes.
    """
    for part, pad in [(p, o) for p, o in walk_operators(graph) if o.op_type == "Pad" and not o.domain]:
        data, amounts, *rest = part.operands(pad.key)
        axes = rest[1] if len(rest) > 1 else None
        given, named = part.constant_value(amounts), part.constant_value(axes)
        known = None if data is None else part.type_of(data)
        rank = None if known is None else known.rank
        if given is None or named is None or rank is None:
            continue
        pads = [0] * (2 * rank)
        for at, axis in enumerate(named.tolist()):
            pads[axis % rank], pads[axis % rank + rank] = int(given[at]), int(given[at + len(named)])
        part.set_operand(pad.key, 1, Builder(part).constant(pads, "int64"))
        part.set_operand(pad.key, 3, None)


def keep_pads_of_numbers(graph: Graph) -> None:
    """Write the pools behind a Pad with a number so that ONNX Runtime does not make one of the two.

    ONNX Runtime 1.31 makes the amounts of a Pad with zeros the pool's own pads, which are less than any
    number to a maximum, and refuses those that are not smaller than the window. It leaves pools with
    `auto_pad` alone, and those behind another operator.
    """
    for part, pool in [(p, o) for p, o in walk_operators(graph) if o.op_type in _POOLS and not o.domain]:
        (data, *_) = part.operands(pool.key)
        pad = None if data is None else part.producer(data)
        if data is None or not isinstance(pad, Operator) or pad.domain or pad.op_type != "Pad":
            continue
        if not any(pool.ints("pads")) and not pool.int("ceil_mode"):
            pool.attributes.pop("pads", None)
            pool.attributes["auto_pad"] = "VALID"
            continue
        apart = Builder(part, call=pool.call, location=pool.location).op("Max", data)
        part.set_operand(pool.key, 0, apart)


_POOLS = ("AveragePool", "MaxPool")
