"""legalise: composites that a target does not have are expanded until all that is left is legal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..ir import DOMAIN, Builder, Graph, Missing, Operator, UnsupportedError, Value, expand, walk_operators
from ..ir.analysis.settings import inputs_as_settings, unknown_settings
from ..passes.base import Change, Pass
from ..passes.places import Places

CanEmit = Callable[[Graph, Operator], bool]
"""Whether a backend can emit this operator as it stands."""


@dataclass(frozen=True)
class Legalise(Pass):
    """Expand composites until the target can write every operator.

    What it does:
        Replaces each composite that the target has no form for by its expansion, nested graphs included,
        until nothing is left to expand. With `partial`, an operator without a form or an expansion becomes
        a stub, to be written by hand.

    Why:
        A composite is one layer in one target and several operators in another. The target states which it
        can emit; there is no list of names besides.

    Leaves alone:
        Every operator that the target emits as it stands.

    Refuses:
        Operators that can be neither emitted nor expanded: all of them, in one error, before any file is
        written.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %w = param "weight" : f32[2,4]
        ...   %y = regraft.Linear(%x, %w) : f32[N,2]
        ...   return "y" = %y
        ... }''')
        >>> for change in Legalise("ONNX", lambda graph, node: not node.domain).run(graph):
        ...     print(change)
        LG101 is written out - at `regraft.Linear`
    """

    name: ClassVar[str] = "legalise"
    codes: ClassVar[dict[str, str]] = {
        "LG101": "a layer that the target does not have is written out",
        "LG102": "an operator that the target does not have is left to be written by hand",
    }

    backend: str
    can_emit: CanEmit
    partial: bool = False
    hint: str = ""

    def run(self, graph: Graph) -> list[Change]:
        """Expand; see the class."""
        _refuse_stubs(graph, self.can_emit, self.backend)
        places = Places(graph)
        changes: list[Change] = []
        while pending := [
            (part, node)
            for part, node in walk_operators(graph)
            if node.domain == DOMAIN and not self.can_emit(part, node)
        ]:  # again, since an expansion may hold composites itself, and nested graphs with more of them
            for part, node in pending:
                changes.append(Change("LG101", "is written out", places.of(part, node.key)))
                expand(Builder(part), node.key)
        missing: dict[str, list[str]] = {}
        settings: dict[str, dict[str, None]] = {}
        inputs: dict[str, None] = {}  # of the model, which a caller may make constants
        for part, node in list(walk_operators(graph)):
            if self.can_emit(part, node):
                continue
            if self.partial and not node.subgraphs():
                changes.append(Change("LG102", "is left to be written by hand", places.of(part, node.key)))
                _leave_stub(part, node, f"{self.backend} has no form for it")
            else:
                missing.setdefault(node.qualified_name, []).append(part.describe(node.key))
                found = settings.setdefault(node.qualified_name, {})
                found.update(dict.fromkeys(unknown_settings(part, node)))
                if part is graph and graph.origin.framework == "onnx":
                    inputs.update(dict.fromkeys(inputs_as_settings(part, node)))
        if missing:
            hint = self.hint or "write the part of the model that has them in other operators"
            options = " ".join(f"--constant {name}=VALUE" for name in inputs)
            raise UnsupportedError(
                "E601",
                f"the {self.backend} backend can neither emit nor expand these operators",
                missing=[
                    _missing(name, where, list(settings[name])) for name, where in sorted(missing.items())
                ],
                hint=f"{options} makes constants of inputs; {hint}" if inputs else hint,
            )
        for part in graph.subgraphs() if changes else ():
            part.remove_dead()
        return changes


def _missing(operator: str, places: Sequence[str], settings: Sequence[str]) -> Missing:
    """Describe an operator that is refused; `settings` are what only a run computes and a file must state."""
    if not settings:
        return Missing(operator, tuple(places))
    names = ", ".join(f"`{name}`" for name in settings)
    return Missing(
        operator,
        tuple(places),
        f"{names} would have to be known before a run",
        "make a constant or an initializer of what the model takes as an input or computes from data",
    )


def _leave_stub(part: Graph, node: Operator, reason: str) -> None:
    """Replace an operator by a stub, to be written by hand."""
    operands = part.operands(node.key)
    given = [value for value in operands if value is not None]
    names = iter(range(len(given)))
    arguments = ["None" if value is None else f"x{next(names)}" for value in operands]
    arguments += [f"{name}={value!r}" for name, value in sorted(node.attributes.items())]
    attributes: dict[str, object] = {
        "operator": f"onnx.{node.op_type}",
        "call": f"{node.op_type}({', '.join(arguments)})",
        "reason": reason,
    }
    stub = Operator("Stub", DOMAIN, attributes, list(node.types), node.call, node.location)
    for index, value in enumerate(part.add_operator(stub, given)):
        part.replace_uses(Value(node.key, index), value)
    part.remove(node.key)


def _refuse_stubs(graph: Graph, can_emit: CanEmit, backend: str) -> None:
    """Refuse a graph with stubs for a backend that cannot emit them; names all of them."""
    places: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for part, node in walk_operators(graph):
        if node.qualified_name == "regraft.Stub" and not can_emit(part, node):
            places.setdefault(node.str("operator"), []).append(node.location or part.describe(node.key))
            reasons.setdefault(node.str("operator"), node.str("reason"))
    if places:
        raise UnsupportedError(
            "E601",
            f"the {backend} backend has no place for an operator that is to be written by hand",
            missing=[Missing(name, tuple(where), reasons[name]) for name, where in sorted(places.items())],
            hint="only MindSpore and PyTorch source can hold a stub: ONNX Runtime refuses a function without "
            "a body",
        )
