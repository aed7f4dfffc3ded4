"""Writes a symbol, its parameters and ``renames.json``: never half, never over a file unasked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from ...formats.files import staged
from ...formats.params_file import write_params
from ...formats.renames import dropped_rows, rename_rows, write_renames
from ...ir import BackendError, Graph, Input, Parameter, TensorData
from ...passes.base import Pass
from ...passes.dequantise import Dequantise
from ..expand_functions import ExpandFunctions
from ..legalise import Legalise
from ..lowering import lower
from .calls import call_rows
from .emitters import TABLE
from .symbol import VERSION, Node, SymbolBuilder

LOWERING: tuple[Pass, ...] = (
    Dequantise(),  # MXNet's quantised layers are others than ONNX's
    ExpandFunctions("mxnet_symbol", lambda _graph, node: node.qualified_name in TABLE),
    Legalise(
        "mxnet_symbol",
        lambda _graph, node: node.qualified_name in TABLE,
        hint="MXNet lacks these operators, or regraft has no tested form of them; try `--to onnx` or `--to "
        "mindspore`",
    ),
)
"""The backend's own passes, in order; `regraft passes --to mxnet` lists them."""


def write(graph: Graph, folder: Path | str, *, force: bool = False) -> list[Path]:
    """Write a graph as an MXNet symbol with its parameters.

    A graph that came from MXNet keeps MXNet's names: nodes by `Operator.location`, parameters by their
    declared name. A shared parameter is one variable.

    Args:
        graph: a validated root graph.
        folder: the directory for the files; made if need be.
        force: whether existing files may be replaced.

    Returns:
        The files written, the symbol first.

    Raises:
        UsageError: when a file exists and `force` is False, or cannot be written.
        UnsupportedError: listing every operator that MXNet's symbols cannot express.
        BackendError: when an operator is used in a form that MXNet does not have.
    """
    folder = Path(folder)
    legal = lower(graph, LOWERING)
    names = parameter_names(legal)
    nodes, heads = to_nodes(legal, names)
    stem = file_stem(graph)
    files = [f"{stem}-symbol.json", f"{stem}-0000.params", "renames.json"]
    with staged(folder, files, force=force) as stage:
        (stage / files[0]).write_text(to_json(nodes, heads), encoding="utf-8")
        write_params(stage / files[1], _arrays(nodes, legal, names))
        targets = {k: (names[k], "identity", legal.parameter(k).data.shape) for k in names}
        rows = [*rename_rows(graph, targets), *dropped_rows(graph)]
        source = graph.origin.framework
        calls = [] if source == "mxnet" else call_rows(legal, nodes)  # a symbol read back has its own
        write_renames(stage / files[2], rows, source=source, target="mxnet", calls=calls)
    return [folder / name for name in files]


_SUFFIXES = ("-symbol.json", ".json", ".py", ".onnx", ".mindir", ".pt2", ".pth", ".pt")
"""Ends of the names of files that a model is read from."""


def file_stem(graph: Graph) -> str:
    """Return the prefix of the files: that of the symbol read, else the graph's name."""
    name = Path(graph.origin.reference.partition(":")[0]).name
    known = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")
    return name.removesuffix(known) or graph.name


def parameter_names(graph: Graph) -> dict[int, str]:
    """Return parameter key -> its name in the file: MXNet's own where it came from there, each once."""
    keeps = graph.origin.framework == "mxnet"
    names: dict[int, str] = {}
    taken = {n.name for n in graph.input_nodes()}
    for parameter in graph.parameters():
        base = parameter.declared if keeps else parameter.name
        name, number = base, 1
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name)
        names[parameter.key] = name
    return names


def to_nodes(graph: Graph, names: dict[int, str]) -> tuple[list[Node], list[tuple[int, int]]]:
    """Return the nodes that the outputs need, in order, and the heads.

    Raises:
        BackendError: when an operator is used in a form that MXNet does not have.
    """
    if graph.updates:
        raise BackendError("E602", "expected no state updates: a symbol has none of its own")
    builder = SymbolBuilder(graph, names)
    for node in graph.nodes():
        if isinstance(node, Input):
            builder.add_input(node)
        elif isinstance(node, Parameter):
            builder.add_parameter(node)
    for operator in graph.operators():
        builder.emit(operator, TABLE[operator.qualified_name])
    return builder.finish()


def to_json(nodes: list[Node], heads: list[tuple[int, int]]) -> str:
    """Return the symbol as JSON, one node a line."""
    records: list[dict[str, object]] = []
    for node in nodes:
        record: dict[str, object] = {"op": node.op, "name": node.name}
        if node.attributes:
            record["attrs"] = dict(sorted(node.attributes.items()))
        record["inputs"] = [[index, output, 0] for index, output in node.inputs]
        if node.subgraphs:
            record["subgraphs"] = node.subgraphs
        records.append(record)
    rest = {
        "arg_nodes": [i for i, node in enumerate(nodes) if node.op == "null"],
        "heads": [[index, output, 0] for index, output in heads],
        "attrs": {"mxnet_version": ["int", VERSION]},
    }
    lines = [f'  "{key}": {json.dumps(value)}' for key, value in rest.items()]
    body = ",\n".join(f"    {json.dumps(record, ensure_ascii=False)}" for record in records)
    return "{\n" + ",\n".join([f'  "nodes": [\n{body}\n  ]', *lines]) + "\n}\n"


def _arrays(nodes: list[Node], graph: Graph, names: dict[int, str]) -> Iterable[tuple[str, TensorData]]:
    """Yield the arrays of the written variables, then those of parameters that no node reads."""
    written: set[str] = set()
    for node in nodes:
        if node.data is not None:
            written.add(node.name)
            yield f"{'aux' if node.auxiliary else 'arg'}:{node.name}", node.data
    for key, name in names.items():
        parameter = graph.parameter(key)
        if name not in written:
            yield f"{'aux' if parameter.is_buffer else 'arg'}:{name}", parameter.data
