"""Writes an ONNX model to a file: checked first, as one change, large weights streamed."""

from __future__ import annotations

from pathlib import Path

import onnx

from ...ir import BackendError, Graph, UsageError
from ..files import staged
from ..renames import dropped_rows, rename_rows, write_renames
from .lowering import LOWERING
from .model import emit_model, lower_graph, used_parameters
from .streaming import is_external, write_embedded, write_external

EXTERNAL_LIMIT = 1_800_000_000
"""Bytes of weights above which they get a file of their own: protobuf ends at 2 GiB."""


def write(
    graph: Graph,
    file: Path | str,
    *,
    force: bool = False,
    external_data: bool | None = None,
) -> list[Path]:
    """Write a graph as an ONNX file, with ``<stem>.renames.json`` beside it.

    Nothing is written before `onnx.checker` (full check, strict shape inference) has passed. The checker does
    not see the weights; their types and sizes are compared as they are written.

    Args:
        graph: a validated root graph whose parameters have unique names.
        file: the ``.onnx`` file.
        force: whether existing files may be replaced.
        external_data: write the weights to ``<name>.data``, tensor by tensor; None: above `EXTERNAL_LIMIT`.

    Returns:
        The files written, the model first.

    Raises:
        UsageError: when a file exists and `force` is False, or cannot be written.
        UnsupportedError: for operators that ONNX does not have and that cannot be expanded.
        BackendError: when the graph cannot be expressed, or the checker refuses the result.
    """
    file = Path(file)
    if file.is_dir():
        raise UsageError("E002", f"expected a file such as `model.onnx`, got the directory `{file}`")
    legal = lower_graph(graph, LOWERING)
    kept = {p.key: p.data for p in graph.parameters()}
    turned = [p for p in legal.parameters() if p.data is not kept[p.key]]
    weights = {p.name: p.data for p in used_parameters(legal)}
    if external_data is None:
        external_data = sum(d.nbytes for d in weights.values()) > EXTERNAL_LIMIT
    names = [f"{file.name}.data", f"{file.stem}.renames.json", file.name]  # the model itself appears last
    with staged(file.parent, names, force=force) as folder:
        model = emit_model(legal, data=False)
        _check(model, graph)
        if external_data:
            write_external(model, weights, folder / names[0])
            onnx.save(model, folder / file.name)
        else:
            write_embedded(model, weights, folder / file.name)
        targets = {p.key: (p.name, "transpose:1,0", p.data.shape) for p in turned}
        rows = [*rename_rows(graph, targets), *dropped_rows(graph)]
        origin = graph.origin
        write_renames(folder / names[1], rows, source=origin.framework, target="onnx", packed=origin.packed)
        written = [n for n in reversed(names) if (folder / n).exists()]
    return [file.parent / n for n in written]


def _check(model: onnx.ModelProto, graph: Graph) -> None:
    """Check a model without weights, which the checker sees as inputs of the same types."""
    structure = onnx.ModelProto()
    structure.CopyFrom(model)
    main = structure.graph
    weights = [t for t in main.initializer if is_external(t)]
    constants = [t for t in main.initializer if not is_external(t)]
    del main.initializer[:]
    main.initializer.extend(constants)
    main.input.extend(onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in weights)
    try:
        onnx.checker.check_model(structure, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise BackendError(
            "E602",
            f"the ONNX checker refused the model: {str(error).strip()}",
            place=f"graph `{graph.name}`",
            hint="this is a defect of regraft: please report it with the model",
        ) from error
