"""Reads the text form back: `parse` is the exact inverse of `render`."""

from __future__ import annotations

from ..errors import TextFormError
from ..graph import Graph
from ..initializers import Initializer
from ..modules import CONTAINERS, ModuleTree
from ..nodes import Operator, Parameter, Value
from ..tensors import TensorData
from ..types import TensorType
from .lines import Line


def parse(text: str) -> Graph:
    """Read a graph from its text form.

    Parameters and long constants come back with a type and no data.

    Raises:
        TextFormError: naming the line.
    """
    try:
        return _Parser(text).root()
    except RecursionError:
        raise TextFormError("E401", "expected a graph, got lists or graphs nested too deep") from None


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = [Line(line, number) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        self.at = 0
        self.calls: dict[str, int] = {}

    def root(self) -> Graph:
        graph = self.graph(ModuleTree(), nested=False)
        if self.at != len(self.lines):
            raise self.lines[self.at].fail("expected the end of the text")
        return graph

    def next(self) -> Line:
        if self.at >= len(self.lines):
            raise TextFormError("E401", "expected `}`, got the end of the text")
        line = self.lines[self.at]
        self.at += 1
        return line

    def graph(self, modules: ModuleTree, *, nested: bool) -> Graph:
        line = self.next()
        line.take("graph")
        graph = Graph(line.take(), modules)
        line.take("{")
        line.end()
        values: dict[str, int] = {}
        module_lines: list[Line] = []
        while not nested and self.at < len(self.lines) and self.lines[self.at].peek() == "module":
            module_lines.append(self.next())
        held = self.modules(module_lines, modules) if module_lines else []
        while True:
            line = self.next()
            if line.accept("}"):
                line.end()
                break
            if line.peek() == "return":
                line.take()
                name = line.string()
                line.take("=")
                graph.outputs.append((name, self.value(line, values)))
            elif line.peek() == "update":
                line.take()
                parameter = self.value(line, values).node
                line.take("=")
                graph.updates[parameter] = self.value(line, values)
            else:
                self.definition(line, graph, values)
            line.end()
        for module, name, ref, where in held:
            if ref not in values:
                raise where.fail(f"expected a parameter, got `%{ref}`, which is not defined")
            modules.module(module).parameters[name] = values[ref]
        return graph

    # -- modules -------------------------------------------------------------------------------

    def modules(self, lines: list[Line], tree: ModuleTree) -> list[tuple[int, str, str, Line]]:
        """Build the tree; returns (module, attribute, value name, line) of every parameter held."""
        held: list[tuple[int, str, str, Line]] = []
        by_path: dict[str, int] = {}
        aliases: list[tuple[str, str, Line]] = []
        called: list[tuple[int, list[str | None] | None]] = []
        registrations: list[tuple[str, str | int, Line]] = []
        for line in lines:
            line.take("module")
            path = line.string()
            if path in by_path or (not by_path and path):
                raise line.fail("expected the root module first, and each path once")
            if line.accept("="):
                target = line.string()
                aliases.append((path, target, line))
                registrations.append((path, target, line))
                line.end()
                continue
            class_name = line.take_kind("word")
            namesake = line.accept("namesake")
            container = None
            if line.accept("["):
                container = line.take(*sorted(CONTAINERS))
                line.take("]")
            key = tree.add(class_name, container=container, namesake=namesake)
            by_path[path] = key
            if path:
                registrations.append((path, key, line))
            if line.accept("{"):
                for name, ref in line.listing("}", lambda line=line: self.read_held(line)):
                    held.append((key, name, ref, line))
            parents: list[str | None] | None = None
            if line.accept("never"):
                line.take("called")
                parents = []
                if line.accept("but"):
                    line.take("in")
                    line.take("training")
                    tree.module(key).in_training = True
            elif line.accept("called"):
                line.take("from")
                line.take("[")
                parents = line.listing("]", lambda line=line: None if line.accept("_") else line.string())
            called.append((key, parents))
            line.end()
        self.register(registrations, by_path, tree)
        self.make_calls(called, {k: p for p, k in by_path.items()}, by_path, tree)
        return held

    @staticmethod
    def read_held(line: Line) -> tuple[str, str]:
        name = line.take()
        line.take("=")
        return name, line.take_kind("value")[1:]

    @staticmethod
    def register(
        registrations: list[tuple[str, str | int, Line]], by_path: dict[str, int], tree: ModuleTree
    ) -> None:
        """Register children in the order of their lines; a parent may itself be known by an alias."""
        known = dict(by_path)
        for path, target, line in registrations:
            if isinstance(target, str):
                if target not in by_path:
                    raise line.fail(f"expected the path of a module, got `{target}`")
                known[path] = by_path[target]
        for path, target, line in registrations:
            above, _, name = path.rpartition(".")
            parent = known.get(above)
            if parent is None:
                found = tree.find(above)
                if found is None:
                    raise line.fail(f"expected a module at `{above}`, got none")
                parent = found.key
            tree.register(parent, name, target if isinstance(target, int) else by_path[target])

    def make_calls(
        self,
        called: list[tuple[int, list[str | None] | None]],
        path_of: dict[int, str],
        by_path: dict[str, int],
        tree: ModuleTree,
    ) -> None:
        """Make the calls, parents before the calls made in them."""
        pending: list[tuple[str, int, str | None]] = []
        for key, parents in called:
            path = path_of[key]
            if parents is None:
                above = path.rpartition(".")[0]
                parents = [f"{above}#1" if path and by_path.get(above) in self._parse_calls(called) else None]
            pending += [(f"{path}#{i}", key, parent) for i, parent in enumerate(parents, 1)]
        while pending:
            ready = [p for p in pending if p[2] is None or p[2] in self.calls]
            if not ready:
                raise TextFormError("E401", f"calls without a parent: {', '.join(p[0] for p in pending)}")
            for name, key, parent in ready:
                self.calls[name] = tree.add_call(key, None if parent is None else self.calls[parent])
            pending = [p for p in pending if p not in ready]

    @staticmethod
    def _parse_calls(called: list[tuple[int, list[str | None] | None]]) -> set[int]:
        return {key for key, parents in called if parents is None or parents}

    # -- nodes ---------------------------------------------------------------------------------

    @staticmethod
    def value(line: Line, values: dict[str, int]) -> Value:
        token = line.take_kind("value")
        name, _, output = token[1:].partition(":")
        if name not in values:
            raise line.fail(f"expected a value defined above, got `%{name}`")
        return Value(values[name], int(output or 0))

    def definition(self, line: Line, graph: Graph, values: dict[str, int]) -> None:
        name = line.take_kind("value")[1:]
        if name in values:
            raise line.fail(f"expected a new name, got `%{name}` again")
        line.take("=")
        word = line.take_kind("word")
        if word == "input":
            declared = line.string()
            line.take(":")
            values[name] = graph.add_input(declared, line.type()).node
        elif word == "capture":
            line.take_kind("number")
            line.take(":")
            values[name] = graph.add_capture(line.type()).node
        elif word == "const":
            values[name] = self.constant(line, graph)
        elif word == "param":
            values[name] = self.parameter(line, graph)
        else:
            values[name] = self.operator(line, graph, values, word, name)

    @staticmethod
    def constant(line: Line, graph: Graph) -> int:
        if line.kind() == "digest":
            digest = line.take()[1:-1]
            line.take(":")
            type_ = line.type()
            data = TensorData(type_.dtype, line.static(type_), None, digest=digest)
            return graph.add_constant(data).node
        value = line.literal()
        line.take(":")
        type_ = line.type()
        return graph.add_constant(line.array(value, type_)).node

    @staticmethod
    def parameter(line: Line, graph: Graph) -> int:
        name = line.string()
        line.take(":")
        type_ = line.type()
        data = TensorData(type_.dtype, line.static(type_), None)
        parameter = Parameter(name, name, data)

        def fact() -> None:
            key = line.take_kind("word")
            if key == "buffer":
                parameter.is_buffer = True
            elif key == "frozen":
                parameter.trainable = False
            elif key in ("declared", "role"):
                line.take("=")
                setattr(parameter, key, line.string())
            elif key == "absorbed":
                line.take("=")
                line.take("[")
                parameter.absorbed = tuple(line.listing("]", line.string))
            elif key == "init":
                line.take("=")
                law = line.take_kind("word")
                line.take("(")
                pairs = line.listing(
                    ")", lambda: (line.take_kind("word"), line.take("=") and line.number_or_text())
                )
                parameter.initializer = Initializer(law, tuple(pairs))
            else:
                raise line.fail(f"expected a fact about a parameter, got `{key}`")

        if line.accept("{"):
            line.listing("}", fact)
        return graph.add_parameter(parameter).node

    def operator(self, line: Line, graph: Graph, values: dict[str, int], word: str, name: str) -> int:
        domain, _, op_type = word.rpartition(".")
        line.take("(")
        operands = line.listing(")", lambda: None if line.accept("_") else self.value(line, values))
        captures: list[Value] = []
        if line.accept("captures"):
            line.take("(")
            captures = line.listing(")", lambda: self.value(line, values))
        attributes: dict[str, object] = {}
        if line.accept("{"):
            for key, value in line.listing(
                "}", lambda: (line.take_kind("word"), line.take("=") and line.literal())
            ):
                attributes[key] = value
        line.take(":")
        types: list[TensorType | None] = [None if line.accept("?") else line.type()]
        while line.accept(","):
            types.append(None if line.accept("?") else line.type())
        call = None
        if line.accept("@"):
            ref = line.string()
            if ref not in self.calls:
                raise line.fail(f"expected a call of a module, got `{ref}`")
            call = self.calls[ref]
        upcast = line.accept("upcast")
        if line.accept("with"):
            while True:
                head = self.next()
                if head.accept("end"):
                    head.end()
                    break
                attribute = head.take_kind("word")
                head.take("=")
                head.end()
                attributes[attribute] = self.graph(graph.modules, nested=True)
        hint = "" if name.isdigit() else name
        operator = Operator(op_type, domain, attributes, types, call, hint=hint, upcast=bool(upcast))
        return graph.add_operator(operator, operands, captures)[0].node if types else operator.key
