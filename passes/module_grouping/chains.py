"""The dataflow of a flat graph as chains and blocks with one way in and one way out, found bottom-up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...ir import NO_TRAITS, Capture, Constant, Graph, ModuleTree, Operator, Parameter, Traits, Value


@dataclass(eq=False)
class Step:
    """One step of a flat graph: a call of a layer with all its operators, or one operator of the root.

    Attributes:
        name: the source's name of the node; empty when there is none.
        operators: keys of its operators, in order.
        types: their operator types.
        module: key of the layer called, or None.
        inputs: values from other operators and graph inputs, each once.
        outputs: values that other steps or the graph's outputs use.
        kind: the type of the operator that matters: the heavy one, else the last.
        traits: what that operator is.
        kernel: kernel size of a convolution.
        groups: "" for one, "depthwise" for one a channel, "grouped".
        weights: number of parameters read.
        shared: whether another layer reads one of them.
        plain: whether a layer of any framework does the same: no asymmetric padding, no rounding up.
    """

    name: str
    operators: list[int]
    types: tuple[str, ...]
    module: int | None
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    kind: str = ""
    traits: Traits = NO_TRAITS
    kernel: tuple[int, ...] = ()
    groups: str = ""
    weights: int = 0
    shared: bool = False
    plain: bool = True

    def signature(self) -> object:
        """Return what steps share that are one line of one class: operators, not sizes."""
        return (self.types, self.groups, self.weights, set(self.kernel) == {1})


@dataclass(eq=False)
class Leaf:
    """A step as an element of a chain; `name` is set if it is called otherwise than its source calls it."""

    step: Step
    name: str = ""


def traits_of_element(element: Element) -> Traits:
    """Return the traits of an element that is one step; no traits for one of several steps."""
    return element.step.traits if isinstance(element, Leaf) else NO_TRAITS


@dataclass(eq=False)
class Chain:
    """Elements one after another; the first is given the value `entry`."""

    entry: Value | None
    elements: list[Element]


@dataclass(eq=False)
class Block:
    """Several ways from one value to the step that joins them; None is the value itself.

    Attributes:
        join: the step that all ways lead to.
        ways: one way for each operand of the join.
        shortcut: number of the way that is the shortcut of a residual block.
    """

    join: Leaf
    ways: list[Chain | None]
    shortcut: int | None = None


@dataclass(eq=False)
class Group:
    """Elements that become one module.

    Attributes:
        elements: what it does, one after another.
        name: attribute that the source's names tell; empty when none.
        class_name: told from names or structure; empty as long as nobody asked.
        container: whether it only calls its elements in order.
        scope: names of the source that its steps share.
    """

    elements: list[Element]
    name: str = ""
    class_name: str = ""
    container: bool = False
    scope: str = ""


Element = Leaf | Block | Group


def steps_of(part: Element | Chain | Sequence[Element]) -> Iterator[Step]:
    """Yield every step in a part, in the order in which it is written."""
    if isinstance(part, Leaf):
        yield part.step
    elif isinstance(part, Block):
        for way in part.ways:
            if way is not None:
                yield from steps_of(way)
        yield part.join.step
    else:
        for element in part if isinstance(part, Sequence) else part.elements:
            yield from steps_of(element)


def chains_in(elements: Sequence[Element]) -> Iterator[Chain]:
    """Yield the ways of all blocks in a row of elements, nested ones too; no shortcuts, no groups."""
    for element in elements:
        if isinstance(element, Block):
            for at, way in enumerate(element.ways):
                if way is not None and at != element.shortcut:
                    yield way
                    yield from chains_in(way.elements)


# -- steps -----------------------------------------------------------------------------------------


def find_steps(graph: Graph) -> list[Step]:
    """Return the steps of a flat graph in dataflow order."""
    tree = graph.modules
    together: dict[object, list[Operator]] = {}
    for node in graph.operators():
        leaf = node.call is not None and tree.call(node.call).parent is not None
        together.setdefault(("call", node.call) if leaf else ("operator", node.key), []).append(node)
    return [_step(graph, nodes) for nodes in together.values()]


def _step(graph: Graph, nodes: list[Operator]) -> Step:
    """Return the step of some operators: all those of one layer's call, or one of the root's."""
    tree = graph.modules
    keys = {n.key for n in nodes}
    call = None if nodes[0].call is None else tree.call(nodes[0].call)
    module = call.module if call is not None and call.parent is not None else None
    operands = [v for n in nodes for v in graph.operands(n.key) if v is not None]
    inputs = [v for v in operands if v.node not in keys]
    flowing = [v for v in inputs if not isinstance(graph.node(v.node), (Constant, Parameter, Capture))]
    outputs = [
        value
        for n in nodes
        for value in (Value(n.key, i) for i in range(len(n.types)))
        if graph.is_output(value) or any(user not in keys for user, _ in graph.users(value))
    ]
    weights = [v for v in inputs if isinstance(graph.node(v.node), Parameter)]
    matters = next((n for n in nodes if n.traits.heavy), nodes[-1])
    step = Step(
        nodes[-1].location if module is None else _name_of(tree, module),
        [n.key for n in nodes],
        tuple(n.op_type for n in nodes),
        module,
        tuple(dict.fromkeys(flowing)),
        tuple(outputs),
        matters.op_type,
        matters.traits,
        weights=len(weights),
        shared=any(user not in keys for v in weights for user, _ in graph.users(v)),
        plain=not any(_is_lopsided(n) for n in nodes if n.traits.pool and n.traits.windowed),
    )
    for node in nodes:
        if node.op_type in ("Conv", "ConvTranspose"):
            weight = graph.operands(node.key)[1]
            type_ = None if weight is None else graph.type_of(weight)
            shape = type_.static_shape() if type_ is not None and type_.is_static else ()
            step.kernel = tuple(shape[2:])
            groups = node.int("group")
            step.groups = "" if groups == 1 else "depthwise" if shape[1:2] == (1,) else "grouped"
    return step


def _name_of(tree: ModuleTree, module: int) -> str:
    """Return a layer's path; with dots where the source has a path of which it is one name."""
    path, place = tree.path(module), tree.module(module).location
    return place if "." in place and place.replace(".", "_") == path else path


def _is_lopsided(node: Operator) -> bool:
    """Whether a pool treats the end of an axis differently from its beginning."""
    pads = node.ints("pads")
    return bool(node.int("ceil_mode")) or pads[: len(pads) // 2] != pads[len(pads) // 2 :]


# -- chains and blocks -----------------------------------------------------------------------------


class Reduction:
    """Series-parallel reduction: one pass over the steps in dataflow order, each edge handled once.

    Steps that cannot be reduced (several ways out, crossing paths) belong to no chain; between them there are
    chains of their own.

    Args:
        graph: the graph.
        steps: its steps in dataflow order.

    Attributes:
        chains: maximal chains, in dataflow order; those of one step with several inputs included.
    """

    def __init__(self, graph: Graph, steps: list[Step]) -> None:
        self._returned = {value for _, value in graph.outputs} | set(graph.updates.values())
        self._users: dict[Value, set[int]] = {}
        self._chain: dict[int, Chain] = {}
        self._producer: dict[Value, int] = {}
        self._outputs: dict[int, set[Value]] = {}
        for number, step in enumerate(steps):
            for value in step.inputs:
                self._users.setdefault(value, set()).add(number)
        for number, step in enumerate(steps):
            self._add(number, step)
        self.chains = list(self._chain.values())

    def _add(self, number: int, step: Step) -> None:
        single = len(step.inputs) == 1 and not step.shared
        self._chain[number] = Chain(step.inputs[0] if single else None, [Leaf(step)])
        self._outputs[number] = set(step.outputs)
        for value in step.outputs:
            self._producer[value] = number
        if len(step.inputs) > 1 and not step.shared:
            self._join(number, step)
        if self._chain[number].entry is not None:
            self._append(number)

    def _alone(self, value: Value, number: int) -> int | None:
        """Return the chain that gives a value to chain `number` and gives nothing to any other."""
        source = self._producer.get(value)
        if source is None or value in self._returned or self._users[value] != {number}:
            return None
        return source if self._outputs[source] == {value} and self._chain[source].entry is not None else None

    def _append(self, number: int) -> None:
        """Append a chain to the one before it."""
        entry = self._chain[number].entry
        assert entry is not None
        source = self._alone(entry, number)
        if source is None:
            return
        self._chain[source].elements += self._chain.pop(number).elements
        self._outputs[source] = self._outputs.pop(number)
        for value in self._outputs[source]:
            self._producer[value] = source

    def _join(self, number: int, step: Step) -> None:
        """Make a block of a step and the ways that lead to it, if all of them start at one value."""
        sources = [self._alone(value, number) for value in step.inputs]
        starts = {None if s is None else self._chain[s].entry for s in sources} - {None}
        starts |= {v for v, s in zip(step.inputs, sources, strict=True) if s is None}
        if len(starts) != 1:
            return
        (start,) = starts
        ways = [None if s is None else self._chain.pop(s) for s in sources]
        block = Block(Leaf(step), ways)
        block.shortcut = _shortcut(block)
        self._chain[number] = Chain(start, [block])
        assert start is not None
        self._users[start] -= {s for s in sources if s is not None}
        self._users[start].add(number)


def _shortcut(block: Block) -> int | None:
    """Return the number of the shortcut of a residual block: the value itself, or a convolution of it."""
    if block.join.step.kind not in ("Add", "Sum") or len(block.ways) != 2:
        return None
    heavy = [_heavy(way) for way in block.ways]
    light = [at for at, way in enumerate(block.ways) if _is_light(way)]
    light.sort(key=lambda at: heavy[at])
    if light and heavy[light[0]] < heavy[1 - light[0]]:
        return light[0]
    return None


def _is_light(way: Chain | None) -> bool:
    if way is None:
        return True
    steps = [e.step for e in way.elements if isinstance(e, Leaf)]
    usual = all(s.kind in ("Conv", "BatchNormalization") or s.traits.pool for s in steps)
    return len(steps) == len(way.elements) <= 3 and usual and sum(s.kind == "Conv" for s in steps) <= 1


def _heavy(way: Chain | None) -> int:
    return 0 if way is None else sum(step.traits.heavy for step in steps_of(way))
