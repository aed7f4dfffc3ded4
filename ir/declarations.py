"""Declarations of operators that ONNX does not have: composites, and operators of one target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import InvalidGraphError
from .outside.names import near_names
from .signatures import DOMAIN, AttributeSpec, Formal, Signature
from .table import Table
from .traits import NO_TRAITS, Traits
from .types import TensorType

if TYPE_CHECKING:
    from .nodes import Operator

InferTypes = Callable[["Operator", Sequence[TensorType | None]], list[TensorType | None]]
"""(operator, operand types) -> output types."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """An operator that ONNX does not have, with its signature, typing rule and traits."""

    signature: Signature
    infer: InferTypes
    summary: str
    traits: Traits


class DeclarationTable(Table[Declaration]):
    """The operators that only one target has, in a domain of its own such as ``regraft.mindspore``.

    They are typed, validated, printed and parsed as all others; no other backend meets them.
    """

    def __init__(self, domain: str) -> None:
        super().__init__()
        self.domain = domain

    def add(
        self,
        name: str,
        *,
        inputs: str,
        outputs: str = "Y",
        attributes: Sequence[AttributeSpec] = (),
        infer: InferTypes,
        summary: str,
        traits: Traits = NO_TRAITS,
    ) -> None:
        """Declare an operator; see `CompositeTable.add`."""
        signature = make_signature(name, self.domain, inputs, outputs, attributes)
        self.claim(name, Declaration(signature, infer, summary, traits))


_DOMAINS: dict[str, Callable[[], Mapping[str, Declaration]]] = {}


def declare_domain(domain: str, load: Callable[[], Mapping[str, Declaration]]) -> None:
    """Register a domain of operators; `load` returns them by name and is called when one is first needed."""
    _DOMAINS[domain] = load


def find_declaration(name: str, domain: str = DOMAIN) -> Declaration:
    """Return the composite, or the operator of one target, of that name.

    Raises:
        InvalidGraphError: when there is none.
    """
    if domain not in _DOMAINS:
        known = ", ".join(f"`{d}`" for d in _DOMAINS)
        raise InvalidGraphError("E301", f"expected the domain `` or one of {known}, got `{domain}`")
    rows = _DOMAINS[domain]()
    if name not in rows:
        kind = "a composite" if domain == DOMAIN else f"an operator of `{domain}`"
        near = near_names(name, rows)
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        raise InvalidGraphError("E301", f"expected {kind}, got `{name}`", hint=hint)
    return rows[name]


def make_signature(
    name: str, domain: str, inputs: str, outputs: str, attributes: Sequence[AttributeSpec]
) -> Signature:
    """Return the signature of a declared operator; inputs and outputs as `CompositeTable.add` takes them."""
    return Signature(name, domain, _formals(inputs), _formals(outputs), {a.name: a for a in attributes})


def _formals(text: str) -> tuple[Formal, ...]:
    return tuple(Formal(n.rstrip("?*"), "?" in n or "*" in n, "*" in n) for n in text.split())
