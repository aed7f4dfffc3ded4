"""Compares the settings of paired modules, as their operators have them: padding and the like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...frontends.class_source import is_library_class
from ...frontends.constructions import part_at
from ...ir import Graph, Operator
from .operator_settings import COUNTED, READ, WRITTEN_OUT, Read, Side, is_same, on_the_same_axes
from .padding_before import arguments_of_padding, call_behind_padding
from .remedies import (
    Arguments,
    arguments_for,
    body_of,
    expression_of,
    function_for,
    line_of,
    place_of,
    spelled,
    without_output_padding,
)

COUNT = "number of"
"""Beginning of the setting of modules of which one has more operators of a type."""

_LINES = 4
"""Lines of the source that a remedy names."""

_TRAINING = ("momentum",)
_REMARKS = {
    "momentum": "this momentum is the share of the old statistics that is kept, as MindSpore counts; "
    "PyTorch's is 1 minus it"
}


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The wanted form of an expression or a statement in a user's method.

    Attributes:
        file: the file.
        span: the expression's first line, first byte, last line and the byte behind it.
        arguments: of a call: keyword -> source code.
        places: of each argument among those without keyword; -1 for one that is not among them.
        text: the expression that replaces it, where that is another one, or the statements.
        before: statements to put before that of the expression.
        kind: "expression"; "last" for statements at the end of the constructor that begins at the first line;
            "delete" for the statement there.
    """

    file: str
    span: tuple[int, int, int, int]
    arguments: Arguments = ()
    places: tuple[int, ...] = ()
    text: str = ""
    before: str = ""
    kind: Literal["expression", "last", "delete"] = "expression"


@dataclass(frozen=True, slots=True)
class AttributeRow:
    """One setting in which two paired modules differ.

    Attributes:
        module: path in the source.
        target: path in the target.
        class_name: class in the target.
        attribute: ``epsilon``, ``padding``…; ``number of Add``, ``order of calls`` for structure.
        source: its value in the source.
        target_value: its value in the target.
        training: whether it acts in training only.
        structure: whether it is what the modules are made of, which may differ and compute the same.
        remark: what the value means.
        arguments: what to write in the constructor of the target's layer: keyword -> source code.
        statement: what to write where no constructor takes it.
        place: file and line of the target to write it at.
        rewrite: how the expression there is to be written; None where it is no method's.
    """

    module: str
    target: str
    class_name: str
    attribute: str
    source: object
    target_value: object
    training: bool = False
    structure: bool = False
    remark: str = ""
    arguments: Arguments = ()
    statement: str = ""
    place: str = ""
    rewrite: Rewrite | None = None

    @property
    def write(self) -> str:
        """The text to write in the target; empty if it is unknown."""
        return spelled(self.arguments) or self.statement

    def __str__(self) -> str:
        return f"{self.attribute} {shown(self.source)} against {shown(self.target_value)}"


def shown(value: object) -> str:
    """A setting as a report writes it."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def compare_attributes(
    source: Graph, target: Graph, modules: Mapping[str, str]
) -> tuple[list[AttributeRow], list[AttributeRow]]:
    """The settings in which paired modules differ, in the order of the source's calls, and those that agree.

    Args:
        source: the source's graph, captured.
        target: the target's.
        modules: path of a module in the source -> in the target.
    """
    held = [by_module(source, set(modules)), by_module(target, set(modules.values()))]
    order, calls = _called(source), target.modules.call_names()
    rows: list[AttributeRow] = []
    equal: list[AttributeRow] = []
    for path in sorted(modules, key=lambda p: order.get(p, len(order))):
        other = modules[path]
        name = class_name_of(target, other)
        sides = Side(source, held[0].get(path, [])), Side(target, held[1].get(other, []))
        for setting, mine, theirs, agree in _settings(*sides):
            training, remark = setting in _TRAINING, _REMARKS.get(setting, "")
            value = mine.values[setting]
            layer = _layer_of(target, theirs.operator, other, calls)
            row = AttributeRow(
                path,
                layer,
                class_name_of(target, layer),
                setting,
                value,
                theirs.values[setting],
                training,
                remark=remark,
            )
            (equal if agree else rows).append(_advised(row, target, mine.whole, theirs.operator))
        if _is_leaf(source, path) and _is_leaf(target, other):  # one layer may be several operators
            rows += _functions(path, other, source, target, sides)
            continue
        for op_type, a, b in _numbers(*sides):
            at = list(dict.fromkeys(line for o in sides[0].counted(op_type) if (line := line_of(o))))
            some = (
                f" of the source ({', '.join(at[:_LINES])}{', …' if len(at) > _LINES else ''})" if at else ""
            )
            rows.append(
                AttributeRow(
                    path,
                    other,
                    name,
                    f"{COUNT} {op_type}",
                    a,
                    b,
                    structure=True,
                    statement=f"the {a} `{op_type}`{some}" if a else f"no `{op_type}`",
                    place=body_of(target, other),
                )
            )
    return rows + _orders(source, target, modules), equal


def moved(source: Graph, target: Graph, rows: Sequence[AttributeRow]) -> list[AttributeRow]:
    """Rows of operators that only lie in another module: both graphs have as many in all.

    Args:
        source: the source's graph.
        target: the target's.
        rows: what `compare_attributes` found.
    """
    sides = Side(source, source.operators()), Side(target, target.operators())
    equal = {
        f"{COUNT} {op_type}" for op_type in COUNTED if sides[0].count(op_type) == sides[1].count(op_type)
    }
    return [row for row in rows if row.structure and row.attribute in equal]


def _is_leaf(graph: Graph, path: str) -> bool:
    module = graph.modules.find(path)
    return module is not None and bool(path) and not module.children


def _layer_of(graph: Graph, operator: Operator, path: str, calls: Mapping[int, str]) -> str:
    """The path of the library's layer that an operator is of, which no layer of the source's need stand for.

    Args:
        graph: the graph.
        operator: one of its operators.
        path: the paired module that holds it, for one of no layer.
        calls: key of a call -> its name.
    """
    inner = "" if operator.call is None else calls[operator.call].rpartition("#")[0]
    part = part_at(graph.origin.model, inner) if _is_leaf(graph, inner) else None
    return inner if part is not None and is_library_class(type(part)) else path


def class_name_of(graph: Graph, path: str) -> str:
    """Return the class of a module; empty where there is none."""
    module = graph.modules.find(path)
    return "" if module is None else module.class_name


def by_module(graph: Graph, paired: set[str]) -> dict[str, list[Operator]]:
    """Path of a paired module -> the operators of its first call that no paired module in it has."""
    names = graph.modules.call_names()
    found: dict[str, list[Operator]] = {}
    for operator in sorted(graph.operators(), key=lambda o: o.key):
        for call in graph.modules.ancestors(operator.call):
            path, _, number = names[call].rpartition("#")
            if path in paired:
                if number == "1":
                    found.setdefault(path, []).append(operator)
                break
        else:
            found.setdefault("", []).append(operator)
    return found


def _advised(
    row: AttributeRow, target: Graph, whole: dict[str, list[int]] | None, operator: Operator | None = None
) -> AttributeRow:
    """A row with what to write in the target, and where."""
    framework = target.origin.framework
    arguments = arguments_for(framework, row.class_name, row.attribute, row.source, whole)
    if row.attribute == "padding" and "output_padding" not in dict(arguments):
        arguments += without_output_padding(target, row.target) if arguments else ()
    statement = "" if arguments else function_for(framework, row.attribute, row.source)
    if row.attribute == "padding_mode" and whole is not None:
        mode, pads = str(row.source), whole["padding"]
        arguments = arguments_of_padding(framework, row.class_name, mode, pads)
        layer = expression_of(row.target)
        statement = "" if arguments else call_behind_padding(framework, layer, mode, pads)
    place = place_of(target, row.target, operator)
    return replace(row, arguments=arguments, statement=statement, place=place)


def _settings(source: Side, target: Side) -> Iterator[tuple[str, Read, Read, bool]]:
    """(attribute, the operator of the source, of the target, whether they agree), operator by operator."""
    for op_type, attributes in READ.items():
        read = [source.read(op_type), target.read(op_type)]
        if op_type in WRITTEN_OUT and len(read[0]) != len(read[1]):
            written = WRITTEN_OUT[op_type]
            read = [read[0] or written(source), read[1] or written(target)]
        if len(read[0]) != len(read[1]):
            continue
        for mine, theirs in zip(*read, strict=True):
            mine, theirs = on_the_same_axes(mine, theirs)
            for attribute in attributes:
                a, b = mine.values.get(attribute), theirs.values.get(attribute)
                if a is None or b is None:
                    continue
                agree = is_same(a, b)
                if attribute in _PADDINGS and _leaves_padding(attribute, mine, theirs):
                    continue
                if attribute == "ceil_mode" and mine.values["output"] == theirs.values["output"]:
                    agree = True
                if attribute == "strides" and _has_one_window(mine) and _has_one_window(theirs):
                    agree = True
                if attribute == "count_include_pad" and not (_is_padded(mine) or _is_padded(theirs)):
                    agree = True
                yield attribute, mine, theirs, agree


_PADDINGS = ("padding", "padding_mode")


def _leaves_padding(attribute: str, mine: Read, theirs: Read) -> bool:
    """Whether something else states a difference in padding: the search its amount in a call, or its mode."""
    modes = [read.values.get("padding_mode") for read in (mine, theirs)]
    return theirs.behind or (attribute == "padding" and modes[0] != modes[1])


def _has_one_window(read: Read) -> bool:
    """Whether a pool gives one number a channel, so that its window never moves."""
    output = read.values["output"]
    return read.operator.traits.pool and isinstance(output, tuple) and set(output) == {1}


def _is_padded(read: Read) -> bool:
    """Whether a window may reach padding: "SAME_…" is what nobody could work out."""
    padding = read.values.get("padding")
    return any(padding) if isinstance(padding, list) else padding is not None


def _functions(
    path: str, other: str, source: Graph, target: Graph, sides: tuple[Side, Side]
) -> Iterator[AttributeRow]:
    """Two layers without parameters that are one operator each, and another one: a ReLU6 for a ReLU."""
    kinds = [[(o.domain, o.op_type) for o in side.operators] for side in sides]
    held = [m.parameters for m in (source.modules.find(path), target.modules.find(other)) if m is not None]
    if [len(found) for found in kinds] == [1, 1] and kinds[0] != kinds[1] and not any(held):
        names = class_name_of(source, path), class_name_of(target, other)
        yield AttributeRow(
            path,
            other,
            names[1],
            "layer",
            *names,
            structure=True,
            statement=f"what computes the source's `{names[0]}`",
            place=place_of(target, other, sides[1].operators[0]),
        )


def _numbers(source: Side, target: Side) -> Iterator[tuple[str, int, int]]:
    """(operator, how many the source has, the target) where one of two modules has more.

    Nothing is told of modules of which one has in one operator (attention) what the other may write out.
    """
    if source.whole() != target.whole():
        return
    for op_type in COUNTED:
        a, b = source.count(op_type), target.count(op_type)
        if a != b:
            yield op_type, a, b


def _orders(source: Graph, target: Graph, modules: Mapping[str, str]) -> list[AttributeRow]:
    """Modules whose paired children are called in another order."""
    places = [_called(source), _called(target)]
    back = {other: path for path, other in modules.items()}
    parts_of = [_parts(modules, places[0]), _parts(back, places[1])]
    rows: list[AttributeRow] = []
    for path, other in modules.items():
        mine, theirs = parts_of[0].get(path, []), set(parts_of[1].get(other, []))
        common = {p for p in mine if modules[p] in theirs}
        sequences = (
            tuple(sorted(common, key=places[0].__getitem__)),
            tuple(sorted(common, key=lambda p: places[1][modules[p]])),
        )
        if sequences[0] == sequences[1]:
            continue
        named = [tuple(modules[p] for p in s) for s in sequences]
        if _is_needed(source, *sequences) or _is_needed(target, *reversed(named)):
            at = next(i for i, (a, b) in enumerate(zip(*sequences, strict=True)) if a != b)
            parts = [tuple(p.removeprefix(f"{path}.") for p in s[at : at + 3]) for s in sequences]
            name = class_name_of(target, other)
            rows.append(AttributeRow(path, other, name, "order of calls", parts[0], parts[1], structure=True))
    return rows


def _parts(known: Mapping[str, str], called: Mapping[str, int]) -> dict[str, list[str]]:
    """Path of a known module -> those called that it is the innermost one around."""
    found: dict[str, list[str]] = {}
    for path in known:
        if path and path in called:
            found.setdefault(above(path, known), []).append(path)
    return found


def _is_needed(graph: Graph, order: Sequence[str], other: Sequence[str]) -> bool:
    """Whether a module needs what another gives that an other order calls after it; branches do not."""
    place = {path: at for at, path in enumerate(other)}
    names = graph.modules.call_names()
    made: dict[str, set[int]] = {path: set() for path in order}
    for operator in graph.operators():
        for call in graph.modules.ancestors(operator.call):
            made.get(names[call].rpartition("#")[0], set()).add(operator.key)
    for at, path in enumerate(order):
        later = {key for q in order[at + 1 :] if place[q] < place[path] for key in made[q]}
        seen, stack = set(made[path]), list(made[path]) if later else []
        while stack:
            fresh = [key for key in graph.flow.succ[stack.pop()] if key not in seen]
            if later.intersection(fresh):
                return True
            seen.update(fresh)
            stack += fresh
    return False


def above(path: str, known: Mapping[str, str]) -> str:
    """Return the innermost known module around a path."""
    path = path.rpartition(".")[0]
    while path and path not in known:
        path = path.rpartition(".")[0]
    return path


def _called(graph: Graph) -> dict[str, int]:
    """Path of a module -> place of its first call."""
    found: dict[str, int] = {}
    for at, name in enumerate(graph.modules.call_names().values()):
        found.setdefault(name.rpartition("#")[0], at)
    return found
