"""Checks one operator's operands, outputs and attributes against its signature."""

from __future__ import annotations

from typing import cast

import numpy as np

from .errors import InvalidGraphError
from .nodes import Nested, Operator
from .operators import signature

_PYTHON_KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "string": (str,),
    "tensor": (np.ndarray,),
    "graph": (Nested,),
}
_ELEMENTS: dict[str, tuple[type, ...]] = {"ints": (int,), "floats": (float, int), "strings": (str,)}


def check_operator(operator: Operator, inputs: int, outputs: int) -> None:
    """Check the number of operands and outputs, and the attributes, against the operator's signature.

    Raises:
        InvalidGraphError: naming the operator and what does not fit.
    """

    def fail(message: str) -> InvalidGraphError:
        return InvalidGraphError(
            "E301", message, place=f"`{operator.qualified_name}` {operator.location}".strip()
        )

    sig = signature(operator.op_type, operator.domain)
    if inputs < sig.min_inputs or (sig.max_inputs is not None and inputs > sig.max_inputs):
        bound = f"{sig.min_inputs} to {sig.max_inputs if sig.max_inputs is not None else 'any number of'}"
        raise fail(f"expected {bound} inputs, got {inputs}")
    if not outputs or (len(sig.outputs) < outputs and not (sig.outputs and sig.outputs[-1].variadic)):
        raise fail(f"expected 1 to {len(sig.outputs)} outputs, got {outputs}")
    for name, value in operator.attributes.items():
        if name not in sig.attributes:
            known = ", ".join(sorted(sig.attributes)) or "none"
            raise fail(f"expected an attribute among {known}, got `{name}`")
        kind = sig.attributes[name].kind
        if kind in _ELEMENTS:
            good = isinstance(value, list) and all(
                isinstance(v, _ELEMENTS[kind]) for v in cast("list[object]", value)
            )
        else:
            good = isinstance(value, _PYTHON_KINDS.get(kind, (object,)))
        if not good:
            raise fail(f"expected attribute `{name}` of kind {kind}, got `{value!r}`")
    for name, spec in sig.attributes.items():
        if spec.required and name not in operator.attributes:
            raise fail(f"expected the attribute `{name}`, got none")
