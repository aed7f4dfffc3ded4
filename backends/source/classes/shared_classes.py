"""Anti-unification: modules with one structure share a class; where they differ, it takes an argument."""

from __future__ import annotations

from collections import Counter

from ..class_definition import Class, ConstructorArgument
from ..definitions import Definition
from ..expressions import ABSENT, MISSING, Argument, Call, Expression, Literal, Member, Name, Part
from ..modules.emitted_net import EmittedNet
from ..names import Names, free_name, identifier
from ..traversal import rebuild
from .align_sequences import align_sequences, define_optional_members
from .factories import Factories
from .merge_optional_children import add_optional_arguments, merge_optional_children
from .numbered_layers import loop_over_numbered_layers
from .simplify_arguments import simplify_arguments
from .structure import LiteralSite, literal_sites, structure, tag_types
from .variadic_inputs import gather_inputs

_OWN_ACTIVATIONS = frozenset(
    name + ending for name in ("SiLU", "Swish", "GELU", "HSwish", "HSigmoid") for ending in ("", "Layer")
)
"""Names that sources give to activations of their own."""


def define_classes(net: EmittedNet) -> tuple[list[Class], Factories]:
    """Unify the definitions of each level; returns the classes in writing order, and their factories."""
    constructors = Constructors(net)
    names, reserved = net.dialect.names, constructors.factories.names()
    classes: list[Class] = []
    taken: set[str] = set()
    for level in net.levels:
        definitions = [found for key in level if (found := net.by_module[key].definition) is not None]
        for definition in definitions:
            definition.attributes = [(n, constructors.resolve(part)) for n, part in definition.attributes]
        gather_inputs(definitions, net.dialect.concatenation)
        loop_over_numbered_layers(definitions, lambda key: net.by_module[key].children.values())
        align_sequences(definitions)
        groups: dict[object, list[Definition]] = {}
        for definition in definitions:
            groups.setdefault(structure(definition), []).append(definition)
        merged = merge_optional_children(list(groups.values()))
        named: dict[int, str] = {}
        for group, _ in sorted(merged, key=lambda group: -len(group[0])):  # the most usual has the plain name
            named[group[0].module] = names.class_(group[0].source_class, taken)
            taken.add(named[group[0].module])
        for group, optional in merged:
            found = _unify(group, named[group[0].module], reserved, names)
            add_optional_arguments(found, optional)
            simplify_arguments(found)
            classes.append(found)
            for at, definition in enumerate(group):
                constructors.made[definition.module] = _construction(found, at)
    return classes, constructors.factories


class Constructors:
    """The constructors by which owners make the modules of a net.

    Attributes:
        factories: functions of the file that many layers are constructed by.
        made: module -> its constructor, for those that are instances of a class which is known.
    """

    def __init__(self, net: EmittedNet) -> None:
        self._net, places = net, net.modules.places
        layers = [key for key in net.modules.position if net.by_module[key].layer is not None]
        placed = [(places[key], net.by_module[key].constructor) for key in layers]
        self.factories = Factories(placed, net.dialect)
        self.made: dict[int, Part] = {}

    def resolve(self, part: Part) -> Part:
        """Return a part with the constructors of the modules in it."""
        if not isinstance(part, Member):
            return rebuild(part, self.resolve)
        if part.module not in self.made:
            found = self._net.by_module[part.module].constructor
            assert found is not None
            self.made[part.module] = self.factories.apply(self.resolve(found))
        return self.made[part.module]


def _unify(definitions: list[Definition], name: str, reserved: set[str], names: Names) -> Class:
    """Return one class for definitions of one structure, with arguments for literals that differ."""
    found = Class(name, definitions)
    columns = list(zip(*(literal_sites(d) for d in definitions), strict=True))
    by_values: dict[tuple[object, ...], ConstructorArgument] = {}
    for column in columns:
        site, values = column[0], tuple(h.literal.value for h in column)
        tags = tag_types(values)
        if any(v is ABSENT for v in values) or len(set(tags)) == 1:
            continue
        argument = by_values.get(tags)
        if argument is None:
            argument = by_values[tags] = ConstructorArgument("", values, site.default, hint=site.literal.hint)
            if all(isinstance(v, Name) for v in values):
                argument.default = Counter(values).most_common(1)[0][0]
            elif not any(v == site.default and type(v) is type(site.default) for v in values):
                argument.default = MISSING
        argument.in_method |= site.in_method
        found.holes[site.literal] = argument
    found.arguments = list(by_values.values())
    define_optional_members(found, columns, names)
    written = [next((h for h in c if h.literal.value is not ABSENT), c[0]) for c in columns]
    _name_arguments(found, written, reserved)
    return found


def _name_arguments(class_: Class, sites: list[LiteralSite], reserved: set[str]) -> None:
    """Name the arguments after what they are first used for, and put them in that order."""
    used: dict[ConstructorArgument, list[LiteralSite]] = {}
    for site in sites:
        argument = class_.holes.get(site.literal)
        if argument is not None:
            used.setdefault(argument, []).append(site)
    leaving = [h for h in sites if h.literal.hint == "out_channels" and not h.in_method]
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
        elif argument.default is not MISSING:
            arguments.append(Argument(argument.name, Literal(value, argument.name), argument.default))
    source_class = class_.instances[0].source_class
    return Call(
        class_.name,
        tuple(arguments),
        is_exchangeable=source_class in _OWN_ACTIVATIONS,
        source_class=source_class,
    )
