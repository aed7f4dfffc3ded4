"""Joins modules whose parameters were all tied: one module, called for both."""

from __future__ import annotations

from collections.abc import Iterator, Set

from ...ir import Constant, Graph, ModuleTree, Parameter, Value
from ...ir.graph import walk_operators
from ..base import Change


def join_modules(graph: Graph, tied: Set[int]) -> list[Change]:
    """Make modules of one structure one module, if their parameters are the same and were tied.

    The names of both stay. Modules whose calls do not compute the same stay apart, as do those that are never
    called, that are called several times in a row, or in which a module is.

    Args:
        graph: the graph, in which parameters were tied.
        tied: the keys of these parameters.
    """
    tree, changes = graph.modules, list[Change]()
    first: dict[object, int] = {}
    gone: set[int] = set()
    for key in _by_first_call(tree):
        below = [inner for inner, _ in _walk(tree, key)]
        held = {p for inner in below for p in tree.module(inner).parameters.values()}
        if gone.intersection(below) or not held or not held <= tied:
            continue
        kept = first.setdefault(_structure(tree, key), key)
        if kept == key or gone.intersection(tree.below(kept)):
            continue
        if not _take_turns(tree, kept, key) or not _compute_the_same(graph, kept, key):
            continue
        message = f"`{tree.path(key)}` is now `{tree.path(kept)}`, called again: all their parameters are one"
        changes.append(Change("TW110", message, place=tree.path(kept)))
        gone |= set(below)
        _join(graph, kept, key)
    tree.prune()
    return changes


def _by_first_call(tree: ModuleTree) -> list[int]:
    """Return the modules that are called, those around others first, in the order of their first calls."""
    return list(dict.fromkeys(call.module for call in tree.calls()))


def _take_turns(tree: ModuleTree, kept: int, other: int) -> bool:
    """Whether two modules are called in the same call, the second once, and those in them as often.

    Then the turn of a call tells whose it was.
    """
    calls = {key: tree.calls(key) for key in (kept, other)}
    parents = {call.parent for found in calls.values() for call in found}
    even = all(
        len(tree.calls(inner)) in (0, len(found))
        for key, found in calls.items()
        for inner, _ in _walk(tree, key)
    )
    return even and len(calls[other]) == 1 and len(parents) == 1


def _walk(tree: ModuleTree, key: int, path: tuple[str, ...] = ()) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield a module and all in it, each with its path there."""
    yield key, path
    for name, child in tree.module(key).children.items():
        yield from _walk(tree, child, (*path, name))


def _structure(tree: ModuleTree, key: int) -> object:
    """Return the classes, names and parameters of a module and all in it."""
    rows = [(path, tree.module(inner)) for inner, path in _walk(tree, key)]
    return tuple((path, m.class_name, m.container, tuple(m.parameters.items())) for path, m in rows)


def _compute_the_same(graph: Graph, one: int, other: int) -> bool:
    """Whether every call of either module computes the same."""
    tree = graph.modules
    calls = [call.key for key in (one, other) for call in tree.calls(key)]
    return len({repr(_computation(graph, call)) for call in calls}) == 1


def _computation(graph: Graph, call: int) -> list[object]:
    """Return the operators of a call and of those made in it, in order, with what each of them reads."""
    tree = graph.modules
    top = tree.path(tree.call(call).module)
    number: dict[Value, int] = {}
    found: list[object] = []
    for part, node in walk_operators(graph):
        above = tree.ancestors(node.call)
        if call not in above:
            continue
        below = [tree.path(tree.call(c).module).removeprefix(top) for c in above[: above.index(call)]]
        reads = [_read(part, value, number) for value in part.operands(node.key)]
        found.append((below, node.qualified_name, sorted(node.attributes.items()), reads, node.types))
        number |= {Value(node.key, at): len(number) + at for at in range(len(node.types))}
    return found


def _read(graph: Graph, value: Value | None, number: dict[Value, int]) -> object:
    """Return a parameter, the content of a constant, or the number of a value of the same call."""
    if value is None:
        return None
    node = graph.node(value.node)
    if isinstance(node, Parameter):
        return ("parameter", node.key)
    if isinstance(node, Constant):
        return ("constant", node.data.content_digest())
    return number.get(value, "outside")


def _join(graph: Graph, kept: int, other: int) -> None:
    """Make the calls of one module calls of another, which takes its registrations over too."""
    tree = graph.modules
    into = dict(zip((m for m, _ in _walk(tree, other)), (m for m, _ in _walk(tree, kept)), strict=True))
    for call in tree.calls():
        if call.module in into:
            tree.replace_call(call.key, module=into[call.module], parent=call.parent)
    for module in list(tree):
        for name, child in list(module.children.items()):
            if child == other:
                tree.register(module.key, name, kept)
    if graph.provenance is not None:
        graph.provenance.merged |= into
