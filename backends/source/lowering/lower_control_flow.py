"""lower-control-flow: If and Loop become `if` and `while` of Python, their nested graphs regions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import (
    Builder,
    Capture,
    Constant,
    Graph,
    Input,
    Operator,
    TensorType,
    Value,
    expand,
    walk_operators,
)
from ....passes.base import Change, Pass
from ..operators import ENTRY, IF, WHILE
from ..regions import add_region


@dataclass(frozen=True)
class LowerControlFlow(Pass):
    """Move nested graphs into the graph around them.

    What it does:
        Makes of every If, and of every Loop that only carries state, an operator of Python source. What
        its nested graphs compute is then in the graph around it, in a call of a module of kind `region`,
        and what they return is among its operands. An Entry in that call is what the region is entered
        with. Nested ones included. A composite that runs a Loop is written out first.

    Why:
        A region is written as a method of the class around it, or as the expression that it is. Parameters
        and modules are then reached from it as from everywhere else in the class.

    Leaves alone:
        A Loop that counts its iterations or collects results, where `count-iterations` left it.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   %c = input "c" : bool[]
        ...   %x = input "x" : f32[4]
        ...   %y = If(%c) captures (%x) : f32[4] @ "#1" with
        ...     else_branch =
        ...     graph else_branch {
        ...       %x = capture 0 : f32[4]
        ...       %y = Neg(%x) : f32[4]
        ...       return "y" = %y
        ...     }
        ...     then_branch =
        ...     graph then_branch {
        ...       %x = capture 0 : f32[4]
        ...       %y = Relu(%x) : f32[4]
        ...       return "y" = %y
        ...     }
        ...   end
        ...   return "y" = %y
        ... }''')
        >>> for change in LowerControlFlow().run(graph):
        ...     print(change)
        MS101 its nested graphs are regions of the graph around it - at `If`
    """

    name: ClassVar[str] = "lower-control-flow"
    codes: ClassVar[dict[str, str]] = {"MS101": "an If or a Loop is written as Python's `if` or `while`"}

    def run(self, graph: Graph) -> list[Change]:
        """Flatten; see the class."""
        modules: dict[tuple[int, int, str], int] = {}
        turns: dict[int | None, int] = {}
        changes: list[Change] = []
        for part, node in list(walk_operators(graph)):
            if node.traits.loops:
                expand(Builder(part), node.key)
        waiting = sorted(node.key for node in graph.operators() if node.subgraphs())
        while waiting:
            node = graph.operator(waiting.pop(0))
            if node.op_type == "If" or _carries_only(graph, node):
                text = "its nested graphs are regions of the graph around it"
                place = f"`{node.op_type}`" + (f" ({node.location})" if node.location else "")
                changes.append(Change("MS101", text, place))
                turn = turns[node.call] = turns.get(node.call, 0) + 1
                waiting += _Flattening(graph, node, modules, turn).run()
        return changes


def _carries_only(graph: Graph, node: Operator) -> bool:
    """Whether a Loop has a condition and state, but no number of turns and nothing that it collects."""
    operands = graph.operands(node.key)
    body = node.subgraphs().get("body")
    if node.op_type != "Loop" or body is None or operands[0] is not None or operands[1] is None:
        return False
    counted = any(body.is_read(Value(key)) for key in body.inputs[:2])
    return not counted and len(node.types) == len(operands) - 2


class _Flattening:
    """Moves the nested graphs of one operator into the graph around it.

    Args:
        graph: the graph around it.
        node: the operator.
        modules: (module around, number of the operator in its call, nested graph) -> its region's module.
        turn: the operator's number in its call.
    """

    def __init__(
        self, graph: Graph, node: Operator, modules: dict[tuple[int, int, str], int], turn: int
    ) -> None:
        self._graph, self._node, self._modules, self._turn = graph, node, modules, turn
        self._tree = graph.modules

    def run(self) -> list[int]:
        """Flatten; returns the operators moved that have nested graphs themselves."""
        graph, node = self._graph, self._node
        operands, captured = graph.operands(node.key), graph.captured(node.key)
        bodies = node.subgraphs()
        is_if = node.op_type == "If"
        entered: list[Value] = []
        results: list[Value] = []
        nested: list[int] = []
        for name in ("then_branch", "else_branch") if is_if else ("body",):
            call, body = self._call(name), bodies[name]
            entry, *state = self._entry(call, [] if is_if else node.types)
            entered.append(entry)
            given = dict(zip(body.captures, captured, strict=False))
            given |= dict(zip(body.inputs[2:], state, strict=True))
            returned, inside = self._move_body(body, given, call)
            results += returned
            nested += inside
        for slot, source, _ in graph.flow.operands(node.key):
            graph.flow.remove_edge(source, node.key, key=slot)
        kept = operands if is_if else operands[1:]
        for slot, value in enumerate([kept[0], *entered, *kept[1:], *results]):
            graph.set_operand(node.key, slot, value)
        node.domain, _, node.op_type = (IF if is_if else WHILE).rpartition(".")
        node.attributes = {}
        return nested

    def _entry(self, call: int, state: list[TensorType | None]) -> list[Value]:
        builder = Builder(self._graph, call=call, location=self._node.location)
        return builder.ops(ENTRY, outputs=1 + len(state), types=[TensorType("bool", ()), *state])

    def _call(self, name: str) -> int:
        around = self._node.call
        assert around is not None
        module = self._tree.call(around).module
        key = (module, self._turn, name)
        if key not in self._modules:
            self._modules[key] = add_region(self._tree, module, name)
        return self._tree.add_call(self._modules[key], around)

    def _move_body(self, body: Graph, given: dict[int, Value], region: int) -> tuple[list[Value], list[int]]:
        """Move a nested graph into the graph around; returns its results and operators with nested graphs."""
        graph = self._graph
        calls: dict[int | None, int] = dict.fromkeys([None, *self._tree.ancestors(self._node.call)], region)
        values: dict[Value, Value] = {Value(key): value for key, value in given.items()}
        nested: list[int] = []

        def at(value: Value | None) -> Value | None:
            return None if value is None else values[value]

        for key in body.order():
            inner = body.node(key)
            if isinstance(inner, Constant):
                values[Value(key)] = graph.add_constant(inner.data)
            elif isinstance(inner, Operator):
                twin = Operator(
                    inner.op_type,
                    inner.domain,
                    inner.attributes,
                    inner.types,
                    self._copy_call(inner.call, calls),
                    inner.location,
                    inner.hint,
                )
                operands = [at(v) for v in body.operands(key)]
                captured = [values[v] for v in body.captured(key)]
                for index, value in enumerate(graph.add_operator(twin, operands, captured)):
                    values[Value(key, index)] = value
                nested += [twin.key] if twin.subgraphs() else []
            else:
                assert isinstance(inner, (Input, Capture)), inner
        return [values[value] for _, value in body.outputs], nested

    def _copy_call(self, call: int | None, calls: dict[int | None, int]) -> int:
        """Return the copy of a call in a region, made with its callers up to the region where needed."""
        if call not in calls:
            assert call is not None
            made = self._tree.call(call)
            calls[call] = self._tree.add_call(made.module, self._copy_call(made.parent, calls))
        return calls[call]
