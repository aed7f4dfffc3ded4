"""Writes in a method what lets no gradient pass: around a layer's argument or result, and off again."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...frontends.class_source import ClassSource, class_source
from ...frontends.constructions import part_at
from ...ir import Graph, Operator, Value
from .attributes import Rewrite
from .remedies import line_of

_STOPS = ("stop_gradient", "detach")


def without_stop(target: Graph, path: str, stop: Operator) -> Rewrite | None:
    """Return how the call that stops a gradient is written as its tensor; None where it is not found.

    Args:
        target: the target's graph.
        path: of the module whose method makes the call.
        stop: the operator.
    """
    source = _class_at(target, path)
    if source is None:
        return None
    found = [call for call in _calls(source.tree) if _name(call) in _STOPS]
    # a Cell's operators have the line of its construct where no call was noted
    found = [c for c in found if f"{source.file}:{c.lineno}" == line_of(stop)] or found
    if len(found) != 1:
        return None
    call = found[0]
    tensors = call.args if call.args else [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return _rewrite(source, call, ast.unparse(tensors[0])) if len(tensors) == 1 else None


def with_stop(
    source: Graph, target: Graph, modules: Mapping[str, str], paths: tuple[str, str], stop: Operator
) -> Rewrite | None:
    """Return how the argument or the call of a layer is written that the source stops the gradient of.

    The one layer that reads what the source stops gets its argument so; where several do, or none, and the
    one that gives it to nothing else, its result.

    Args:
        source: the source's graph.
        target: the target's.
        modules: path of a module in the source -> in the target.
        paths: of the module whose method stops it in the source, and in the target.
        stop: the source's operator.
    """
    held = _class_at(target, paths[1])
    if held is None:
        return None
    readers = {_called(source, paths[0], user) for user, _ in source.users(Value(stop.key))}
    child = modules.get(next(iter(readers)) or "") if len(readers) == 1 else None
    call = None if child is None else _layer_call(held, paths[1], child)
    if call is not None and len(call.args) == 1 and not isinstance(call.args[0], ast.Starred):
        return _rewrite(held, call.args[0], _stopped(target, call.args[0]))
    operand = source.operands(stop.key)[0]
    if operand is None or len(list(source.users(operand))) != 1:
        return None
    child = modules.get(_called(source, paths[0], operand.node) or "")
    call = None if child is None else _layer_call(held, paths[1], child)
    return None if call is None else _rewrite(held, call, _stopped(target, call))


def padded_rows(target: Graph, path: str, number: int) -> Rewrite | None:
    """Return the statements that keep the gradient from a row of a table, around the call that reads it.

    Args:
        target: the target's graph, of MindSpore.
        path: of the table's layer.
        number: the row's.
    """
    above = path.rpartition(".")[0]
    held = _class_at(target, above)
    call = None if held is None else _layer_call(held, above, path)
    if held is None or call is None or len(call.args) != 1:
        return None
    if not any(
        call in _always(statement) for statement in ast.walk(held.tree) if isinstance(statement, _SIMPLE)
    ):
        return None
    names = {n.id for n in ast.walk(held.tree) if isinstance(n, ast.Name)}
    rows = next(name for name in ("rows", "embedded", "rows_of_table") if name not in names)
    ids, given = ast.unparse(call.args[0]), ""
    if not isinstance(call.args[0], ast.Name):
        given = next(name for name in ("ids", "indices", "ids_of_rows") if name not in names)
        ids, given = given, f"{given} = {ids}\n"
    before = f"{given}{rows} = {ast.unparse(call.func)}({ids})"
    made = _rewrite(
        held, call, f"ops.where(({ids} == {number}).expand_dims(-1), ops.stop_gradient({rows}), {rows})"
    )
    return replace(made, before=before)


_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
_NOT_ALWAYS = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _always(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield what a statement computes once, whatever the values are."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, _NOT_ALWAYS):
            yield child
            yield from _always(child)


def _stopped(target: Graph, node: ast.expr) -> str:
    text = ast.unparse(node)
    if target.origin.framework == "mindspore":
        return f"ops.stop_gradient({text})"
    return (
        f"{text}.detach()" if isinstance(node, (ast.Name, ast.Attribute, ast.Call)) else f"({text}).detach()"
    )


def _rewrite(source: ClassSource, node: ast.expr, text: str) -> Rewrite:
    end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
    return Rewrite(source.whole_file, (node.lineno, node.col_offset, *end), text=text)


def _class_at(graph: Graph, path: str) -> ClassSource | None:
    """Return the source of the class, perhaps a base class, whose method a module runs."""
    part = part_at(graph.origin.model, path) if path else graph.origin.model
    method = "construct" if graph.origin.framework == "mindspore" else "forward"
    owner = next((cls for cls in type(part).__mro__ if method in vars(cls)), None)
    return None if part is None or owner is None else class_source(owner)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _layer_call(held: ClassSource, above: str, path: str) -> ast.Call | None:
    """The one call of ``self.layer`` in a class; None for a layer in a container, and for several calls."""
    name = path.removeprefix(f"{above}." if above else "")
    found = [
        call
        for call in _calls(held.tree)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == name
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "self"
    ]
    return found[0] if len(found) == 1 else None


def _called(graph: Graph, path: str, key: int) -> str | None:
    """Path of the part that a module calls, in which an operator lies; None for one of its own operators."""
    node = graph.node(key)
    if not isinstance(node, Operator):
        return None
    names = graph.modules.call_names()
    below = None
    for call in graph.modules.ancestors(node.call):
        inside = names[call].rpartition("#")[0]
        if inside == path:
            return below
        below = inside
    return None if path else below
