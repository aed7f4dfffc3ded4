"""Names the attributes of a plan: its modules and layers."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from .chains import Block, Element, Group, Leaf, Step, steps_of
from .name_scopes import by_kind, number_repeats, without_prefix
from .plan import Plan, is_layer


def walk_as_written(elements: Sequence[Element]) -> Iterator[Leaf | Group]:
    """Yield layers, operators and groups in the order in which a person writes them: shortcuts last."""
    for element in elements:
        if not isinstance(element, Block):
            yield element
            continue
        ways = [way for at, way in enumerate(element.ways) if at != element.shortcut]
        ways += [] if element.shortcut is None else [element.ways[element.shortcut]]
        for way in ways:
            if way is not None:
                yield from walk_as_written(way.elements)
        yield element.join


class AttributeNames:
    """Chooses attribute names: the source's where all instances of a class agree, else by kind.

    Args:
        plan: the plan; the ways around of its residual blocks become `downsample`.
    """

    def __init__(self, plan: Plan) -> None:
        self._scopes = plan.scopes
        self._chosen: dict[object, list[str]] = {}
        instances: dict[object, list[Sequence[Element]]] = {}
        for elements in _bodies(plan.body):
            _name_shortcuts(elements)
            instances.setdefault(self._key(elements), []).append(elements)
        for key, rows in instances.items():
            known = {tuple(self._local(row)) for row in rows}
            agreed = known.pop()
            usable = not known and len(set(agreed)) == len(agreed) and not any(map(self._is_scattered, rows))
            self._chosen[key] = list(agreed) if usable else _kinds_of(_members(rows[0]))

    def of(self, elements: Sequence[Element], *, root: bool) -> dict[int, str]:
        """Return the attribute names of one module's elements, by the id of each."""
        members = _members(elements)
        names = number_repeats(self._local(elements)) if root else self._chosen[self._key(elements)]
        taken: dict[str, None] = {}
        rest = iter(names)
        for member in members:
            given = member.name if _is_shortcut(member) else next(rest)
            taken[free_name(given, taken)] = None
        return {id(m): name for m, name in zip(members, taken, strict=True)} | {
            id(m): "" for m in walk_as_written(elements) if isinstance(m, Leaf) and m.step.module is None
        }

    def local_parameter(self, name: str, step: Step) -> str:
        """Return the name of a parameter that an operator reads, without the operator's scope."""
        scope = self._scopes.words(step)[:-1]
        return name.rpartition(f"{'_'.join(scope)}_")[2] if scope else name

    def _key(self, elements: Sequence[Element]) -> object:
        return tuple(
            m.class_name if isinstance(m, Group) else m.step.types
            for m in walk_as_written(elements)
            if not _is_shortcut(m)
        )

    def _local(self, elements: Sequence[Element]) -> list[str]:
        """Return the source's names of the members, without the scope that all of them share."""
        members = [m for m in _members(elements) if not _is_shortcut(m)]
        steps = [m.step for m in members if isinstance(m, Leaf)]
        steps += [s for m in members if isinstance(m, Group) and not m.name for s in steps_of(m)]
        depth = self._scopes.common(steps)
        return without_prefix([self._name_of(m, depth) for m in members])

    def _is_scattered(self, elements: Sequence[Element]) -> bool:
        """Whether layers of one class lie in several scopes of the source, so that their names are long."""
        steps = [s for m in _members(elements) if not _is_shortcut(m) and not m.name for s in steps_of(m)]
        depth = self._scopes.common(steps)
        return any(len(self._scopes.words(step)) > depth + 1 for step in steps)

    def _name_of(self, member: Leaf | Group, depth: int) -> str:
        if isinstance(member, Leaf):
            return _identifier(self._scopes.local(member.step, depth))
        if member.name:
            return _group_name(member)
        if member.class_name.startswith("Conv") and not member.container:
            return _identifier(self._scopes.local(next(steps_of(member)), depth))
        return _kinds_of([member])[0]


def _bodies(elements: Sequence[Element]) -> Iterator[Sequence[Element]]:
    """Yield the elements of every group that becomes a class, these and those inside them."""
    for element in elements:
        if isinstance(element, Group):
            if not element.container:
                yield element.elements
            yield from _bodies(element.elements)
        elif isinstance(element, Block):
            for way in element.ways:
                if way is not None:
                    yield from _bodies(way.elements)


def _members(elements: Sequence[Element]) -> list[Leaf | Group]:
    """Return the elements that become attributes: layers and groups."""
    return [m for m in walk_as_written(elements) if isinstance(m, Group) or m.step.module is not None]


_SHORTCUT = "downsample"


def _name_shortcuts(elements: Sequence[Element]) -> None:
    """Make the layers of each shortcut one container, so that blocks with and without it share a class."""
    for block in elements:
        if isinstance(block, Block) and block.shortcut is not None:
            way = block.ways[block.shortcut]
            first = way.elements[0] if way is not None else None
            if way is None or not all(map(is_layer, way.elements)):
                continue
            if len(way.elements) == 1 and isinstance(first, Leaf) and first.step.module is not None:
                first.name = _SHORTCUT
            else:
                way.elements[:] = [Group(list(way.elements), _SHORTCUT, "Sequential", container=True)]


def _is_shortcut(member: Leaf | Group) -> bool:
    return member.name == _SHORTCUT


def _kinds_of(members: Sequence[Leaf | Group]) -> list[str]:
    """Return names that say what layers and groups are, shortcuts left out."""
    rest = [m for m in members if not _is_shortcut(m)]
    layers = iter(by_kind([m.step for m in rest if isinstance(m, Leaf)]))
    return number_repeats([next(layers) if isinstance(m, Leaf) else _group_name(m) for m in rest])


def _group_name(group: Group) -> str:
    if group.name:
        return _identifier(group.name).lower()
    if group.container:
        units = {e.class_name if isinstance(e, Group) else "" for e in group.elements}
        return "convs" if all(u.startswith("Conv") for u in units) else "blocks"
    if group.class_name.startswith("Conv"):
        return "conv"
    return {"SqueezeExcite": "se", "Transition": "transition", "Fire": "fire"}.get(group.class_name, "block")


def _identifier(name: str) -> str:
    found = name.strip("_") or "layer"
    return f"_{found}" if found[0].isdigit() else found


def free_name(name: str, taken: Container[str]) -> str:
    """Return `name`, or `name` with the first free number from 2 on where it is taken."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found
