"""Anti-unification: modules with one structure share a class; where they differ, it takes an argument."""

from __future__ import annotations

from collections import Counter

from ..expressions import ABSENT, MISSING, Argument, Call, Expression, Literal, Name, Part
from ..modules.cell_builder import CellBuilder
from ..modules.cell_definition import Definition
from ..modules.constructor_arguments import Class, ConstructorArgument, Hole, holes_of, structure, tag_types
from ..names import Names, free_name, identifier
from .align_sequences import align_sequences, define_optional_members
from .class_order import sort_into_levels
from .merge_optional_children import add_optional_arguments, merge_optional_children
from .simplify_arguments import simplify_arguments
from .variadic_inputs import gather_inputs

_OWN_ACTIVATIONS = frozenset(
    name + ending for name in ("SiLU", "Swish", "GELU", "HSwish", "HSigmoid") for ending in ("", "Layer")
)
"""Names that sources give to activations of their own."""


def define_classes(builder: CellBuilder) -> list[Class]:
    """Build every cell, callees first, unify the classes of each level, and return them in writing order."""
    classes: list[Class] = []
    taken: set[str] = set()
    cells, reserved = builder.cells, builder.factories.names()
    for level in sort_into_levels(cells.tree, cells.modules.position, cells.modules.children):
        groups: dict[object, list[Definition]] = {}
        definitions = [
            definition for key in level if (definition := builder.build(key).definition) is not None
        ]
        gather_inputs(definitions, cells.dialect.concatenation)
        align_sequences(definitions)
        for definition in definitions:
            groups.setdefault(structure(definition), []).append(definition)
        merged = merge_optional_children(list(groups.values()))
        names: dict[int, str] = {}
        for definitions, _ in sorted(
            merged, key=lambda group: -len(group[0])
        ):  # the most usual has the plain name
            plain = definitions[0].source_class
            names[definitions[0].module] = cells.dialect.names.class_(plain, taken)
            taken.add(names[definitions[0].module])
        for definitions, optional in merged:
            found = _unify(definitions, names[definitions[0].module], reserved, cells.dialect.names)
            add_optional_arguments(found, optional)
            simplify_arguments(found)
            classes.append(found)
            for at, definition in enumerate(definitions):
                cells.by_module[definition.module].constructor = _construction(found, at)
    return classes


def _unify(definitions: list[Definition], name: str, reserved: set[str], names: Names) -> Class:
    """Return one class for definitions of one structure, with arguments for literals that differ."""
    found = Class(name, definitions)
    columns = list(zip(*(holes_of(d) for d in definitions), strict=True))
    by_values: dict[tuple[object, ...], ConstructorArgument] = {}
    for column in columns:
        hole, values = column[0], tuple(h.literal.value for h in column)
        tags = tag_types(values)
        if any(v is ABSENT for v in values) or len(set(tags)) == 1:
            continue
        argument = by_values.get(tags)
        if argument is None:
            argument = by_values[tags] = ConstructorArgument("", values, hole.default, hint=hole.literal.hint)
            if all(isinstance(v, Name) for v in values):
                argument.default = Counter(values).most_common(1)[0][0]
            elif not any(v == hole.default and type(v) is type(hole.default) for v in values):
                argument.default = MISSING
        argument.in_construct |= hole.in_construct
        found.holes[hole.literal] = argument
    found.arguments = list(by_values.values())
    define_optional_members(found, columns, names)
    written = [next((h for h in c if h.literal.value is not ABSENT), c[0]) for c in columns]
    _name_arguments(found, written, reserved)
    return found


def _name_arguments(class_: Class, holes: list[Hole], reserved: set[str]) -> None:
    """Name the arguments after what they are first used for, and put them in that order."""
    used: dict[ConstructorArgument, list[Hole]] = {}
    for hole in holes:
        argument = class_.holes.get(hole.literal)
        if argument is not None:
            used.setdefault(argument, []).append(hole)
    leaving = [h for h in holes if h.literal.hint == "out_channels" and not h.in_construct]
    last = class_.holes.get(leaving[-1].literal) if leaving else None
    order = {key: at for at, key in enumerate(used)}
    class_.arguments.sort(key=lambda f: order.get(f, len(order)))
    taken = (
        {n for n, _ in class_.instances[0].attributes}
        | {f.name for f in class_.arguments}
        | {"self"}
        | reserved
    )
    for argument in class_.arguments:
        if not argument.name:
            first, *others = used[argument]
            hint = identifier(first.literal.hint)
            inner = argument is not last and any(h.literal.hint == "in_channels" for h in others)
            if hint == "out_channels" and inner:
                hint = "hidden_channels"
            elif hint == "hidden_channels" and first.member:
                hint = f"{first.member}_channels"
            argument.name = _argument_name(hint, first.attribute, taken)
            taken.add(argument.name)
    class_.arguments.sort(key=lambda f: f.default is not MISSING)


def _argument_name(hint: str, attribute: str, taken: set[str]) -> str:
    named = hint in taken and attribute.isidentifier()
    return free_name(f"{attribute}_{hint}" if named else hint, taken)


def _construction(class_: Class, at: int) -> Part:
    """Return how an owner constructs instance number `at`."""
    required = [f for f in class_.arguments if f.default is MISSING]
    arguments = [
        Argument("" if len(required) <= 3 else f.name, Literal(f.values[at], f.name)) for f in required
    ]
    literals = set(class_.holes.values())
    for argument in class_.arguments:
        value = argument.values[at]
        if isinstance(value, (str, Call, Expression)) and argument not in literals:
            arguments.append(Argument(argument.name, value))
        elif argument.default is not MISSING and (argument.default is not None or value is not None):
            arguments.append(Argument(argument.name, Literal(value, argument.name), argument.default))
    source_class = class_.instances[0].source_class
    return Call(
        class_.name,
        tuple(arguments),
        is_exchangeable=source_class in _OWN_ACTIVATIONS,
        source_class=source_class,
    )
