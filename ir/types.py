"""Element types and tensor types with symbolic dimensions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import onnx

from .dims import Dim, differ
from .errors import InvalidGraphError

Array = np.ndarray[Any, np.dtype[Any]]
"""An array of any shape and elements: what it holds is known when a model is read, not before."""

ElementType = np.dtype[Any]
"""NumPy's form of any element type."""

_ONNX_HELPER: Any = onnx.helper
"""ONNX's functions on element types, whose annotations leave out what their arrays and dtypes hold."""

_DTYPES: dict[str, tuple[str, int]] = {
    "float32": ("f32", onnx.TensorProto.FLOAT),
    "float64": ("f64", onnx.TensorProto.DOUBLE),
    "float16": ("f16", onnx.TensorProto.FLOAT16),
    "bfloat16": ("bf16", onnx.TensorProto.BFLOAT16),
    "int8": ("i8", onnx.TensorProto.INT8),
    "int16": ("i16", onnx.TensorProto.INT16),
    "int32": ("i32", onnx.TensorProto.INT32),
    "int64": ("i64", onnx.TensorProto.INT64),
    "uint8": ("u8", onnx.TensorProto.UINT8),
    "uint16": ("u16", onnx.TensorProto.UINT16),
    "uint32": ("u32", onnx.TensorProto.UINT32),
    "uint64": ("u64", onnx.TensorProto.UINT64),
    "bool": ("bool", onnx.TensorProto.BOOL),
    "complex64": ("c64", onnx.TensorProto.COMPLEX64),
    "complex128": ("c128", onnx.TensorProto.COMPLEX128),
    "string": ("str", onnx.TensorProto.STRING),
    "int4": ("i4", onnx.TensorProto.INT4),
    "uint4": ("u4", onnx.TensorProto.UINT4),
    "float8_e4m3fn": ("f8e4m3fn", onnx.TensorProto.FLOAT8E4M3FN),
    "float8_e4m3fnuz": ("f8e4m3fnuz", onnx.TensorProto.FLOAT8E4M3FNUZ),
    "float8_e5m2": ("f8e5m2", onnx.TensorProto.FLOAT8E5M2),
    "float8_e5m2fnuz": ("f8e5m2fnuz", onnx.TensorProto.FLOAT8E5M2FNUZ),
}
STORED_DTYPES = frozenset(name for name in _DTYPES if name.endswith("int4") or name.startswith("float8"))
"""Names of element types that quantised files store, and that nothing computes in."""

DTYPES = frozenset(_DTYPES) - STORED_DTYPES
"""Names of element types, NumPy's spelling."""

_SHORT = {name: short for name, (short, _) in _DTYPES.items()}
_LONG = {short: name for name, (short, _) in _DTYPES.items()}
_TO_ONNX = {name: number for name, (_, number) in _DTYPES.items()}
_FROM_ONNX = {number: name for name, number in _TO_ONNX.items()}


def onnx_dtype(dtype: str) -> int:
    """Return ONNX's number of an element type: ``float32`` -> 1."""
    return _TO_ONNX[dtype]


def dtype_of_onnx(number: int) -> str:
    """Return the name of an element type by ONNX's number of it: 1 -> ``float32``."""
    return _FROM_ONNX[number]


def numpy_dtype(dtype: str) -> ElementType:
    """Return NumPy's dtype, bfloat16 included (by way of ml_dtypes, as onnx does)."""
    return np.dtype(_ONNX_HELPER.tensor_dtype_to_np_dtype(_TO_ONNX[dtype]))


def dtype_name(dtype: ElementType) -> str:
    """Return our name of a NumPy dtype.

    Raises:
        TypeError: for a dtype that ONNX does not have.
    """
    name = "string" if dtype.kind in "OUS" else dtype.name
    if name not in _DTYPES:
        raise TypeError(f"no ONNX element type for NumPy's `{dtype}`")
    return name


def is_array(value: object) -> TypeGuard[Array]:
    """Whether a value is an array of NumPy's."""
    return isinstance(value, np.ndarray)


def is_sequence(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    """Whether a value is a list or tuple."""
    return isinstance(value, (list, tuple))


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and shape of a value; `shape` is None when not even the rank is known."""

    dtype: str
    shape: tuple[Dim, ...] | None

    @property
    def rank(self) -> int | None:
        """Number of dimensions, or None."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a number."""
        return self.shape is not None and all(isinstance(d, int) for d in self.shape)

    def static_shape(self) -> tuple[int, ...]:
        """Return the shape as numbers.

        Raises:
            ValueError: when a dimension is symbolic or unknown.
        """
        if self.shape is None or not all(isinstance(d, int) for d in self.shape):
            raise ValueError(f"expected a static shape, got {self}")
        return tuple(d for d in self.shape if isinstance(d, int))

    def with_shape(self, shape: tuple[Dim, ...] | None) -> TensorType:
        """Return the same element type with another shape."""
        return TensorType(self.dtype, shape)

    def __str__(self) -> str:
        if self.shape is None:
            return f"{_SHORT[self.dtype]}[*]"
        return f"{_SHORT[self.dtype]}[{','.join('?' if d is None else str(d) for d in self.shape)}]"


_NUMBER = re.compile("-?[0-9]{1,18}")


def parse_type(text: str) -> TensorType:
    """Read a type from its text; the inverse of ``str(TensorType)``.

    Raises:
        ValueError: when `text` is not a type.
    """
    head, bracket, rest = text.partition("[")
    if not bracket or not rest.endswith("]") or head not in _LONG:
        raise ValueError(f"expected a type such as `f32[N,3,8,8]`, got `{text}`")
    body = rest[:-1]
    if body == "*":
        return TensorType(_LONG[head], None)
    dims: list[Dim] = []
    for part in body.split(",") if body else []:
        part = part.strip()
        dims.append(None if part == "?" else int(part) if _NUMBER.fullmatch(part) else part)
    return TensorType(_LONG[head], tuple(dims))


def type_to_proto(type_: TensorType) -> onnx.TypeProto:
    """Return ONNX's form of a type; a symbol becomes a dim_param."""
    return onnx.helper.make_tensor_type_proto(_TO_ONNX[type_.dtype], type_.shape)


def type_of_proto(proto: onnx.TypeProto) -> TensorType | None:
    """Return our form of a type of ONNX's; None for sequences, maps and unset types."""
    if not proto.HasField("tensor_type") or not proto.tensor_type.elem_type:
        return None
    return TensorType(_FROM_ONNX[proto.tensor_type.elem_type], shape_of_proto(proto.tensor_type))


def shape_of_proto(tensor: onnx.TypeProto.Tensor) -> tuple[Dim, ...] | None:
    """Return the shape that ONNX's form of a type states, with None for open sizes without a name.

    Converters write -1 for an open size, and ONNX Runtime takes any size there.
    """
    if not tensor.HasField("shape"):
        return None
    return tuple(
        d.dim_param or None if not d.HasField("dim_value") else d.dim_value if d.dim_value >= 0 else None
        for d in tensor.shape.dim
    )


def contradicts(known: TensorType, other: TensorType) -> bool:
    """Whether no value can have both types: element type, rank or a dimension exclude each other.

    A symbol may be any number from 1 on: ``N`` contradicts ``N+1`` but not 3, and ``2*N`` contradicts 3.
    """
    if known == other:
        return False
    if known.dtype != other.dtype:
        return True
    if known.shape is None or other.shape is None:
        return False
    return len(known.shape) != len(other.shape) or any(
        differ(a, b) for a, b in zip(known.shape, other.shape, strict=True)
    )


def merge_types(known: TensorType, inferred: TensorType | None) -> TensorType:
    """Return `known` with its unknown rank and dimensions taken from `inferred`; named dimensions stay.

    Raises:
        InvalidGraphError: when no value can have both types.
    """
    if inferred is None or known == inferred:
        return known
    if contradicts(known, inferred):
        raise InvalidGraphError("E301", f"expected a value of one type, got {known} and {inferred}")
    if inferred.shape is None:
        return known
    if known.shape is None:
        return known.with_shape(inferred.shape)
    return known.with_shape(
        tuple(b if a is None else a for a, b in zip(known.shape, inferred.shape, strict=True))
    )
