"""Refuses operators without a lowering, before anything is built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx

from ...ir import InvalidGraphError, Missing, ModelError, UnsupportedError, signature
from ...ir.functions.stated import has_function
from .control_flow import CONTROL_FLOW
from .fused import find_fused
from .sequences import SEQUENCES
from .versions import ADAPTERS

_UNTYPED = ("SequenceMap", "Optional")
"""Operators on sequences and optional values, which the IR does not carry."""

_ADVICE = {
    "ai.onnx.ml.ZipMap": "convert with options={'zipmap': False}, which gives probabilities as a tensor",
    "ai.onnx.ml.": "networks are read: end the model before its trees, tables and labels, and keep those in "
    "ONNX Runtime",
    "ai.onnx.preview.training.": "give the model as it infers: what trains it is not read of the file",
    "ai.onnx.training.": "give the model as it infers: what trains it is not read of the file",
    **dict.fromkeys(
        ("com.microsoft.BeamSearch", "com.microsoft.GreedySearch", "com.microsoft.Sampling"),
        "give the net that it runs, a graph in its `decoder` attribute; choosing tokens is a loop around it",
    ),
    **dict.fromkeys(
        ("com.microsoft.MoE", "com.microsoft.QMoE"),
        "export the experts in operators of ai.onnx, as torch.onnx.export does",
    ),
    "com.microsoft.Q": "quantise with QuantFormat.QDQ, which leaves operators of ai.onnx",
    "com.microsoft.": "give the file from before ONNX Runtime's optimiser, or end the model before them",
}
"""Prefix of names -> advice."""


def plain_domain(domain: str) -> str:
    """Return a domain by the shorter of its names: ONNX's own is empty."""
    return "" if domain == "ai.onnx" else domain


def is_known(domain: str, operator: str) -> bool:
    """Whether an operator has a lowering."""
    if find_fused(domain, operator) is not None:
        return True
    if domain or operator in _UNTYPED:
        return False
    if operator in SEQUENCES or operator in ADAPTERS or operator in CONTROL_FLOW or has_function(operator):
        return True
    try:
        signature(operator)
    except InvalidGraphError:
        return False
    return True


def require_opset(model: onnx.ModelProto) -> None:
    """Check that ONNX has the version of its operators that a model asks for.

    Raises:
        UnsupportedError: for one that is not there yet, or none.
        ModelError: for several (E101).
    """
    newest = onnx.defs.onnx_opset_version()
    stated = [o.version for o in model.opset_import if plain_domain(o.domain) == ""]
    if len(set(stated)) > 1:
        both = " and ".join(map(str, stated))
        raise ModelError("E101", f"expected one opset of ai.onnx, got {both}")
    found = stated[0] if stated else 1
    if not 1 <= found <= newest:
        raise UnsupportedError(
            "E203",
            f"expected an opset from 1 to {newest}, got {found}",
            hint="a newer `onnx` knows newer opsets",
        )


def require_known(model: onnx.ModelProto) -> None:
    """Check that every operator of a model has a lowering.

    Raises:
        UnsupportedError: listing all that have none, the most used first.
    """
    own = {(f.domain, f.name) for f in model.functions}
    places: dict[str, list[str]] = {}
    for node in _all_nodes(model):
        domain = plain_domain(node.domain)
        if (node.domain, node.op_type) in own or is_known(domain, node.op_type):
            continue
        name = f"{domain}.{node.op_type}" if domain else node.op_type
        places.setdefault(name, []).append(f"node `{node.name or next(iter(node.output), '')}`")
    if places:
        ordered = sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))
        raise UnsupportedError(
            "E201",
            f"no lowering for {len(ordered)} ONNX operator{'s' if len(ordered) > 1 else ''}",
            missing=[Missing(name, tuple(found)) for name, found in ordered],
            hint=_what_to_do([name for name, _ in ordered]),
        )


def _what_to_do(names: Sequence[str]) -> str:
    """Return the advice for the first domain that has its own."""
    for begin, advice in _ADVICE.items():
        if any(name.startswith(begin) for name in names):
            return advice
    return "end the model before them, or export it with operators of ai.onnx"


def _all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    stack: list[Any] = [model.graph, *model.functions]
    while stack:
        for node in stack.pop().node:
            yield node
            stack += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
