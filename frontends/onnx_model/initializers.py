"""Divides the tensors of a file into weights and numbers of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from ...ir import ModelError, TensorData, TensorType, UnsupportedError, require_name, require_shape
from ...ir.types import STORED_DTYPES, dtype_of_onnx, shape_of_proto
from .scopes import SLOTS

_SETTINGS: dict[str, tuple[int, ...]] = {
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "Clip": (1, 2),
    "Pad": (1, 2, 3),
    "Range": (0, 1, 2),
    "OneHot": (1, 2),
    "Dropout": (1, 2),
    "NonMaxSuppression": (2, 3, 4),
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "Where": (0, 1, 2),
    "Pow": (1,),
    "Equal": (0, 1),
    "Less": (0, 1),
    "Greater": (0, 1),
    "Cast": (0,),
}
"""Operator -> operands that are no weights, whatever their sizes."""

_CODED = {"MatMulNBits": (1, 2, 3), "MatMulBnb4": (1, 2), "GatherBlockQuantized": (0, 2, 3)}
"""Operator -> its operands that are a weight in another form, which its lowering makes."""

_PACKED = ("int4", "uint4")
"""Types of which a byte holds two numbers: they are literals, whatever their number."""

_LARGE = 1 << 12  # elements from which integers, of a quantised layer say, are state and no literal


def stored_tensors(graph: onnx.GraphProto, folder: Path | None) -> dict[str, TensorData]:
    """Return the initializers of a graph by name, none of them read that lies in another file.

    Args:
        graph: the graph.
        folder: where the model's external data lie; None for a model in memory.

    Raises:
        ModelError: for a name or shape that cannot be (E101).
        UnsupportedError: for an element type that the IR lacks, or a sparse tensor.
    """
    found: dict[str, TensorData] = {}
    if graph.sparse_initializer:
        name = graph.sparse_initializer[0].values.name
        raise UnsupportedError("E203", "expected dense initializers, got a sparse one", place=f"`{name}`")
    for tensor in graph.initializer:
        require_name(tensor.name, "the name of an initializer", "the model")
        if tensor.name in found:
            raise ModelError("E101", f"expected every initializer once, got `{tensor.name}` again")
        found[tensor.name] = stored_tensor(tensor, tensor.name, folder)
    return found


def stored_tensor(tensor: onnx.TensorProto, name: str, folder: Path | None = None) -> TensorData:
    """Return a tensor of a file, which is read when it is asked for; see `stored_tensors`."""
    shape = tuple(tensor.dims)
    require_shape(shape, f"`{name}`")
    return TensorData(element_type(tensor.data_type, f"`{name}`"), shape, _loader(tensor, folder), id(tensor))


def element_type(number: int, place: str) -> str:
    """Return the name of an element type.

    Raises:
        UnsupportedError: for one that the IR lacks.
    """
    try:
        return dtype_of_onnx(number)
    except KeyError:
        names = onnx.TensorProto.DataType
        name = names.Name(number) if number in names.values() else str(number)
        raise UnsupportedError(
            "E203",
            f"expected floats of 8 bits, integers of 4 bits, or more, or bool; got {name}",
            place=place,
        ) from None


def _loader(tensor: onnx.TensorProto, folder: Path | None) -> Callable[[], np.ndarray]:
    def load() -> np.ndarray:
        try:
            return onnx.numpy_helper.to_array(tensor, "" if folder is None else str(folder))
        except (DecodeError, OSError, ValueError, TypeError, onnx.checker.ValidationError) as error:
            raise ModelError(
                "E101",
                f"cannot read the elements of `{tensor.name}`: {str(error).strip()}",
                hint="an ONNX model's external data lie in its folder" if tensor.external_data else "",
            ) from error

    return load


def find_weights(graph: onnx.GraphProto, stored: Mapping[str, TensorData]) -> dict[str, int]:
    """Return how often each initializer is used that is a weight: floating point, and used as no setting."""
    uses: dict[str, list[tuple[str, int]]] = {}
    single: set[str] = set()
    biases: set[str] = set()
    for node in _nodes(graph):
        for slot, name in enumerate(node.input):
            if name in stored:
                uses.setdefault(name, []).append((node.op_type, slot))
        if _gives_one_number(node, stored):
            single.update(node.output[:1])
        elif node.op_type == "Add" and single & set(node.input):
            biases |= {name for name in node.input if name in stored and stored[name].shape}
    return {
        name: len(used)
        for name, used in uses.items()
        if _is_weight(name, stored[name], used) or (name in biases and "float" in stored[name].dtype)
    }


def _gives_one_number(node: onnx.NodeProto, stored: Mapping[str, TensorData]) -> bool:
    """Whether a layer has one feature or channel, so that its bias is one number too."""
    axis = {"MatMul": -1, "Conv": 0}.get(node.op_type)
    data = stored.get(node.input[1]) if axis is not None and len(node.input) == 2 else None
    return axis is not None and data is not None and len(data.shape) > 1 and data.shape[axis] == 1


def _is_weight(name: str, data: TensorData, used: list[tuple[str, int]]) -> bool:
    count = int(np.prod(data.shape, dtype=np.int64))
    if all(slot in _CODED.get(kind, ()) for kind, slot in used):
        return False
    if "float" not in data.dtype or data.dtype in STORED_DTYPES:
        return data.dtype not in ("bool", "string", *_PACKED) and count >= _LARGE
    if any(slot < len(SLOTS.get(kind, ())) and SLOTS[kind][slot] for kind, slot in used):
        return True
    if all(slot in _SETTINGS.get(kind, ()) for kind, slot in used):
        return count >= _LARGE
    return bool(data.shape) and (count > 1 or name.endswith((".weight", ".bias")))


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(attribute.g)


def type_of_info(info: onnx.ValueInfoProto, *, is_input: bool = False) -> TensorType | None:
    """Return the type that a file states of a value, with symbols as it names them; None for no tensor."""
    if not info.type.HasField("tensor_type") or not info.type.tensor_type.elem_type:
        return None
    tensor = info.type.tensor_type
    dtype = element_type(tensor.elem_type, f"`{info.name}`")
    if is_input and dtype in STORED_DTYPES:
        raise UnsupportedError(
            "E203",
            f"expected an input of an element type that operators support, got {dtype}",
            place=f"`{info.name}`",
        )
    return TensorType(dtype, shape_of_proto(tensor))
