"""The bodies of `if` and `while` as methods of the class that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ir import Operator, Value
from ..regions import Region
from ..text.expressions import ANY, KEPT, Expression, Part, Use
from .cell_draft import Branches, Method, Statement
from .construct_scope import DraftScope

if TYPE_CHECKING:
    from .cell_builder import Units


def branching(units: Units, operator: Operator, found: list[Region], scope: DraftScope) -> Statement:
    """An `if` or a `while`, with its bodies as methods of the class."""
    draft, turns = scope.draft, operator.op_type == "Loop"
    taken = {n for n, _ in draft.attributes} | {m.name for m in draft.methods}
    suffixes = ("", *map(str, range(2, 1000)))
    suffix = next(s for s in suffixes if not any(r.name + s in taken for r in found))
    bodies: list[tuple[Method, tuple[Part, ...]]] = []
    for region in found:
        given = [v for v in units.contraction.bodies[region.call].inputs if v not in region.state]
        inputs = [*region.state, *given]
        names = [units.input_name(v) for v in inputs]
        method = Method(region.name + suffix, inputs, names, list(region.results))
        bodies.append((method, tuple(scope.part(v, KEPT if turns else ANY) for v in given)))
    draft.methods += [method for method, _ in bodies]
    for region, (method, _) in zip(found, bodies, strict=True):
        units.steps(units.contraction.bodies[region.call], method, scope)
    operands = [v for v in units.graph.operands(operator.key) if v is not None]
    count = len(operator.types)
    state = [scope.tensor(v, 0) for v in operands[1 : 1 + count]] if turns else []
    initial = tuple(Use(part.value, KEPT) if isinstance(part, Use) else part for part in state)
    test = scope.part(operands[0], ANY)
    parts = (test, *initial, *(part for _, given in bodies for part in given))
    branches = Branches(test, tuple(bodies), initial if turns else None)
    targets = [Value(operator.key, i) for i in range(count)]
    return Statement(targets, Expression(parts, outputs=count), branches=branches)
