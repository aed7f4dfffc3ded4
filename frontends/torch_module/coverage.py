"""Finds operators of a program with a lowering, or an expansion into operators with one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .complex_numbers import InParts, in_parts
from .decompositions import Untraceable, decomposed
from .export.tensors import tensor_placeholders
from .nodes import (
    CONTROL_FLOW,
    IGNORED,
    RELEASE,
    RUN_WHOLE,
    functional_name,
    graph_modules,
    is_structural,
    is_tensor_result,
    target_name,
)
from .operators import TABLE
from .refusals import COMPLEX, explain_missing, has_complex

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node

    from .source_places import NodePlaces
    from .symbols import Symbols


class SpecialisedError(Exception):
    """The decomposition of an operator makes constants of symbolic sizes."""


class Coverage:
    """The way to lower each operator of a program that has no lowering.

    Args:
        program: the program.
        symbols: its symbolic sizes.
        places: of its nodes, for messages.

    Attributes:
        symbolic: how many sizes of the inputs are symbolic.
        decomposed: node -> the program of simpler operators, and the nodes that feed it.
        in_parts: node that has complex tensors -> the program on their real and imaginary parts.
        reasons: name of an operator -> why it has no expansion.
    """

    def __init__(self, program: ExportedProgram, symbols: Symbols, places: NodePlaces) -> None:
        self._program, self._symbols, self._places = program, symbols, places
        self.symbolic = self._count_symbolic()
        self.decomposed: dict[Node, tuple[GraphModule, list[Node]]] = {}
        self.in_parts: dict[Node, InParts] = {}
        self.reasons: dict[str, str] = {}

    def missing(self) -> list[tuple[str, Node]]:
        """Return every use of an operator without a lowering or expansion, with the operator's name.

        Raises:
            SpecialisedError: when an expansion needs static sizes.
        """
        return [
            (name, node)
            for module in graph_modules(self._program.graph_module)
            for node in module.graph.nodes
            if (name := self._missing_name(node)) is not None
        ]

    def refuse(self, missing: list[tuple[str, Node]]) -> None:
        """Refuse all missing operators at once, if there are any.

        Raises:
            UnsupportedError: listing them, with the places of all their uses.
        """
        first = dict(reversed(missing))
        TABLE.refuse(
            ((name, self._places.of(node)) for name, node in missing),
            explain=lambda name, places: explain_missing(
                name, places, first[name], self.reasons.get(name, "")
            ),
        )

    def expand(self, node: Node, depth: int = 3) -> bool:
        """Decompose one operator, with the operators that this gives; False where some have no lowering.

        Raises:
            SpecialisedError: when that needs static sizes.
        """
        found, name = None, target_name(node.target)
        try:
            found = decomposed(node)
        except Untraceable as refusal:
            if self.symbolic:
                raise SpecialisedError(name) from refusal
            self.reasons[name] = str(refusal)
        if not self._is_still_symbolic():
            raise SpecialisedError(name)
        if found is None or any(self._missing_name(n, depth) for n in found[0].graph.nodes):
            return False
        self.decomposed[node] = found
        return True

    def _missing_name(self, node: Node, depth: int = 3) -> str | None:
        """Return the operator's name if it has no lowering and no decomposition into lowered ones."""
        if has_complex(node) and is_tensor_result(node) and not is_structural(node):
            return None if self._expand_complex(node, depth) else target_name(node.target)
        name = _required_name(node)
        if name is None:
            return None
        return None if depth and self.expand(node, depth - 1) else name

    def _expand_complex(self, node: Node, depth: int) -> bool:
        """Find how to run a call on complex tensors; False where some operator has no lowering."""
        name = target_name(node.target)
        try:
            found = in_parts(node)
        except Untraceable as refusal:
            if self.symbolic:
                raise SpecialisedError(name) from refusal
            self.reasons[name] = str(refusal)
            return False
        if not self._is_still_symbolic():
            raise SpecialisedError(name)
        self.reasons.setdefault(name, COMPLEX)
        if found is None:
            return bool(depth) and self.expand(node, depth - 1)
        if any(self._missing_name(n, depth) for n in found.body.graph.nodes):
            return False
        self.in_parts[node] = found
        return True

    def _is_still_symbolic(self) -> bool:
        """Whether the inputs' symbolic sizes still are: tracing a decomposition may have fixed them."""
        return self._count_symbolic() == self.symbolic

    def _count_symbolic(self) -> int:
        fakes = [node.meta["val"] for node in tensor_placeholders(self._program)]
        return sum(not isinstance(size, int) for fake in fakes for size in self._symbols.sizes(fake))


def _required_name(node: Node) -> str | None:
    """Return the table name that a node needs, or None where none is needed."""
    if node.op != "call_function":
        return None
    name = target_name(node.target)
    if name in IGNORED or name == RELEASE or name in TABLE or name.startswith(("operator.", "math.")):
        return None
    if name in RUN_WHOLE or name in CONTROL_FLOW or not is_tensor_result(node):
        return None
    functional = functional_name(node.target)
    return name if functional is None or functional not in TABLE else None
