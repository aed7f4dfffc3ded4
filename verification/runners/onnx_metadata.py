"""Reads names and module calls from an ONNX file's texts and metadata."""

from __future__ import annotations

import onnx

from ...backends.onnx_model import CALLS
from ...ir import ModelError, parse_json, require_name


def read_calls(model: onnx.ModelProto, place: str) -> dict[str, dict[str, list[str]]]:
    """Return call name -> the values that enter and leave it; empty if the file states none.

    A call is left out if a tool has fused its values away and left our metadata of it.

    Args:
        model: the model.
        place: the file, for messages.

    Raises:
        ModelError: E101 when the metadata are not as we write them.
    """
    place = f"`{CALLS}` in the metadata{f' of {place}' if place else ''}"
    text = next((entry.value for entry in model.metadata_props if entry.key == CALLS), None)
    if text is None:
        return {}
    document = parse_json(
        text.encode() if isinstance(text, str) else text, place
    )  # bytes where it is no UTF-8
    if not isinstance(document, dict):
        raise ModelError("E101", "expected an object of module calls", place=place)
    graph = model.graph
    known = {value.name for value in [*graph.input, *graph.initializer]}
    known |= {name for node in graph.node for name in node.output if name}
    whole: dict[str, dict[str, list[str]]] = {}
    for call, record in document.items():
        require_name(call, "the name of a call", place)
        names = [record.get(key) for key in ("inputs", "outputs")] if isinstance(record, dict) else [None]
        if not all(isinstance(part, list) and all(isinstance(n, str) for n in part) for part in names):
            raise ModelError("E101", f"expected lists of inputs and outputs of `{call}`", place=place)
        if not isinstance(record.get("class", ""), str):
            raise ModelError("E101", f"expected the name of a class of `{call}`", place=place)
        if known.issuperset([*record["inputs"], *record["outputs"]]):
            whole[call] = record
    return whole
