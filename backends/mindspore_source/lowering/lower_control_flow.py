"""If and Loop as Python's `if` and `while`: their nested graphs become calls, to be written as methods.

A flattened operator keeps its place in the flow. What its nested graphs compute is then in the graph around
it, in a call of a module that is registered nowhere (a region), and what they return is among its operands:

    If    condition, what `then_branch` returns, what `else_branch` returns
    Loop  condition, initial state, the body's condition, what the body returns
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir import Capture, Constant, Graph, Input, ModuleTree, Operator, Value

REGION = "(region)"
"""Class of the modules that stand for nested graphs."""


@dataclass(frozen=True, slots=True)
class Region:
    """One nested graph of a flattened operator.

    Attributes:
        name: of the attribute that held it.
        call: its operators' call.
        results: the values that it returns; a Loop's condition first.
        formals: the state that a Loop's body is given.
    """

    name: str
    call: int
    results: tuple[Value, ...]
    formals: tuple[Value, ...] = ()


def flatten(graph: Graph) -> None:
    """Flatten every If, and every Loop that only carries state, nested ones included."""
    modules: dict[tuple[int | None, int, str], int] = {}
    turns: dict[int | None, int] = {}
    waiting = sorted(node.key for node in graph.operators() if node.subgraphs())
    while waiting:
        node = graph.operator(waiting.pop(0))
        if node.op_type == "If" or _carries_only(graph, node):
            turn = turns[node.call] = turns.get(node.call, 0) + 1
            around = None if node.call is None else graph.modules.call(node.call).module
            waiting += _Flattening(graph, node, modules, (around, turn)).run()


def regions(graph: Graph, node: Operator) -> list[Region]:
    """The regions of a flattened operator; none for any other."""
    if node.op_type not in ("If", "Loop") or "calls" not in node.attributes:
        return []
    calls, operands = node.ints("calls"), [v for v in graph.operands(node.key) if v is not None]
    count = len(node.types)
    if node.op_type == "If":
        rows = operands[1 : 1 + count], operands[1 + count :]
        names = ("then_branch", "else_branch")
        return [Region(n, c, tuple(row)) for n, c, row in zip(names, calls, rows, strict=True)]
    formals = tuple(map(Value, node.ints("formals")))
    return [Region("body", calls[0], tuple(operands[1 + count :]), formals)]


def is_region(tree: ModuleTree, module: int) -> bool:
    """Whether a module stands for a nested graph."""
    return tree.module(module).class_name == REGION


def home(tree: ModuleTree, module: int) -> int:
    """The module whose `construct` a region is written for; any other module itself."""
    while is_region(tree, module):
        parent = tree.calls(module)[0].parent
        module = 0 if parent is None else tree.call(parent).module
    return module


def _carries_only(graph: Graph, node: Operator) -> bool:
    """Whether a Loop has a condition and state, but no number of turns and nothing that it collects."""
    operands = graph.operands(node.key)
    body = node.subgraphs().get("body")
    if node.op_type != "Loop" or body is None or operands[0] is not None or operands[1] is None:
        return False
    counted = any(body.users(Value(key)) or body.is_output(Value(key)) for key in body.inputs[:2])
    return not counted and len(node.types) == len(operands) - 2


class _Flattening:
    """Moves the nested graphs of one operator into the graph around it."""

    def __init__(
        self,
        graph: Graph,
        node: Operator,
        modules: dict[tuple[int | None, int, str], int],
        place: tuple[int | None, int],
    ) -> None:
        self._graph, self._node, self._modules, self._place = graph, node, modules, place
        self._tree = graph.modules

    def run(self) -> list[int]:
        """Flatten; returns the operators moved that have nested graphs themselves."""
        graph, node = self._graph, self._node
        nested: list[int] = []
        operands, captured = graph.operands(node.key), graph.captured(node.key)
        bodies = node.subgraphs()
        names = ["then_branch", "else_branch"] if node.op_type == "If" else ["body"]
        formals: list[Value] = []
        if node.op_type == "Loop":
            operands = operands[1:]
            for index, type_ in enumerate(node.types):
                assert type_ is not None
                formals.append(graph.add_input(f"carried_{index}", type_))
            del graph.inputs[len(graph.inputs) - len(formals) :]
        calls: list[int] = []
        for name in names:
            body = bodies[name]
            calls.append(self._call(name))
            given = dict(zip(body.captures, captured, strict=False))
            given |= dict(zip(body.inputs[2:], formals, strict=True)) if formals else {}
            results, inside = self._moved(body, given, calls[-1])
            operands += results
            nested += inside
        for slot, source, _ in graph.flow.operands(node.key):
            graph.flow.remove_edge(source, node.key, key=slot)
        for slot, value in enumerate(operands):
            graph.set_operand(node.key, slot, value)
        node.attributes = {"calls": calls}
        if formals:
            node.attributes["formals"] = [v.node for v in formals]
        return nested

    def _call(self, name: str) -> int:
        key = (*self._place, name)
        if key not in self._modules:
            self._modules[key] = self._tree.add(REGION)
        return self._tree.add_call(self._modules[key], self._node.call)

    def _moved(self, body: Graph, given: dict[int, Value], region: int) -> tuple[list[Value], list[int]]:
        """What a nested graph returns, moved to the graph around it; its operators with nested graphs."""
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
                    self._call_in(inner.call, calls),
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

    def _call_in(self, call: int | None, calls: dict[int | None, int]) -> int:
        """The twin of a call in a region: made by the same modules, from the region on."""
        if call not in calls:
            assert call is not None
            made = self._tree.call(call)
            calls[call] = self._tree.add_call(made.module, self._call_in(made.parent, calls))
        return calls[call]
