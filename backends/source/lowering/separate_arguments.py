"""separate-arguments: arguments that one call gives one value and another call two stay two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Parameter, Value
from ....passes.base import Change, Pass
from ..modules.contraction import Body, Contraction
from ..operators import ARGUMENT


@dataclass(frozen=True)
class SeparateArguments(Pass):
    """Make arguments distinct values where some calls of a module are given one value for several of them.

    What it does:
        Compares all calls of a module. Where the first is given one value for two arguments
        (``cell(x, zero, zero)``) and another call is given two (``cell(x, h, c)``), puts a
        `regraft.source.Argument` between the value and the second argument of every call. Does the same
        where the first call is given a parameter, such as a first state, and another call something else.

    Why:
        A class is written from the first call, and what its `construct` reads is decided by value.

    Leaves alone:
        Arguments that are one value, or one parameter, in every call.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "cell" Cell called from ["#1", "#1"]
        ...   %x = input "x" : f32[N,4]
        ...   %0 = Sub(%x, %x) : f32[N,4] @ "cell#1"
        ...   %y = Sub(%x, %0) : f32[N,4] @ "cell#2"
        ...   return "y" = %y
        ... }''')
        >>> for change in SeparateArguments().run(graph):
        ...     print(change)
        MS133 an argument stays separate although some calls give it the value of another - at cell
    """

    name: ClassVar[str] = "separate-arguments"
    codes: ClassVar[dict[str, str]] = {
        "MS133": "arguments stay distinct although some calls give them one value"
    }

    def run(self, graph: Graph) -> list[Change]:
        """Separate; see the class."""
        changes: list[Change] = []
        while found := _find_outermost(contraction := Contraction(graph)):
            for module, numbers in found.items():
                _separate(contraction, module, numbers)
                text = "an argument stays separate although some calls give it the value of another"
                changes.append(Change("MS133", text, graph.modules.path(module)))
        return changes


def _find_outermost(contraction: Contraction) -> dict[int, list[int]]:
    """Return modules, none of which calls another, with the numbers of the inputs to separate.

    Those that call others come first: what they are given is distinct in the calls that they make, too.
    """
    called: dict[int, list[Body]] = {}
    for body in contraction.bodies.values():
        called.setdefault(body.module, []).append(body)
    for level in reversed(contraction.heights()):
        found = {
            module: numbers
            for module in level
            if (numbers := _find_merged(contraction.graph, called[module]))
        }
        if found:
            return found
    return {}


def _find_merged(graph: Graph, bodies: list[Body]) -> list[int]:
    """Return the numbers of the inputs that the first call of a module gives no value of their own."""
    first, *others = (body.inputs for body in bodies)

    def is_one_of_several(number: int, value: Value) -> bool:
        varies = any(inputs[number] != value for inputs in others)
        return varies and isinstance(graph.node(value.node), Parameter)

    return [
        number
        for number, value in enumerate(first)
        if value in first[:number] or is_one_of_several(number, value)
    ]


def _separate(contraction: Contraction, module: int, numbers: list[int]) -> None:
    """Give each of these inputs a value of its own in every call of a module."""
    graph, tree = contraction.graph, contraction.tree
    bodies = [contraction.bodies[call.key] for call in tree.calls(module)]
    found = [(body, number, list(contraction.places(body, number))) for number in numbers for body in bodies]
    for body, number, places in found:  # which are found before any of them changes
        value = body.inputs[number]
        builder = Builder(graph, call=tree.call(body.call).parent)
        distinct = builder.op(ARGUMENT, value, types=[graph.type_of(value)])
        for key, slot in places:
            graph.set_operand(key, slot, distinct)
