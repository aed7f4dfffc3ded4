"""Anti-unification: modules with one structure share a class; where they differ, it takes an argument."""

from __future__ import annotations

from collections import Counter

from ..cells.cell_builder import CellBuilder
from ..cells.cell_draft import Draft
from ..cells.constructor_arguments import Class, Formal, Hole, holes_of, structure, tagged
from ..naming import class_name, free_name, identifier
from ..text.expressions import ABSENT, MISSING, Argument, Call, Expression, Literal, Name, Part
from .align_sequences import align, fill_slots
from .class_order import levels
from .merge_optional_children import add_optional, with_optional_children
from .simplify_arguments import derive
from .variadic_inputs import gather


def define_classes(builder: CellBuilder) -> list[Class]:
    """Build every unit, callees first, and unify the classes of each level; returns them in writing order."""
    classes: list[Class] = []
    taken: set[str] = set()
    cells, reserved = builder.cells, builder.factories.names()
    for level in levels(cells.tree, cells.modules.position, cells.modules.children):
        groups: dict[object, list[Draft]] = {}
        drafts = [draft for key in level if (draft := builder.build(key).draft) is not None]
        gather(drafts)
        align(drafts)
        for draft in drafts:
            groups.setdefault(structure(draft), []).append(draft)
        merged = with_optional_children(list(groups.values()))
        names: dict[int, str] = {}
        for drafts, _ in sorted(
            merged, key=lambda group: -len(group[0])
        ):  # the most usual has the plain name
            names[drafts[0].module] = class_name(drafts[0].source_class, taken)
            taken.add(names[drafts[0].module])
        for drafts, optional in merged:
            found = _unify(drafts, names[drafts[0].module], reserved)
            add_optional(found, optional)
            derive(found)
            classes.append(found)
            for at, draft in enumerate(drafts):
                cells.units[draft.module].constructor = _construction(found, at)
    return classes


def _unify(drafts: list[Draft], name: str, reserved: set[str]) -> Class:
    found = Class(name, drafts)
    columns = list(zip(*(holes_of(d) for d in drafts), strict=True))
    by_values: dict[tuple[object, ...], Formal] = {}
    for column in columns:
        hole, values = column[0], tuple(h.literal.value for h in column)
        tags = tagged(values)
        if any(v is ABSENT for v in values) or len(set(tags)) == 1:
            continue
        formal = by_values.get(tags)
        if formal is None:
            formal = by_values[tags] = Formal("", values, hole.default, hint=hole.literal.hint)
            if all(isinstance(v, Name) for v in values):
                formal.default = Counter(values).most_common(1)[0][0]
            elif not any(v == hole.default and type(v) is type(hole.default) for v in values):
                formal.default = MISSING
        formal.in_construct |= hole.in_construct
        found.holes[id(hole.literal)] = formal
    found.formals = list(by_values.values())
    fill_slots(found, columns)
    written = [next((h for h in c if h.literal.value is not ABSENT), c[0]) for c in columns]
    _name_formals(found, written, reserved)
    return found


def _name_formals(class_: Class, holes: list[Hole], reserved: set[str]) -> None:
    """Name the arguments after what they are first used for, and put them in that order."""
    used: dict[int, list[Hole]] = {}
    for hole in holes:
        formal = class_.holes.get(id(hole.literal))
        if formal is not None:
            used.setdefault(id(formal), []).append(hole)
    leaving = [h for h in holes if h.literal.hint == "out_channels" and not h.in_construct]
    last = class_.holes.get(id(leaving[-1].literal)) if leaving else None
    order = {key: at for at, key in enumerate(used)}
    class_.formals.sort(key=lambda f: order.get(id(f), len(order)))
    taken = (
        {n for n, _ in class_.drafts[0].attributes} | {f.name for f in class_.formals} | {"self"} | reserved
    )
    for formal in class_.formals:
        if not formal.name:
            first, *others = used[id(formal)]
            hint = identifier(first.literal.hint)
            inner = formal is not last and any(h.literal.hint == "in_channels" for h in others)
            if hint == "out_channels" and inner:
                hint = "hidden_channels"
            elif hint == "hidden_channels" and first.member:
                hint = f"{first.member}_channels"
            formal.name = _formal_name(hint, first.attribute, taken)
            taken.add(formal.name)
    class_.formals.sort(key=lambda f: f.default is not MISSING)


def _formal_name(hint: str, attribute: str, taken: set[str]) -> str:
    named = hint in taken and attribute.isidentifier()
    return free_name(f"{attribute}_{hint}" if named else hint, taken)


def _construction(class_: Class, at: int) -> Part:
    """How an owner constructs instance number `at`."""
    required = [f for f in class_.formals if f.default is MISSING]
    arguments = [
        Argument("" if len(required) <= 3 else f.name, Literal(f.values[at], f.name)) for f in required
    ]
    literals = {id(f) for f in class_.holes.values()}
    for formal in class_.formals:
        value = formal.values[at]
        if isinstance(value, (str, Call, Expression)) and id(formal) not in literals:
            arguments.append(Argument(formal.name, value))
        elif formal.default is not MISSING and (formal.default is not None or value is not None):
            arguments.append(Argument(formal.name, Literal(value, formal.name), formal.default))
    return Call(class_.name, tuple(arguments))
