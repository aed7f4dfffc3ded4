"""Prints a class: its docstring, its constructor, its methods."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import groupby

from ..class_definition import Class, sequence_of
from ..dialect import Dialect
from ..expressions import (
    MISSING,
    Argument,
    Call,
    NnClass,
    NumberedLayers,
    OptionalMember,
    Part,
    Quoted,
    literal_source,
)
from ..formatting import docstring_text
from ..rendering import assignment_text
from .class_renderer import ClassRenderer
from .method import write_methods

_WIDTH = 78
"""Columns of a docstring's text in a class."""


def write_class(class_: Class, dialect: Dialect, grouped: bool, *, marks_undrawn: bool = True) -> str:
    """Return the text of a class.

    Args:
        class_: the class.
        dialect: what is written.
        grouped: whether a pass made its modules.
        marks_undrawn: whether a comment marks parameters whose initial distribution nobody knows.
    """
    definition = class_.instances[0]
    renderer = ClassRenderer(class_)
    signature = ["self"]
    for argument in class_.arguments:
        default = "" if argument.default is MISSING else f"={literal_source(argument.default)}"
        signature.append(f"{argument.name}{default}")
    lines = [
        f"class {class_.name}({renderer.text(definition.base)}):",
        f'    """{docstring_text(_docstring(class_, grouped))}"""',
        "",
    ]
    aliases = [f"{f.name} = {f.fill_template()}" for f in class_.aliases]
    listed = next((part for name, part in definition.attributes if not name), None)
    before, inside = ([], "") if listed is None else _construct_members(class_, renderer, listed)
    start = [*before, f"super().__init__({inside})"]
    setup = [*start, *aliases] if listed is None else [*aliases, *start]
    setup += [f"self.{f.name} = {f.name}" for f in class_.arguments if f.in_method]
    unknown = definition.unknown if marks_undrawn else ()
    undrawn = _runs_of([name for name, _ in definition.attributes], frozenset(unknown))
    for name, part in definition.attributes:
        if name in undrawn:
            setup.append(_undrawn_comment(undrawn[name]))
        if name in class_.branches:
            built = renderer.text(class_.branches[name])
            made = [assignment_text("self", (name,), value) for value in ("None", built)]
            setup += [made[0], f"if {part}:", f"    {made[1]}"]
        elif isinstance(part, NumberedLayers):
            setup += renderer.numbered_layers(part)
        elif dialect.registration and isinstance(part, Call) and part.callee == dialect.registration:
            setup.append(
                renderer.text(replace(part, arguments=(Argument("", Quoted(name)), *part.arguments)))
            )
        elif name:
            before, built = _construct_attribute(class_, renderer, name, part, dialect.sequential)
            setup += [*before, assignment_text("self", (name,), built)]
    for a, b in definition.assignments:
        setup.append(f"{assignment_text('self', a.steps, renderer.text(b))}  # tied")
    if setup != ["super().__init__()"] or not definition.has_body:
        lines += [f"    def __init__({', '.join(signature)}):", *(f"        {line}" for line in setup), ""]
    if definition.has_body:
        texts = ["\n".join(f"    {line}" for line in method) for method in write_methods(class_, dialect)]
        lines.append("\n\n".join(texts))
    return "\n".join(lines) + "\n\n"


def _runs_of(names: Sequence[str], chosen: Set[str]) -> dict[str, int]:
    """Return the first name of each run of chosen ones -> how many there are in the run."""
    runs = [list(run) for is_chosen, run in groupby(names, chosen.__contains__) if is_chosen]
    return {run[0]: len(run) for run in runs}


def _undrawn_comment(count: int) -> str:
    """Return the comment before so many parameters whose initial distributions nobody knows."""
    return f"# {f'the next {count} parameters: ' if count > 1 else ''}initial distribution unknown"


def _construct_members(class_: Class, renderer: ClassRenderer, part: Part) -> tuple[list[str], str]:
    """Return the constructor arguments of a container's base class, and the lines before."""
    members = sequence_of(class_.instances[0].base, "", part)
    if members is None:
        return [], renderer.text(part)
    lines = _collect_members(class_, renderer, members)
    return (lines, "*layers") if lines else ([], renderer.arguments(members))


def _construct_attribute(
    class_: Class, renderer: ClassRenderer, name: str, part: Part, sequential: NnClass
) -> tuple[list[str], str]:
    """Return the constructor of an attribute, and the lines before."""
    members = sequence_of(None, name, part)
    lines = [] if members is None else _collect_members(class_, renderer, members)
    return lines, renderer.text(Call(sequential, (Argument("", "*layers"),)) if lines else part)


def _collect_members(class_: Class, renderer: ClassRenderer, members: Call) -> list[str]:
    """Return statements that collect a sequence's members; none if all instances have all of them."""
    runs: list[tuple[str, list[Argument]]] = []
    for argument in members.arguments:
        member = argument.value
        condition = class_.conditions.get(member) if isinstance(member, OptionalMember) else None
        text = "" if condition is None else condition.text()
        if not runs or runs[-1][0] != text:
            runs.append((text, []))
        runs[-1][1].append(argument)
    if all(not text for text, _ in runs):
        return []
    lines = [] if not runs[0][0] else ["layers = []"]
    for text, run in runs:
        inner = renderer.arguments(Call("", tuple(run)))
        single = len(run) == 1 and lines
        step = f"layers.append({inner})" if single else f"layers {'+=' if lines else '='} [{inner}]"
        lines += [f"if {text}:", f"    {step}"] if text else [step]
    return lines


def _docstring(class_: Class, grouped: bool) -> str:
    """Return a class's docstring: the source class, or that a pass found the structure."""
    definition = class_.instances[0]
    paths = [d.path for d in class_.instances if d.path]
    source = definition.source_class
    if not paths:
        return f"The source's `{source}`."
    lead = "Grouped by name and structure" if grouped else f"The source's `{source}`"
    named = [_name_some(paths, 2), _name_some(paths, 1), f"{len(paths)} modules"]
    return next((t for shown in named if len(t := f"{lead}: {shown}.") <= _WIDTH), f"{lead}.")


def _name_some(paths: list[str], count: int) -> str:
    """Name the first few of several paths, and how many more there are."""
    more = len(paths) - count
    return ", ".join(f"`{path}`" for path in paths[:count]) + (f" and {more} more" if more > 0 else "")
