"""separate-pads-from-pools: ONNX Runtime is kept from folding a Pad into the pool behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, walk_operators
from ....passes.base import Change, Pass
from ....passes.places import Places

_POOLS = ("AveragePool", "MaxPool")


@dataclass(frozen=True)
class SeparatePadsFromPools(Pass):
    """Keep ONNX Runtime from folding a Pad into the pool behind it.

    What it does:
        Gives a pool without pads behind a Pad `auto_pad="VALID"`, and puts a Max of one operand before any
        other.

    Why:
        ONNX Runtime 1.31 folds a Pad of zeros into the pool's own pads, which a maximum takes for less than
        any number, and refuses pads that are not smaller than the window. It folds into no pool with
        `auto_pad`, and into none behind another operator.

    Leaves alone:
        Pools behind anything else.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4,8]
        ...   %0 = const [0, 0, 1, 0, 0, 1] : i64[6]
        ...   %1 = Pad(%x, %0) : f32[N,4,10]
        ...   %y = MaxPool(%1) {kernel_shape=[2], strides=[2]} : f32[N,4,5]
        ...   return "y" = %y
        ... }''')
        >>> for change in SeparatePadsFromPools().run(graph):
        ...     print(change)
        OX102 stays apart from the Pad before it - at `MaxPool`
    """

    name: ClassVar[str] = "separate-pads-from-pools"
    codes: ClassVar[dict[str, str]] = {"OX102": "a pool stays apart from the Pad before it"}

    def run(self, graph: Graph) -> list[Change]:
        """Separate; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        for part, pool in [(p, o) for p, o in walk_operators(graph) if o.qualified_name in _POOLS]:
            (data, *_) = part.operands(pool.key)
            pad = None if data is None else part.producer(data)
            if data is None or not isinstance(pad, Operator) or pad.qualified_name != "Pad":
                continue
            if any(pool.ints("pads")) or pool.int("ceil_mode"):
                apart = Builder(part, call=pool.call, location=pool.location).op("Max", data)
                part.set_operand(pool.key, 0, apart)
            elif pool.str("auto_pad") == "VALID":
                continue
            else:
                pool.attributes.pop("pads", None)
                pool.attributes["auto_pad"] = "VALID"
            changes.append(Change("OX102", "stays apart from the Pad before it", places.of(part, pool.key)))
        return changes
