"""Writes an ONNX model to a file: checked first, as one change, large weights streamed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import onnx

from ...formats.files import staged
from ...formats.renames import dropped_rows, rename_rows, write_renames
from ...formats.shard_index import Shard, parse_size, split
from ...ir import BackendError, Graph, TensorData, UsageError
from .in_place import InPlace
from .lowering import LOWERING, lowering_besides
from .model import emit_model, lower_graph, used_parameters
from .streaming import ALIGNMENT, is_external, write_embedded, write_external

EXTERNAL_LIMIT = 1_800_000_000
"""Bytes of weights above which they get a file of their own: protobuf ends at 2 GiB."""


def write(
    graph: Graph,
    file: Path | str,
    *,
    force: bool = False,
    external_data: bool | None = None,
    max_shard_size: int | str | None = None,
    functions: bool = False,
    weights_in_place: InPlace | bool = False,
) -> list[Path]:
    """Write a graph as an ONNX file, with ``<stem>.renames.json`` beside it.

    Nothing is written before `onnx.checker` (full check, strict shape inference) has passed. The checker does
    not see the weights; their types and sizes are compared as they are written.

    Args:
        graph: a validated root graph whose parameters have unique names.
        file: the ``.onnx`` file.
        force: whether existing files may be replaced.
        external_data: write the weights to ``<name>.data``, tensor by tensor; None: above `EXTERNAL_LIMIT`
            or `max_shard_size`.
        max_shard_size: most bytes of weights in a file, a number or text such as ``2GB``: more go to
            ``<name>-00001-of-00003.data`` and so on, a tensor in one of them. None: one file.
        functions: write every class of modules that is called several times as a function of the model.
        weights_in_place: leave the weights that lie in safetensors files in or below the model's folder
            there; an `InPlace` has afterwards which ones are left and why others are not.

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
    in_place = InPlace() if weights_in_place is True else weights_in_place or None
    passes = LOWERING if in_place is None else lowering_besides(in_place.names(graph, file))
    legal = lower_graph(graph, passes)
    kept = {p.key: p.data for p in graph.parameters()}
    turned = [p for p in legal.parameters() if p.data is not kept[p.key]]
    weights = {p.name: p.data for p in used_parameters(legal)}
    model = emit_model(legal, data=False, functions=functions)
    del legal  # which takes as much as the model
    _check(model, graph)
    if in_place is not None:
        in_place.apply(model, weights, file)
        weights = {name: data for name, data in weights.items() if name in in_place.copied}
        _require_few(weights)
        external_data, max_shard_size = False, None  # the model and its weights lie in one file, or in place
    shards = _split_weights(file, weights, external_data, max_shard_size)
    renames = f"{file.stem}.renames.json"
    names = [*(shard.file for shard in shards), renames, file.name]  # the model itself appears last
    with staged(file.parent, names, force=force, obsolete=earlier_files(file)) as folder:
        if shards:
            write_external(model, weights, {folder / shard.file: shard.names for shard in shards})
            onnx.save(model, folder / file.name)
        else:
            write_embedded(model, weights, folder / file.name)
        targets = {p.key: (p.name, "transpose:1,0", p.data.shape) for p in turned}
        rows = [*rename_rows(graph, targets), *dropped_rows(graph)]
        origin = graph.origin
        write_renames(
            folder / renames,
            rows,
            source=origin.framework,
            target="onnx",
            packed=origin.packed,
            computed=origin.computed,
        )
    return [file.parent / n for n in (file.name, renames, *(shard.file for shard in shards))]


def earlier_files(file: Path) -> list[str]:
    """Return the files of weights, in shards, that lie beside an ONNX file from an earlier output."""
    shard = re.compile(re.escape(file.name) + r"-\d{5,}-of-\d{5,}\.data")
    return sorted(path.name for path in file.parent.glob("*.data") if shard.fullmatch(path.name))


def _split_weights(
    file: Path, weights: Mapping[str, TensorData], external: bool | None, size: int | str | None
) -> list[Shard]:
    """Return the files that the weights go to; none if they stay in the model.

    Raises:
        UsageError: E001 for a size that is none, or shards of weights that are to stay in the model.
    """
    if external is False and size is not None:
        raise UsageError("E001", "expected no size of shards where the weights stay in the model")
    limit = None if size is None else parse_size(size)
    total = sum(data.nbytes for data in weights.values())
    if external is None:
        external = total > (EXTERNAL_LIMIT if limit is None else min(limit, EXTERNAL_LIMIT))
    if not external:
        return []
    if limit is None:
        return [Shard(f"{file.name}.data", tuple(weights))]
    sizes = {name: data.nbytes + -data.nbytes % ALIGNMENT for name, data in weights.items()}
    return split(sizes, limit, (f"{file.name}", ".data"))


def _require_few(weights: Mapping[str, TensorData]) -> None:
    """Check that what cannot stay in place fits into the model's own file.

    Raises:
        UsageError: E001 otherwise.
    """
    total = sum(data.nbytes for data in weights.values())
    if total > EXTERNAL_LIMIT:
        raise UsageError(
            "E001",
            f"expected most weights in safetensors files, got {total:,} bytes that lie in none",
            hint="leave out --weights-in-place: the weights then get files of their own",
        )


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
    read = structure.SerializeToString()
    del structure, main, weights, constants
    try:
        onnx.checker.check_model(read, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise BackendError(
            "E602",
            f"the ONNX checker refused the model: {str(error).strip()}",
            place=f"graph `{graph.name}`",
            hint="this is a defect of regraft: please report it with the model",
        ) from error
