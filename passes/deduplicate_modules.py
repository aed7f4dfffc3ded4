"""deduplicate-modules: one registration per module, one class per structure, one run per result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, cast

from ..ir import Constant, Graph, Module, ModuleTree, Operator, Value, merge_types
from ..ir.types import is_array
from .base import Change, Pass
from .places import Places

_SHOWN = 8  # modules of one structure that a message names


@dataclass(frozen=True)
class DeduplicateModules(Pass):
    """Report and clean up modules and operators that are registered, called or written more than once.

    What it does:
        Tells three different things apart. A module *registered twice* keeps the registrations through
        which it is called; the others are removed. A module *called twice* stays one module with two
        calls. Modules of the *same structure* with parameters of their own share one class definition; they
        are found by bottom-up hashes, in linear time. Identical pure operators on identical inputs, in one
        call of one module, run once.

    Why:
        Counting an alias twice doubles a model on paper, MindSpore names a Cell's parameters after the last
        path and lists the first, and copies of one class hide what really differs.

    Leaves alone:
        Parameters with equal values: that is regarded as a coincidence by default (`tie-weights`).
        Random operators, Dropout included, also a layer's own. Heads of losses. Equal operators in different
        calls: merging them would take a result out of the module that computes it. Registrations, while no
        calls were recorded.

    Refuses:
        Nothing.

    Attributes:
        keep_saved: whether every registration that names parameters stays, as checkpoints of the source name
            them all. So it runs by default where a PyTorch module becomes PyTorch source.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "base" Base never called
        ...   module "base.act" = "head.0"
        ...   module "head" Sequential [sequential]
        ...   module "head.0" ReLU
        ...   %x = input "x" : f32[4]
        ...   %y = Relu(%x) : f32[4] @ "head.0#1"
        ...   return "y" = %y
        ... }''')
        >>> for change in DeduplicateModules().run(graph):
        ...     print(change)
        DM101 one `ReLU` is registered as `base.act`, `head.0`; kept as `head.0` - at head.0
    """

    name: ClassVar[str] = "deduplicate-modules"
    codes: ClassVar[dict[str, str]] = {
        "DM101": "one module is registered under several paths",
        "DM102": "one module is called several times",
        "DM103": "modules of one structure, with parameters of their own, share a class definition",
        "DM104": "an operator repeats another one on the same inputs",
    }
    rewordings: ClassVar[frozenset[str]] = frozenset({"DM104"})

    keep_saved: bool = False

    def run(self, graph: Graph) -> list[Change]:
        """Deduplicate; see the class."""
        changes = _merge_registrations(graph.modules, keep_saved=self.keep_saved)
        changes += _report_calls(graph.modules)
        changes += _report_equal_structures(graph.modules)
        places = Places(graph)
        for part in list(graph.subgraphs()):
            changes += _merge_computations(part, places)
        return changes


# -- registered twice ------------------------------------------------------------------------------


def _merge_registrations(tree: ModuleTree, *, keep_saved: bool) -> list[Change]:
    """Report modules with several registrations, and remove those that no call uses.

    Args:
        tree: the modules.
        keep_saved: whether registrations stay that name parameters.
    """
    registrations: dict[int, list[tuple[int, str]]] = {}
    for module in tree:
        for name, child in module.children.items():
            registrations.setdefault(child, []).append((module.key, name))
    several = {key: found for key, found in registrations.items() if len(found) > 1}
    if not several:
        return []
    known = bool(tree.calls())
    callers = _find_callers(tree) if known else {}
    changes: list[Change] = []
    unused: list[tuple[int, str]] = []
    for key, found in several.items():
        if keep_saved and holds_parameters(tree, key):
            kept = set(found)
        elif known:
            kept = _registrations_called(tree, key, found, callers.get(key, set()))
        else:
            kept = set(found)
        gone = [place for place in found if place not in kept]
        unused += gone
        paths = {place: _join(tree.path(place[0]), place[1]) for place in found}
        listed = ", ".join(f"`{path}`" for path in paths.values())
        stays = " and ".join(f"`{paths[place]}`" for place in found if place in kept)
        reason = (
            f"kept as {stays}"
            if gone
            else "called by way of each"
            if known and not keep_saved
            else "one object, not a copy"
        )
        changes.append(
            Change(
                "DM101",
                f"one `{tree.module(key).class_name}` is registered as {listed}; {reason}",
                place=tree.path(key),
                severity="warning",
                fixed=bool(gone),
                modules=tuple(sorted(paths.values(), key=lambda path: path != tree.path(key))),
            )
        )
    for parent, name in unused:
        tree.unregister(parent, name)
    return changes


def holds_parameters(tree: ModuleTree, key: int) -> bool:
    """Whether a module or one in it has parameters."""
    return any(tree.module(each).parameters for each in (key, *tree.below(key)))


def _find_callers(tree: ModuleTree) -> dict[int, set[int]]:
    """Return module key -> modules that call it; a container that never runs has its children's callers."""
    direct: dict[int, set[int]] = {}
    called: set[int] = set()
    for call in tree.calls():
        called.add(call.module)
        if call.parent is not None:
            direct.setdefault(call.module, set()).add(tree.call(call.parent).module)
    out: dict[int, set[int]] = {}
    for key in postorder(tree):
        if key in called:
            out[key] = direct.get(key, set())
        else:
            out[key] = set().union(*(out.get(c, set()) for c in tree.module(key).children.values()))
    return out


def _registrations_called(
    tree: ModuleTree, key: int, found: list[tuple[int, str]], callers: Iterable[int]
) -> set[tuple[int, str]]:
    """Return the registrations through which a module is called; its canonical one if it never is."""
    kept: set[tuple[int, str]] = set()
    for caller in sorted(callers):
        direct = next((place for place in found if place[0] == caller), None)
        if direct is None:  # by way of a container inside the caller
            above = [f"{path}." if path else "" for path in tree.paths(caller)]
            path = next((p for p in tree.paths(key) if any(p.startswith(a) for a in above)), tree.path(key))
            direct = _last_registration(tree, path)
        kept.add(direct)
    return kept or {_last_registration(tree, tree.path(key))}


def _last_registration(tree: ModuleTree, path: str) -> tuple[int, str]:
    above, _, name = path.rpartition(".")
    parent = tree.find(above)
    assert parent is not None, path
    return parent.key, name


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# -- called twice, and look-alikes -----------------------------------------------------------------


def _report_calls(tree: ModuleTree) -> list[Change]:
    """Report modules with parameters that are called more often than the module around them."""
    changes: list[Change] = []
    holding: dict[int, bool] = {}
    for key in postorder(tree):
        module = tree.module(key)
        holding[key] = bool(module.parameters) or any(holding.get(c) for c in module.children.values())
    for key, calls in tree.calls_by_module().items():
        parents = [call.parent for call in calls]
        modules = {None if parent is None else tree.call(parent).module for parent in parents}
        if len(calls) < 2 or not holding.get(key) or (len(set(parents)) == len(calls) and len(modules) == 1):
            continue
        changes.append(
            Change(
                "DM102",
                f"one `{tree.module(key).class_name}` is called {len(calls)} times, with the same parameters",
                place=tree.path(key),
                fixed=False,
            )
        )
    return changes


def number_structures(tree: ModuleTree) -> dict[int, int]:
    """Return a number for each module, equal where class, children and names of parameters are equal.

    Linear in the size of the tree: each structure is looked up by those of its children.
    """
    numbers: dict[object, int] = {}
    out: dict[int, int] = {}
    for key in postorder(tree):
        module = tree.module(key)
        children = tuple((name, out.get(child, -1)) for name, child in module.children.items())
        shape = (module.class_name, module.container, children, tuple(module.parameters))
        out[key] = numbers.setdefault(shape, len(numbers))
    return out


def postorder(tree: ModuleTree) -> list[int]:
    """Return the keys of all modules, children before the modules that hold them, each once."""
    done: dict[int, None] = {}
    stack = [(module.key, False) for module in [tree.root] if module is not None]
    entered: set[int] = set()
    while stack:
        key, expanded = stack.pop()
        if expanded:
            done[key] = None
        elif key not in entered:
            entered.add(key)
            stack.append((key, True))
            stack += [(child, False) for child in reversed(tree.module(key).children.values())]
    return list(done)


def _report_equal_structures(tree: ModuleTree) -> list[Change]:
    groups: dict[int, list[Module]] = {}
    of = number_structures(tree)
    for module in tree:
        if module.children and module.container is None:
            groups.setdefault(of[module.key], []).append(module)
    changes: list[Change] = []
    for group in groups.values():
        if len(group) > 1:
            paths = [f"`{tree.path(module.key)}`" for module in group]
            many = len(paths) > _SHOWN
            message = (
                f"{len(group)} modules of one structure share one class definition `{group[0].class_name}`: "
                + ", ".join([*paths[:_SHOWN], "…"] if many else paths)
            )
            members = tuple(paths) if many else ()
            place = tree.path(group[0].key)
            changes.append(Change("DM103", message, place=place, fixed=False, members=members))
    return changes


# -- computed twice --------------------------------------------------------------------------------


def _merge_computations(part: Graph, places: Places) -> list[Change]:
    """Merge equal pure operators on equal inputs within one module call."""
    numbers: dict[int, object] = {}
    first: dict[object, int] = {}
    changes: list[Change] = []
    for key in part.order():
        node = part.node(key)
        if isinstance(node, Constant):
            small = node.data.nbytes <= 1024
            numbers[key] = ("constant", node.data.content_digest()) if small else key
        elif isinstance(node, Operator) and node.is_pure:
            operands = tuple(
                None if v is None else (numbers.get(v.node, v.node), v.output) for v in part.operands(key)
            )
            attributes = tuple((name, _freeze(value)) for name, value in sorted(node.attributes.items()))
            what = (node.qualified_name, attributes, operands, len(node.types), node.call)
            kept = first.setdefault(what, key)
            if kept != key and _merge(part, key, kept):
                changes.append(
                    Change("DM104", "repeats an operator on the same inputs", place=places.of(part, kept))
                )
    return changes


def _merge(part: Graph, key: int, kept: int) -> bool:
    """Replace the outputs of `key` by those of `kept`, unless both are outputs of the graph."""
    old, new = part.operator(key), part.operator(kept)
    pairs = [(Value(key, i), Value(kept, i)) for i in range(len(old.types))]
    if any(part.is_output(a) and part.is_output(b) for a, b in pairs):
        return False
    for index, (before, after) in enumerate(pairs):
        known, other = new.types[index], old.types[index]
        new.types[index] = other if known is None else merge_types(known, other)
        part.replace_uses(before, after)
    operands = [v.node for v in part.operands(key) if v is not None]
    part.remove(key)
    for operand in dict.fromkeys(operands):
        if isinstance(part.node(operand), Constant) and not part.flow.out_degree(operand):
            part.remove(operand)
    return True


def _freeze(value: object) -> object:
    if isinstance(value, list):
        return tuple(map(_freeze, cast("list[object]", value)))
    if is_array(value):
        return (str(value.dtype), value.shape, value.tobytes())
    return (type(value).__name__, value)
