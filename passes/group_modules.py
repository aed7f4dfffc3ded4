"""group-modules: a flat graph gets the modules that its names and its repeated structure tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..ir import Graph, Parameter
from .base import Change, Pass
from .module_grouping.attribute_names import AttributeNames, free_name, walk_as_written
from .module_grouping.chains import Element, Group, Leaf, Step, find_steps, steps_of
from .module_grouping.equal_branches import find_branches
from .module_grouping.plan import Plan


@dataclass(frozen=True)
class GroupModules(Pass):
    """Give a model without module structure the modules that an engineer would have written.

    What it does:
        Looks at a graph whose modules are all leaves of the root, as MXNet's symbols are. Neighbours whose
        names share a prefix (``stage1_``) become one module; so do rows of layers that occur several times
        (isomorphic subgraphs), which therefore share a class; units in a row become a container. Structures
        that have a name get it (`Bottleneck`, `BasicBlock`, `Fire`), others are named after their prefix.
        Layers get short local names, and the prefix that all names share goes. A part that runs several
        times with the same weights, as the branches of a siamese net do, is one module called several times.

    Why:
        Without it the emitted source is one class with a line for every layer of the model.

    Leaves alone:
        A graph that has modules already. What is no chain or block with one value in and one out. Layers
        called several times outside of such parts, and models with control flow. What is computed: only
        modules and calls change.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "net0_conv0_fwd" Convolution {weight=%0}
        ...   module "net0_dense0_fwd" FullyConnected {weight=%1}
        ...   %x = input "x" : f32[N,3,8,8]
        ...   %0 = param "w" : f32[4,3,8,8]
        ...   %y = Conv(%x, %0) : f32[N,4,1,1] @ "net0_conv0_fwd#1"
        ...   %z = Flatten(%y) : f32[N,4] @ "#1"
        ...   %1 = param "v" : f32[2,4]
        ...   %u = regraft.Linear(%z, %1) : f32[N,2] @ "net0_dense0_fwd#1"
        ...   return "u" = %u
        ... }''')
        >>> for change in GroupModules().run(graph):
        ...     print(change)
        GM102 2 layers have shorter names: `net0_conv0_fwd` is `conv0` - at conv0
    """

    name: ClassVar[str] = "group-modules"
    codes: ClassVar[dict[str, str]] = {
        "GM101": "layers without modules around them form one by their names or their repeated structure",
        "GM102": "layers have shorter names: without the prefix that all share",
        "GM103": "parts that compute the same with the same weights are one module, called several times",
    }
    needs_dataflow: ClassVar[bool] = True

    def run(self, graph: Graph) -> list[Change]:
        """Group; see the class."""
        if graph.origin.framework and not graph.origin.has_modules:
            flatten_namespaces(graph)
        return _Regrouping(graph).run() if is_flat(graph) and _repeats_in_branches(graph) else []


def is_flat(graph: Graph) -> bool:
    """Whether all modules are leaves of the root, which is called once, and there is no control flow."""
    tree = graph.modules
    if tree.root is None or len(tree.calls(0)) != 1 or any(n.subgraphs() for n in graph.operators()):
        return False
    (root,) = tree.calls(0)
    calls = [call for call in tree.calls() if call.key != root.key]
    return (
        all(not module.children for module in tree if module.key)
        and all(call.parent == root.key for call in calls)
        and len(set(tree.root.children.values())) == len(tree.root.children)
        and {call.module for call in calls} <= set(tree.root.children.values())
        and all(node.call is not None for node in graph.operators())
    )


def _repeats_in_branches(graph: Graph) -> bool:
    """Whether every layer that is called several times is in a part that runs several times."""
    called = Counter(call.module for call in graph.modules.calls())
    if max(called.values()) == 1:
        return True
    steps = find_steps(graph)
    inside = {id(s) for branch in find_branches(graph, steps) for run in branch.runs for s in run}
    return all(id(s) in inside for s in steps if s.module is not None and called[s.module] > 1)


def flatten_namespaces(graph: Graph) -> None:
    """Register what lies in modules that nothing calls with the root, as ``blocks_0_conv``.

    A ``.mindir`` file has layers under the paths of their parameters, and no calls of what is around them.
    """
    tree = graph.modules
    called = {call.module for call in tree.calls()}
    held = [m for m in tree if m.key and (m.parameters or m.key in called)]
    if not held or any(m.children for m in held) or len(held) == len(tree) - 1:
        return
    paths = {m.key: tree.paths(m.key) for m in held}
    if any(len(found) != 1 for found in paths.values()):
        return
    for name in list(tree.module(0).children):
        tree.unregister(0, name)
    for key, (path,) in paths.items():
        tree.register(0, free_name(path.replace(".", "_"), tree.module(0).children), key)
    tree.prune()


class _Regrouping:
    """Applies the plan of a graph to its module tree."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.tree = graph, graph.modules
        self.plan = Plan(graph)
        self.names = AttributeNames(self.plan)
        self.old = {m.key: self.tree.path(m.key) for m in self.tree}
        self.made: list[tuple[Group, int]] = []
        self.root_call = self.tree.calls(0)[0].key
        self.root_held = set(self.tree.module(0).parameters.values())

    def run(self) -> list[Change]:
        """Rebuild the tree; returns the changes."""
        before = {child: name for name, child in self.tree.module(0).children.items()}
        for name in list(self.tree.module(0).children):
            self.tree.unregister(0, name)
        self._fill(self.plan.body, 0, self.root_call)
        again = self._run_again()
        placed = {child for module in self._modules() for child in module}
        for child, name in before.items():  # what is never called
            if child not in placed and child not in again:
                self.tree.register(0, free_name(name, self.tree.module(0).children), child)
        self.tree.prune()
        changes = self._changes()
        if not changes:
            held = self.tree.module(0).children
            held |= {name: held.pop(name) for name in before.values()}
        return changes

    def _run_again(self) -> set[int]:
        """Make further runs of a part calls of the first run's modules; returns the modules replaced."""
        replaced: set[int] = set()
        for branch in self.plan.branches:
            first, *others = branch.runs
            for run in others:
                calls: dict[int, int] = {}
                for step, twin in zip(first, run, strict=True):
                    for key, other in zip(step.operators, twin.operators, strict=True):
                        call, old = self.graph.operator(key).call, self.graph.operator(other).call
                        assert call is not None
                        self.graph.operator(other).call = self._call_again(call, calls)
                        if twin.module is not None and old is not None and self.tree.has_call(old):
                            self.tree.remove_call(old)
                    if twin.module is not None and step.module not in (None, twin.module):
                        replaced.add(twin.module)
                        if self.graph.provenance is not None:
                            self.graph.provenance.merged[twin.module] = step.module
        return replaced

    def _call_again(self, call: int, calls: dict[int, int]) -> int:
        """Return a new call of the same module, in new calls of the modules around it."""
        if call == self.root_call:
            return call
        if call not in calls:
            known = self.tree.call(call)
            assert known.parent is not None
            calls[call] = self.tree.add_call(known.module, self._call_again(known.parent, calls))
        return calls[call]

    def _modules(self) -> list[list[int]]:
        """Return the children of the root and of every group."""
        keys = [0, *(key for _, key in self.made)]
        return [list(self.tree.module(key).children.values()) for key in keys]

    def _fill(self, elements: Sequence[Element], module: int, call: int) -> None:
        """Add elements to a module as children and steps."""
        names = self.names.of(elements, root=module == 0)
        for element in walk_as_written(elements):
            if isinstance(element, Group):
                self._group(element, names[id(element)], module, call)
            elif element.step.module is not None:
                self._layer(element.step, names[id(element)], module, call)
            else:
                self._assign(element.step, call)
                self._adopt(element.step, module)

    def _group(self, group: Group, name: str, parent: int, above: int) -> None:
        """Add a group as a module, with all its elements."""
        container = "sequential" if group.container else None
        key = self.tree.add(group.class_name, parent, name, container=container)
        call = self.tree.add_call(key, above)
        self.made.append((group, key))
        if not group.container:
            self._fill(group.elements, key, call)
            return
        for number, element in enumerate(group.elements):
            if isinstance(element, Group):
                self._group(element, str(number), key, call)
            else:
                assert isinstance(element, Leaf)
                self._layer(element.step, str(number), key, call)

    def _layer(self, step: Step, name: str, parent: int, above: int) -> None:
        """Call a layer from its new owner; an operator in a container becomes a layer."""
        if step.module is None:
            leaf = self.tree.add(step.types[-1], parent, name)
            self._assign(step, self.tree.add_call(leaf, above))
            self._adopt(step, leaf)
            return
        self.tree.register(parent, name, step.module)
        old = self.graph.operator(step.operators[0]).call
        assert old is not None
        self._assign(step, self.tree.add_call(step.module, above))
        self.tree.remove_call(old)

    def _assign(self, step: Step, call: int) -> None:
        for key in step.operators:
            self.graph.operator(key).call = call

    def _adopt(self, step: Step, module: int) -> None:
        """Move parameters of the root that only this step reads to the step's module."""
        held = self.tree.module(0).parameters
        for operand in self.graph.operands(step.operators[0]) if module and self.root_held else ():
            if operand is None or operand.node not in self.root_held:
                continue
            users = {user for user, _ in self.graph.users(operand)}
            if isinstance(self.graph.node(operand.node), Parameter) and users == set(step.operators):
                name = next(n for n, key in held.items() if key == operand.node)
                del held[name]
                local = self.names.local_parameter(name, step)
                taken = {**self.tree.module(module).parameters, **self.tree.module(module).children}
                self.tree.module(module).parameters[free_name(local, taken)] = operand.node

    def _changes(self) -> list[Change]:
        """Return the findings."""
        changes = [
            Change("GM101", f"{_count_layers(group)} form {_kind(group)}", place=self.tree.path(key))
            for group, key in self.made
        ]
        for branch in self.plan.branches:
            count, place = len(branch.runs), self.tree.path(self._around(branch.runs[0]))
            text = f"{count} parts with the same weights are {count} calls of one module"
            changes.append(Change("GM103", text, place=place))
        moved = [k for k, path in self.old.items() if path and k in self.tree and self.tree.path(k) != path]
        if moved:
            first = f"`{self.old[moved[0]]}` is `{self.tree.path(moved[0])}`"
            changes.append(
                Change(
                    "GM102",
                    f"{len(moved)} layers have shorter names: {first}",
                    place=self.tree.path(moved[0]),
                )
            )
        return changes

    def _around(self, run: Sequence[Step]) -> int:
        """Return the key of the module that a part became."""
        call = self.graph.operator(run[0].operators[0]).call
        above = self.tree.ancestors(call)  # its own first, the root's last
        return self.tree.call(above[-2]).module


def _count_layers(group: Group) -> str:
    layers = sum(step.module is not None for step in steps_of(group.elements))
    return f"{layers} layers"


def _kind(group: Group) -> str:
    if not group.container:
        return f"one `{group.class_name}`"
    units = Counter(e.class_name if isinstance(e, Group) else "layer" for e in group.elements)
    return "a container of " + " and ".join(f"{n} `{name}`" for name, n in units.items())
