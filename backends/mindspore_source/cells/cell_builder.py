"""From modules to units of source: a layer of MindSpore's, a container, or an instance of a class of ours."""

from __future__ import annotations

from itertools import pairwise

from ....ir import BackendError, Constant, Graph, Module, Operator, Parameter, Value
from ..classes.factories import Factories
from ..emitters import emit_call, emit_layer
from ..emitters.initializers import law_of, own_parameter
from ..emitting import Layer, Refused, State, View
from ..naming import attribute_name
from ..regions import is_region, regions
from ..text.expressions import Argument, Call, Expression, Part
from .cell_draft import Draft, Method, Statement, Unit
from .construct_scope import DraftScope
from .contraction import Body, Contraction
from .control_flow_methods import branching

_PLAIN_CONTAINERS = ("Sequential", "SequentialCell", "HybridSequential")


class Units:
    """The units of a graph, each built after those of the modules that it contains and calls."""

    def __init__(self, graph: Graph, contraction: Contraction, *, explicit: bool = False) -> None:
        self.graph, self.tree, self.contraction = graph, graph.modules, contraction
        self.explicit = explicit
        self.units: dict[int, Unit] = {}
        self.bodies: dict[int, Body] = {}
        for body in contraction.bodies.values():
            self.bodies.setdefault(body.module, body)
        self.paths = {m.key: self.tree.path(m.key) for m in self.tree}
        self.position = {key: at for at, key in enumerate(self._walk())}
        self.declared = self._declared()
        self.renamed_modules: dict[str, str] = {}
        layers = {key: self._layer(self.tree.module(key)) for key in self.position}
        self.factories = Factories(
            (self._place(key), unit.constructor) for key, unit in layers.items() if unit
        )

    def _walk(self) -> list[int]:
        """Emitted modules in the order in which MindSpore will walk the emitted cells."""
        out: list[int] = []
        stack = [0]
        while stack:
            key = stack.pop()
            out.append(key)
            stack.extend(reversed([c for _, c in self.children(key)]))
        return out

    def registered(self, key: int) -> dict[str, int]:
        """Name -> child of a module, regions left out."""
        children = self.tree.module(key).children
        return {name: child for name, child in children.items() if not is_region(self.tree, child)}

    def children(self, key: int) -> list[tuple[str, int]]:
        """(name, child) of the children emitted in this module: used, and canonical here."""
        above = self.paths[key]
        return [
            (name, child)
            for name, child in self.registered(key).items()
            if child in self.contraction.used and self.paths[child] == (f"{above}.{name}" if above else name)
        ]

    def _declared(self) -> dict[int, list[int]]:
        """Parameter key -> modules that declare it, in walking order; the others are tied to the first."""
        found: dict[int, set[int]] = {}
        for body in self.contraction.bodies.values():
            read: list[Value | None] = list(body.outputs)
            for kind, key in body.items:
                read += self.graph.operands(key) if kind == "op" else self.contraction.bodies[key].inputs
            for value in read:
                if value is not None and isinstance(self.graph.node(value.node), Parameter):
                    holder = self.contraction.holder(body.module, value.node)
                    if holder is not None:
                        found.setdefault(value.node, set()).add(holder)
        return {
            p: sorted(ms, key=lambda m: self.position.get(m, len(self.position))) for p, ms in found.items()
        }

    def _place(self, key: int) -> tuple[str, str]:
        """Where a module is written: the class of the nearest module that has one, and the path in it."""
        path = ""
        for above in self._above(key)[1:]:
            path = self.paths[key].removeprefix(self.paths[above])
            if self.tree.module(above).container is None:
                return self.tree.module(above).class_name, path
        return "", self.paths[key]

    # -- one module ------------------------------------------------------------------------------

    def build(self, key: int) -> Unit:
        """Make the unit of a module whose children have theirs."""
        module = self.tree.module(key)
        unit = self._layer(module) or self._container(module) or self._class(module)
        if unit.constructor is not None:
            unit.constructor = self.factories.applied(unit.constructor)
        self.units[key] = unit
        return unit

    def _layer(self, module: Module) -> Unit | None:
        body = self.bodies.get(module.key)
        if (
            module.key == 0
            or body is None
            or len(body.items) != 1
            or body.items[0][0] != "op"
            or self.children(module.key)
        ):
            return None
        operator = self.graph.operator(body.items[0][1])
        layer = self._try_layer(operator, Draft(module.key, "", "", ""))
        if layer is None or not self._owns(module, operator, layer):
            return None
        operands = self.graph.operands(operator.key)
        given = [operands[s] for s in layer.slots]
        if {v for v in given if v and not isinstance(self.graph.node(v.node), Constant)} != set(body.inputs):
            return None
        unit = Unit(module.key, layer.constructor, extra=list(layer.extra), layer=layer)
        for state in layer.state:
            value = operands[state.slot]
            assert value is not None
            unit.state[value.node] = state
        return unit

    def _try_layer(self, operator: Operator, draft: Draft) -> Layer | None:
        try:
            return emit_layer(View(self.graph, operator, DraftScope(self, draft)))
        except Refused:
            return None

    def _owns(self, module: Module, operator: Operator, layer: Layer) -> bool:
        held = set(module.parameters.values())
        operands = self.graph.operands(operator.key)
        state = [v.node for s in layer.state if (v := operands[s.slot])]
        others = [v for slot, v in enumerate(operands) if slot not in layer.slots]
        used = {v.node for v in others if v and isinstance(self.graph.node(v.node), Parameter)}
        return set(state) <= held and used <= set(state) and len(set(state)) == len(state)

    def _container(self, module: Module) -> Unit | None:
        if module.container not in ("sequential", "list") or self._is_chain_of_its_own(module):
            return None
        body = self.bodies.get(module.key)
        names = list(self.registered(module.key))
        ordinal = names == [str(i) for i in range(len(names))]
        if module.parameters and any(module.key in ms for ms in self.declared.values()):
            return None
        if body is not None and not (module.container == "sequential" and self._is_chain(module, body)):
            return None
        if body is None and not ordinal:
            return None
        emitted = set(self.children(module.key))
        last = max(
            (i for i, c in enumerate(self.registered(module.key).values()) if c in self.contraction.used),
            default=-1,
        )
        unit, renamed = Unit(module.key, is_sequence=True), dict[str, str]()
        parts: dict[str, Part] = {}
        for name, child in list(self.registered(module.key).items())[: last + 1]:
            known = self.units.get(child)
            attribute = name if ordinal else attribute_name(name, parts)
            parts[attribute] = Call("nn.Identity", ())
            if (name, child) in emitted:
                assert known is not None
                assert known.constructor is not None
                unit.children[child] = f"[{name}]" if ordinal else f".{attribute}"
                parts[attribute] = known.constructor
            elif child in self.contraction.used:
                return None
            if attribute != name:
                renamed[self.paths[child]] = attribute
        unit.length = len(parts)
        values = tuple(Argument("", part) for part in parts.values())
        if body is None:
            unit.constructor = Call("nn.CellList", (Argument("", Call("[]", values)),))
        elif ordinal:
            unit.constructor = Call("nn.SequentialCell", values)
        else:
            pairs = Call("OrderedDict", tuple(Argument(name, part) for name, part in parts.items()))
            unit.constructor = Call("nn.SequentialCell", (Argument("", Expression((pairs,))),))
        self.renamed_modules.update(renamed)
        return unit

    def _is_chain_of_its_own(self, module: Module) -> bool:
        """Whether a container is the whole net, or of a class that its author derived and named."""
        named = module.container == "sequential" and module.class_name not in _PLAIN_CONTAINERS
        names = list(self.registered(module.key))
        ordinal = bool(names) and names == [str(i) for i in range(len(names))]
        body = self.bodies.get(module.key)
        return module.key == 0 or (named and ordinal and body is not None and self._is_chain(module, body))

    def _is_chain(self, module: Module, body: Body) -> bool:
        """Whether the body is the children in order, each given what the one before returned."""
        if len(body.inputs) != 1 or len(body.outputs) != 1:
            return False
        at, order = body.inputs[0], []
        for kind, key in body.items:
            if kind != "call":
                return False
            inner = self.contraction.bodies[key]
            layer = self.units[inner.module].layer if inner.module in self.units else None
            if inner.inputs != [at] or len(inner.outputs) != 1 or (layer and (layer.results or layer.pick)):
                return False
            at = inner.outputs[0]
            order.append(inner.module)
        expected = [
            c
            for c in self.registered(module.key).values()
            if c in self.contraction.used and self.tree.calls(c)
        ]
        return at == body.outputs[0] and order == expected

    def _class(self, module: Module) -> Unit:
        unit = Unit(module.key)
        names = list(self.registered(module.key))
        ordinal = bool(names) and names == [str(i) for i in range(len(names))]
        body = self.bodies.get(module.key)
        chain = ordinal and module.container == "sequential"
        chain = chain and body is not None and self._is_chain(module, body)
        listed = ordinal and (chain or body is None)  # graph mode does not call a CellList
        base = "nn.SequentialCell" if chain else "nn.CellList" if listed else "nn.Cell"
        draft = unit.draft = Draft(module.key, module.class_name, base, self.paths[module.key])
        scope = DraftScope(self, draft)
        taken: set[str] = set()
        for name, parameter in module.parameters.items():
            if module.key in self.declared.get(parameter, ()):
                attribute = attribute_name(name, taken)
                taken.add(attribute)
                unit.state[parameter] = State(-1, attribute)
                draft.attributes.append(
                    (attribute, own_parameter(self.graph.parameter(parameter), attribute))
                )
                node = self.graph.parameter(parameter)
                if not node.is_buffer and law_of(node) is None:
                    draft.unknown.add(attribute)
        self._adopt_children(module, unit, draft, taken, listed)
        self.units[module.key] = unit  # its own paths are needed from here on
        self._ties(module, draft)
        if body is not None and not chain:
            draft.has_body = True
            draft.inputs, draft.outputs = list(body.inputs), list(body.outputs)
            draft.input_names = self._input_names(module.key)
            self.steps(body, draft, scope)
        return unit

    def steps(self, body: Body, into: Draft | Method, scope: DraftScope) -> None:
        """The statements of a body, and those that make tensors of what it returns of constants and state."""
        for item in body.items:
            self._statement(item, into, scope)
        for value in dict.fromkeys(into.outputs):
            if isinstance(self.graph.node(value.node), (Constant, Parameter)):
                part = scope.tensor(value, 0)
                into.statements.append(Statement([value], Expression((part,), outputs=2)))

    def _input_names(self, module: int) -> list[str]:
        """The graph inputs that a module is given, by name, where every call of it is given the same."""
        bodies = [b for b in self.contraction.bodies.values() if b.module == module]
        names = zip(*([self.input_name(v) for v in b.inputs] for b in bodies), strict=False)
        return [found[0] if len(set(found)) == 1 else "" for found in names]

    def input_name(self, value: Value) -> str:
        """The name of an input of the graph; empty for any other value."""
        node = self.graph.node(value.node)
        return getattr(node, "name", "") if node.key in self.graph.inputs else ""

    def _adopt_children(
        self, module: Module, unit: Unit, draft: Draft, taken: set[str], listed: bool
    ) -> None:
        emitted = dict(self.children(module.key))
        if listed:
            last = max((int(n) for n in emitted), default=-1)
            parts: list[Part] = []
            for name in list(self.registered(module.key))[: last + 1]:
                child = emitted.get(name)
                if child is None:
                    parts.append(Call("nn.Identity", ()))
                    continue
                found = self.units[child].constructor
                assert found is not None
                unit.children[child] = f"[{len(parts)}]"
                parts.append(found)
            draft.attributes.append(("", Call("[]", tuple(Argument("", p) for p in parts))))
            return
        for name, child in emitted.items():
            attribute = attribute_name(f"layer{name}" if name.isdigit() else name, taken)
            taken.add(attribute)
            if attribute != name:
                self.renamed_modules[self.paths[child]] = attribute
            constructor = self.units[child].constructor
            assert constructor is not None
            unit.children[child] = f".{attribute}"
            draft.attributes.append((attribute, constructor))

    def _ties(self, module: Module, draft: Draft) -> None:
        """Assignments that make one parameter of several, for pairs that meet in this module's class."""
        for parameter, holders in self.declared.items():
            for other in holders[1:]:
                if self._meeting(holders[0], other) == module.key:
                    self._require_assignable(parameter, holders[0], other)
                    left, right = (
                        self.parameter_path(module.key, parameter, at) for at in (other, holders[0])
                    )
                    draft.assignments.append((f"self{left}", f"self{right}"))

    def _require_assignable(self, parameter: int, *holders: int) -> None:
        """Refuse to tie single parameters of a recurrent stack, which runs on lists of its own."""
        layers = [self.units[h].layer for h in holders]
        if any(layer is not None and not layer.assignable for layer in layers):
            raise BackendError(
                "E602",
                "expected recurrent stacks with parameters of their own, got one that is shared",
                place=self.graph.parameter(parameter).name,
                hint="MindSpore can share a whole nn.LSTM, nn.GRU or nn.RNN, or single parameters of cells",
            )

    def _meeting(self, a: int, b: int) -> int:
        """The innermost module with a class of its own that contains both."""
        above_a, above_b = self._above(a), self._above(b)
        for key in above_a:
            if key in above_b and not (key in self.units and self.units[key].is_sequence):
                return key
        return 0

    def _above(self, key: int) -> list[int]:
        out = [key]
        owner = {child: k for k in self.position for _, child in self.children(k)}
        while out[-1] in owner:
            out.append(owner[out[-1]])
        return out

    # -- paths -----------------------------------------------------------------------------------

    def module_path(self, start: int, target: int) -> str:
        """How `start` writes a module below it: ``.layer1[0].conv1``."""
        chain = self._above(target)
        chain = chain[: chain.index(start) + 1]
        steps = reversed(list(pairwise(chain)))
        return "".join(self.units[up].children[down] for down, up in steps)

    def parameter_path(self, start: int, parameter: int, holder: int | None = None) -> str:
        """How `start` writes a parameter: ``.embed.embedding_table``."""
        holder = self.contraction.holder(start, parameter) if holder is None else holder
        assert holder is not None
        path = "" if holder == start else self.module_path(start, holder)
        return f"{path}.{self.units[holder].state[parameter].name}"

    # -- statements ------------------------------------------------------------------------------

    def _statement(self, item: tuple[str, int], into: Draft | Method, scope: DraftScope) -> None:
        kind, key = item
        draft = scope.draft
        if kind == "call" and key in self.contraction.returned:
            return  # a method, which its If or Loop calls
        if kind == "call":
            body = self.contraction.bodies[key]
            path = self.module_path(draft.module, body.module)
            attribute, layer = path.rpartition(".")[2], self.units[body.module].layer
            if layer is not None:
                operands = self.graph.operands(body.items[0][1])
                step = scope.layer_step(f"self{path}", layer, operands, body.outputs, attribute)
                into.statements.append(step)
                return
            call = Call(f"self{path}", tuple(Argument("", scope.part(v, 0)) for v in body.inputs))
            into.statements.append(Statement(list(body.outputs), Expression((call,)), attribute))
            return
        operator = self.graph.operator(key)
        found = regions(self.graph, operator)
        if found:
            into.statements.append(branching(self, operator, found, scope))
            return
        view = View(self.graph, operator, scope)
        targets = [Value(key, i) for i in range(view.used_outputs())]
        try:
            expression = emit_call(view)
        except Refused:
            path, layer = self._promoted(operator, draft, scope)
            into.statements.append(scope.layer_step(path, layer, view.operands, targets))
            return
        if expression.host:
            scope.hosts[targets[0]] = expression.host
        into.statements.append(Statement(targets, expression))

    def _promoted(self, operator: Operator, draft: Draft, scope: DraftScope) -> tuple[str, Layer]:
        """An operator that MindSpore has only as a layer, as an auxiliary attribute; its path."""
        layer = self._try_layer(operator, draft)
        module = self.tree.module(draft.module)
        if layer is None or not self._owns(module, operator, layer):
            raise BackendError(
                "E602",
                f"MindSpore has `{operator.op_type}` only as a layer that owns its parameters",
                place=self.graph.describe(operator.key),
            )
        name = operator.op_type.lower()
        path = scope.attribute(name, layer.constructor)
        operands = self.graph.operands(operator.key)
        for state in layer.state:
            value = operands[state.slot]
            assert value is not None
            held = self.units[draft.module].state.get(value.node)
            if held is not None:
                draft.attributes = [(n, p) for n, p in draft.attributes if n != held.name]
            self.units[draft.module].state[value.node] = State(
                state.slot, f"{path.removeprefix('self.')}.{state.name}", state.transform, state.shape
            )
        prefix = path.removeprefix("self.")
        self.units[draft.module].extra += [
            (f"{prefix}.{n}", fill, size, dtype) for n, fill, size, dtype in layer.extra
        ]
        return path, layer


__all__ = ["Draft", "Statement", "Unit", "Units"]
