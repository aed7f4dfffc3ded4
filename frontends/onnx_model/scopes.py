"""Modules of an ONNX file: from the scopes that exporters leave, else one for each layer that has weights.

A scope says of which module a node is, not in which of its calls: nodes of one scope are one call as long as
nothing outside of it lies between two of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

import onnx

from ...ir import Graph, Value
from ..class_names import class_name

if TYPE_CHECKING:
    from .own_calls import OwnCalls

Scope = tuple[tuple[str, str], ...]
"""(name in the module above, class) of every module around a node, the outermost first; the root left out."""

_MOST_GAPS = 8  # numbers of a container without an operator, for each with one

Path = tuple[str, ...]
"""Name of every module around a node, the outermost first; the root left out."""

SLOTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "ConvInteger"), ("", "weight", "bias")),
    "MatMul": ("", "weight"),
    "PRelu": ("", "weight"),
    "Gather": ("weight",),
    "BatchNormalization": ("", "gamma", "beta", "moving_mean", "moving_var"),
    **dict.fromkeys(
        ("LayerNormalization", "InstanceNormalization", "GroupNormalization"), ("", "gamma", "beta")
    ),
    "RMSNormalization": ("", "gamma"),
    **dict.fromkeys(("RNN", "GRU", "LSTM"), ("", "weight_ih", "weight_hh", "bias")),
}
"""Operator -> what its operands are to a layer; empty for data."""

SCOPES, CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
"""Metadata of torch's newer exporter: the paths of the modules around a node, and their classes."""

_LIST, _DICT = "ModuleList", "ModuleDict"
"""Classes of modules that a path names and no scope: something holds others and is not called."""

_CONTAINERS = {"Sequential": "sequential", _LIST: "list", _DICT: "dict"}

_PLAIN = re.compile(r"\W+")


def scopes_of(model: onnx.ModelProto) -> list[Scope] | None:
    """Return the scope of every node of the main graph; None for a file without scopes."""
    nodes = model.graph.node
    found = [_stated(node) for node in nodes]
    if any(scope for scope in found):
        return _placed(nodes, found)
    named = [_named(node.name) for node in nodes]
    if any(named) and sum(scope is not None for scope in named) * 2 > len(named):
        return [scope or () for scope in named]
    return None


def _placed(nodes: Sequence[onnx.NodeProto], stated: Sequence[Scope | None]) -> list[Scope]:
    """Return scopes with one for each node without: what those that read it share, else those that it reads.

    An exporter's optimisations write such nodes: a Split in the place of several slices.
    """
    found = list(stated)
    users: dict[str, list[int]] = {}
    makers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    for number, node in enumerate(nodes):
        for name in node.input:
            users.setdefault(name, []).append(number)
    for number in reversed(range(len(nodes))):
        if found[number] is None:
            readers = [u for name in nodes[number].output for u in users.get(name, ()) if u > number]
            found[number] = _shared([found[u] for u in readers])
    for number, node in enumerate(nodes):
        if found[number] is None:
            found[number] = _shared([found[makers[n]] for n in node.input if makers.get(n, number) < number])
    return [scope or () for scope in found]


def _shared(scopes: Sequence[Scope | None]) -> Scope | None:
    """Return the modules that scopes have in common; None where none is known."""
    known = [scope for scope in scopes if scope is not None]
    if not known:
        return None
    return tuple(
        steps[0] for steps in takewhile(lambda steps: len(set(steps)) == 1, zip(*known, strict=False))
    )


def root_class(model: onnx.ModelProto) -> str:
    """Return the class that an exporter stated for the whole model, or an empty text."""
    for node in model.graph.node:
        classes = listed(node, CLASSES)
        if classes and listed(node, SCOPES)[:1] == [""]:
            return _short(classes[0])
    return ""


def classes_of(nodes: Sequence[onnx.NodeProto]) -> Iterator[tuple[str, str]]:
    """Yield (path, class) of every module that a scope states."""
    for node in nodes:
        paths, kinds = listed(node, SCOPES), listed(node, CLASSES)
        if len(paths) == len(kinds):
            yield from zip(paths[:-1], kinds[:-1], strict=True)


def listed(node: onnx.NodeProto, key: str) -> list[str]:
    """Return a list of texts that torch's exporter writes as Python does."""
    text = next((p.value for p in node.metadata_props if p.key == key), "")
    if not text or len(text) > 1 << 14:
        return []
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(each) for each in found] if isinstance(found, list) else []


def _stated(node: onnx.NodeProto) -> Scope | None:
    """Return the scope of torch's newer exporter: full paths of the modules, and their classes."""
    paths = listed(node, SCOPES)
    classes = listed(node, CLASSES)
    if len(paths) < 2 or len(paths) != len(classes):
        return None
    scope: list[tuple[str, str]] = []
    before = paths[0]
    for path, kind in zip(paths[1:-1], classes[1:-1], strict=True):
        prefix = f"{before}." if before else ""
        name = path.removeprefix(prefix)
        scope += with_holders([clean_name(part) for part in name.split(".")], _short(kind))
        before = path
    return tuple(scope)


def _named(name: str) -> Scope | None:
    """Return the scope of names such as ``/layer1/layer1.0/conv1/Conv``; None for a name that is no path."""
    if "/" not in name:
        return None
    parts = [part for part in name.split("/") if part][:-1]
    scope: list[tuple[str, str]] = []
    before = ""
    for part in parts:
        own = part.removeprefix(f"{before}.") if before else part
        scope += with_holders([clean_name(piece) for piece in own.split(".") if piece], "")
        before = part
    return tuple(scope)


def with_holders(names: Sequence[str], kind: str) -> Scope:
    """Return a module of a class and those that hold it and are not called."""
    holders = [(n, _LIST if m.isdigit() else _DICT) for n, m in pairwise(names)]
    return (*holders, (names[-1], kind)) if names else ()


def clean_name(name: str) -> str:
    """Return a part of a path as the name of a module."""
    return _PLAIN.sub("_", name).strip("_") or "_"


def _short(kind: str) -> str:
    name = re.split(r"[.:]", kind)[-1]
    return name if name.isidentifier() else ""


def class_of(name: str) -> str:
    """Return a class name made of a module's name: ``conv_block1`` -> ``ConvBlock``; `Block` for a number."""
    return class_name(name, "Block").rstrip("0123456789")


class Modules:
    """Gives every node the module call that it belongs to.

    Args:
        graph: the root graph; its module tree has a root.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.root = graph.modules.add_call(0)
        self._modules: dict[tuple[str, ...], int] = {(): 0}
        self._guessed: set[int] = set()  # modules whose class nobody stated
        self._last: dict[tuple[int, int], int] = {}  # (call around, module) -> its last call
        self._stated: dict[str, int] = {}  # name that the file states -> call
        self._around: dict[int, int] = {}  # node -> bits of the calls that it is in
        self._left: dict[int, int] = {}  # node -> bits of the calls that something before it has left

    def module(self, scope: Scope) -> int:
        """Return the module of a scope, made where it is new."""
        path: tuple[str, ...] = ()
        found = 0
        for name, kind in scope:
            path = (*path, name)
            if path not in self._modules:
                around = next((n for n in reversed(path) if not n.isdigit()), "")
                guess = class_of(name) if not name.isdigit() else f"{class_of(around)}Block"
                container = _CONTAINERS.get(kind)
                self._modules[path] = self.graph.modules.add(kind or guess, found, name, container=container)
                if not kind:
                    self._guessed.add(self._modules[path])
            found = self._modules[path]
        return found

    def find(self, path: Sequence[str]) -> int | None:
        """Return the module at a path; None where there is none."""
        return self._modules.get(tuple(path))

    def enter(self, scope: Scope, operands: Sequence[Value | None]) -> int:
        """Return the call for a node of a scope that reads these values."""
        left = 0
        for value in operands:
            if value is not None:
                left |= self._left.get(value.node, 0)
        call = self.root
        for depth in range(1, len(scope) + 1):
            module = self.module(scope[:depth])
            if scope[depth - 1][1] in (_LIST, _DICT):
                continue
            known = self._last.get((call, module))
            if known is None or left >> known & 1:
                known = self._last[call, module] = self.graph.modules.add_call(module, call)
            call = known
        return call

    def enter_stated(self, name: str, own: OwnCalls) -> int:
        """Return the call of a name that the file states, made inside the calls that it states around it."""
        chain: list[str] = []
        at: str | None = name
        while at is not None and at not in self._stated and at not in chain and at != "#1":
            chain.append(at)
            at = own.callers.get(at)
        call = self._stated.get(at or "", self.root)
        tree = self.graph.modules
        for each in reversed(chain):
            scope = own.scope(each)
            module, around = self.module(scope), tree.module(tree.call(call).module)
            above = (own.callers.get(each) or "").rpartition("#")[0]
            if scope and above and not each.startswith(f"{above}."):  # both hold it, then
                around.children.setdefault(scope[-1][0], module)
            call = self._stated[each] = tree.add_call(module, call)
        return call

    def settle(self, keys: Sequence[int], call: int) -> None:
        """State that nodes, in the order of their making, are in a call."""
        inside = 0
        chain: int | None = call
        while chain is not None:
            inside |= 1 << chain
            chain = self.graph.modules.call(chain).parent
        for key in keys:
            left = 0
            for value in self.graph.operands(key):
                if value is not None:
                    left |= self._left.get(value.node, 0) | self._around.get(value.node, 0) & ~inside
            for value in self.graph.captured(key):
                left |= self._left.get(value.node, 0) | self._around.get(value.node, 0) & ~inside
            self._around[key], self._left[key] = inside, left

    def fill_containers(self) -> None:
        """Make containers of the modules that hold numbered ones and have nothing else of their own.

        The numbered ones are put in order; Identity stands for those of which the file has no operator.
        """
        tree = self.graph.modules
        calls: dict[int, set[int]] = {}
        for call in tree.calls():
            if call.parent is not None:
                calls.setdefault(call.module, set()).add(call.parent)
        busy = {tree.call(o.call).module for o in self.graph.operators() if o.call is not None}
        for module in list(tree):
            numbers = [int(name) for name in module.children if name.isdigit()]
            if not numbers or len(numbers) < len(module.children):
                continue
            if max(numbers) > (1 + _MOST_GAPS) * len(numbers):
                continue
            if module.container is None and (module.key in busy or module.parameters or not module.key):
                continue
            module.container = module.container or "sequential"
            held = dict(module.children)
            for number in range(max(numbers) + 1):
                name = str(number)
                if name not in held:
                    gap = tree.add("Identity", module.key, name)
                    for around in sorted(calls.get(held[str(numbers[0])], ())):
                        tree.add_call(gap, around)
                else:  # again, at its place
                    tree.unregister(module.key, name)
                    tree.register(module.key, name, held[name])

    def name_layers(self) -> None:
        """Call a module of one operator after it, where nobody stated its class."""
        inside: dict[int, list[str]] = {}
        tree = self.graph.modules
        for operator in self.graph.operators():
            for call in tree.ancestors(operator.call):
                inside.setdefault(tree.call(call).module, []).append(operator.op_type)
        for key in self._guessed:
            kinds = set(inside.get(key, ()))
            if len(kinds) == 1 and not tree.module(key).children:
                tree.module(key).class_name = kinds.pop()
