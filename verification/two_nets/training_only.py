"""Compares training-only facts that are not settings: stopped gradients, frozen parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...frontends.assigned_parameters import assigned_in_class
from ...frontends.class_source import is_library_class, object_name
from ...frontends.constructions import part_at
from ...frontends.whose_code import is_users_file
from ...ir import Graph, Operator, Parameter, Value
from .attributes import AttributeRow, Rewrite, by_module, class_name_of
from .gradient_rewrites import padded_rows, with_stop, without_stop
from .operator_settings import Side
from .pairing import Pairing
from .remedies import body_of, expression_of, line_of, place_of

PADDING = "padding_idx"
STOPPED = "stop_gradient"

_PADDED = "regraft.PaddedEmbedding"
_STOP = "regraft.StopGradient"
_REMARK = "the row that gets no gradient; MindSpore's padding_idx only zeroes it at the start, and trains it"


@dataclass(frozen=True, slots=True)
class FrozenRow:
    """A parameter that one net alone trains.

    Attributes:
        target: its name in the target.
        in_source: whether it is the source that freezes it.
        place: the line of the target that constructs its layer.
    """

    target: str
    in_source: bool
    place: str


@dataclass(frozen=True, slots=True)
class Freeze:
    """Statements that freeze what the source freezes, for the end of the target's constructor.

    Attributes:
        file: the file of the target's class.
        line: of its `__init__`.
        statement: the source code, without indentation; empty for none.
        unwanted: lines of statements that freeze what the source trains.
    """

    file: str
    line: int
    statement: str
    unwanted: tuple[int, ...] = ()


def stopped_gradients(source: Graph, target: Graph, modules: Mapping[str, str]) -> list[AttributeRow]:
    """Return rows of paired modules for rows of tables without gradient, and for stopped gradients.

    Args:
        source: the source's graph.
        target: the target's.
        modules: path of a module in the source -> in the target.
    """
    held = [by_module(source, set(modules)), by_module(target, set(modules.values()))]
    rows: list[AttributeRow] = []
    for path, other in modules.items():
        module = target.modules.find(other)
        sides = Side(source, held[0].get(path, [])), Side(target, held[1].get(other, []))
        rows += _of_module(modules, (path, other), "" if module is None else module.class_name, sides)
    return rows


def kept_statistics(source: Graph, target: Graph, modules: Mapping[str, str]) -> list[AttributeRow]:
    """Return rows of paired normalisations of which one alone keeps its statistics in training.

    Args:
        source: the source's graph.
        target: the target's.
        modules: path of a module in the source -> in the target.
    """
    rows: list[AttributeRow] = []
    for path, other in modules.items():
        a, b = _keeps_statistics(source, path), _keeps_statistics(target, other)
        if a is None or b is None or a == b:
            continue
        written = target.origin.framework == "mindspore"
        mode = "eval" if a else "train"
        rows.append(
            AttributeRow(
                path,
                other,
                class_name_of(target, other),
                "statistics",
                *("kept" if kept else "moved" for kept in (a, b)),
                training=True,
                arguments=(("use_batch_statistics", "False" if a else "None"),) if written else (),
                statement="" if written else f"{mode}() of it in the net's train()",
                place=place_of(target, other),
            )
        )
    return rows


def _keeps_statistics(graph: Graph, path: str) -> bool | None:
    """Whether a library's normalisation does not move its statistics in training; None for another layer."""
    part = part_at(graph.origin.model, path) if path else None
    if part is None or not is_library_class(type(part)) or not type(part).__name__.startswith("BatchNorm"):
        return None
    if graph.origin.framework == "mindspore":
        return getattr(part, "use_batch_statistics", None) is False
    return False


def _of_module(
    modules: Mapping[str, str], paths: tuple[str, str], class_name: str, sides: tuple[Side, Side]
) -> Iterator[AttributeRow]:
    path, other = paths
    source, target = sides[0].graph, sides[1].graph
    tables = [_tables(side) for side in sides]
    stops = [[o for o in side.operators if o.qualified_name == _STOP] for side in sides]
    if len(tables[0]) == len(tables[1]) and any(_trains(source, t) for t in tables[0]):
        for mine, theirs in zip(*tables, strict=True):
            a, b = _padding(sides[0], mine), _padding(sides[1], theirs)
            if a == b or not _trains(source, mine):
                continue
            yield _advice(target, path, other, class_name, a, b, theirs)
        stops = [[o for o in s if not _stops_table(side, o)] for s, side in zip(stops, sides, strict=True)]
    if len(stops[0]) != len(stops[1]):
        call = "ops.stop_gradient" if target.origin.framework == "mindspore" else "detach"
        lines = [line for o in stops[0] if (line := line_of(o))]
        more = len(stops[0]) > len(stops[1])
        where = f", as at {', '.join(lines[:3])} of the source" if lines and more else ""
        made = _stop_or_none(source, target, modules, paths, stops)
        extra = next((line for o in stops[1] if (line := line_of(o))), "")
        yield AttributeRow(
            path,
            other,
            class_name,
            STOPPED,
            len(stops[0]),
            len(stops[1]),
            training=True,
            structure=True,
            statement=f"{call}(…){where}" if more else f"no `{call}`",
            place=_line(made) or (body_of(target, other) if more or not extra else extra),
            rewrite=made,
        )


def _advice(
    target: Graph, path: str, other: str, class_name: str, a: int | None, b: int | None, node: Operator
) -> AttributeRow:
    """Return the row of a table whose row `a` gets no gradient in the source, and `b` in the target."""
    shown = ["none" if n is None else n for n in (a, b)]
    torch = target.origin.framework == "torch"
    statement = "the rows that it gives as they are, without ops.stop_gradient"
    if a is not None:
        padded = f"ops.where((ids == {a}).expand_dims(-1), ops.stop_gradient(rows), rows)"
        statement = f"{padded} in place of the rows that it gives"
    return AttributeRow(
        path,
        other,
        class_name,
        PADDING,
        *shown,
        training=True,
        remark="" if torch else _REMARK,
        arguments=((PADDING, str(a)),) if torch and class_name.startswith("Embedding") else (),
        statement="" if torch and class_name.startswith("Embedding") else statement,
        place=place_of(target, other, node),
        rewrite=None if torch or a is None or b is not None else padded_rows(target, other, a),
    )


def _stop_or_none(
    source: Graph,
    target: Graph,
    modules: Mapping[str, str],
    paths: tuple[str, str],
    stops: list[list[Operator]],
) -> Rewrite | None:
    """Return the edit that adds or removes a stopped gradient which only one net has."""
    if len(stops[0]) + len(stops[1]) != 1:
        return None
    if stops[1]:
        return without_stop(target, paths[1], stops[1][0])
    return with_stop(source, target, modules, paths, stops[0][0])


def _line(made: Rewrite | None) -> str:
    return "" if made is None else f"{Path(made.file).name}:{made.span[0]}"


def _tables(side: Side) -> list[Operator]:
    """Return what reads rows of a parameter by computed numbers."""
    found: list[Operator] = []
    for node in side.operators:
        if node.qualified_name not in (_PADDED, "Gather"):
            continue
        table, ids = side.graph.operands(node.key)[:2]
        if table is None or ids is None or side.graph.constant_value(ids) is not None:
            continue
        if isinstance(side.graph.node(table.node), Parameter):
            found.append(node)
    return found


def _trains(graph: Graph, node: Operator) -> bool:
    table = graph.operands(node.key)[0]
    parameter = None if table is None else graph.node(table.node)
    return isinstance(parameter, Parameter) and parameter.trainable and not parameter.is_buffer


def _padding(side: Side, node: Operator) -> int | None:
    """Return the row of a table that gets no gradient, as an attribute or written out with Where."""
    if node.qualified_name == _PADDED:
        rows = side.graph.type_of(side.graph.operands(node.key)[0] or Value(node.key))
        given = node.int("padding_idx")
        size = None if rows is None or rows.shape is None else rows.shape[0]
        return given + size if given < 0 and isinstance(size, int) else given
    for stop, _ in side.graph.users(Value(node.key)):
        if not _is_operator(side.graph, stop, _STOP):
            continue
        for where, slot in side.graph.users(Value(stop)):
            condition = side.graph.operands(where)[0]
            if _is_operator(side.graph, where, "Where") and slot > 0 and condition is not None:
                number = _compared_with(side.graph, condition)
                if number is not None:
                    return number
    return None


def _compared_with(graph: Graph, condition: Value, steps: int = 8) -> int | None:
    """Return the number that indices are compared with for a condition; None where none is found."""
    stack = [condition]
    while stack and steps:
        steps -= 1
        node = graph.node(stack.pop().node)
        if not isinstance(node, Operator):
            continue
        operands = [v for v in graph.operands(node.key) if v is not None]
        if node.op_type == "Equal":
            arrays = [graph.constant_value(v) for v in operands]
            known = [a for a in arrays if a is not None and a.size == 1]
            return int(known[0].reshape(())) if known else None
        stack += operands[:1]
    return None


def _stops_table(side: Side, node: Operator) -> bool:
    """Whether a stopped gradient is that of a table's row, which is no stop of its own."""
    value = side.graph.operands(node.key)[0]
    read = None if value is None else side.graph.node(value.node)
    return isinstance(read, Operator) and read.op_type == "Gather" and _padding(side, read) is not None


def _is_operator(graph: Graph, key: int, name: str) -> bool:
    node = graph.node(key)
    return isinstance(node, Operator) and node.qualified_name == name


def frozen_rows(pairing: Pairing) -> list[FrozenRow]:
    """Return the parameters that one of two nets alone trains."""
    source, target = pairing.source.graph, pairing.target.graph
    rows: list[FrozenRow] = []
    for (a, b), pair in pairing.parameters.items():
        mine, theirs = source.parameter(a), target.parameter(b)
        if mine.is_buffer or theirs.is_buffer or mine.trainable == theirs.trainable:
            continue
        layer = pair.target.rpartition(".")[0]
        rows.append(FrozenRow(pair.target, not mine.trainable, place_of(target, layer)))
    return rows


def freeze_of(target: Graph, rows: Sequence[FrozenRow]) -> Freeze | None:
    """Return the statements by which the target freezes and trains what the source does; None for no edit.

    Args:
        target: the target's graph.
        rows: what one net alone trains.
    """
    model = target.origin.model
    constructor = vars(type(model)).get("__init__")
    code = getattr(constructor, "__code__", None)
    if not rows or code is None or not is_users_file(code.co_filename):
        return None
    wanted = [row.target for row in rows if row.in_source]
    trained = [row.target for row in rows if not row.in_source]
    held = {name: target.parameter(key) for key, names in target.parameter_paths().items() for name in names}
    parts = list(_wholes(wanted, held))
    read = "get_parameters" if target.origin.framework == "mindspore" else "parameters"
    owner, lines = object_name(code), list[str]()
    layers = [expression_of(p, owner) for p in parts if p not in wanted]
    if layers:
        listed = f"({', '.join(layers)}{',' if len(layers) == 1 else ''})"
        lines += [f"for part in {listed}:", f"    for parameter in part.{read}():"]
        lines += ["        parameter.requires_grad = False"]
    lines += [f"{expression_of(p, owner)}.requires_grad = False" for p in parts if p in wanted]
    freezing = {
        found.path.removesuffix(".requires_grad"): found.line
        for found in assigned_in_class(type(model))
        if found.path.endswith(".requires_grad") and found.whole_file == code.co_filename
    }
    # one by one, as a layer's statistics are parameters too
    lines += [
        f"{expression_of(name, owner)}.requires_grad = True" for name in trained if name not in freezing
    ]
    unwanted = tuple(freezing[name] for name in trained if name in freezing)
    return Freeze(str(Path(code.co_filename)), code.co_firstlineno, "\n".join(lines), unwanted)


def _wholes(wanted: Sequence[str], held: Mapping[str, Parameter]) -> Iterator[str]:
    """Yield the outermost parts all of whose trained parameters are wanted, and single parameters."""
    trained = {name for name, p in held.items() if p.trainable and not p.is_buffer}
    rest, told = set(wanted), set[str]()
    for name in wanted:
        if name in told:
            continue
        path = name.split(".")
        for size in range(1, len(path) + 1):
            prefix = ".".join(path[:size])
            within = {n for n in trained if n == prefix or n.startswith(f"{prefix}.")}
            if within and within <= rest:
                told |= within
                yield prefix
                break
