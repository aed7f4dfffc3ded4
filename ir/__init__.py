"""The intermediate representation: a dataflow and a module tree over the same nodes."""

from __future__ import annotations

from .builder import Builder, expand
from .composites import COMPOSITES, composite
from .errors import (
    CODES,
    BackendError,
    InvalidGraphError,
    MismatchError,
    Missing,
    ModelError,
    PassError,
    RegraftError,
    TextFormError,
    UnsupportedError,
    UsageError,
)
from .graph import Graph, walk_operators
from .inference import infer_types
from .initializers import Initializer
from .modules import Module, ModuleCall, ModuleTree
from .nodes import Capture, Constant, Input, Node, Operator, Parameter, Value
from .operators import signature, traits_of
from .origin import Origin
from .outside.display import printable, shorten_words
from .outside.documents import missing_file, parse_json, read_bytes, read_json, require_file
from .outside.frameworks import framework_errors_told, framework_refusal
from .outside.markup import folded_markup, table_markup, text_markup
from .outside.names import near_names, require_name, require_shape
from .outside.system_errors import system_error, system_errors_told
from .signatures import DOMAIN, OPSET, Signature
from .tensors import TensorData
from .text_form.parsing import parse
from .text_form.rendering import render
from .traits import CUMULATIVE, NO_TRAITS, Traits, moving_momentum
from .types import (
    Array,
    Dim,
    ElementType,
    TensorType,
    dtype_name,
    merge_types,
    numpy_dtype,
    onnx_dtype,
    parse_type,
)
from .validation import validate

__all__ = [
    "CODES",
    "COMPOSITES",
    "CUMULATIVE",
    "DOMAIN",
    "NO_TRAITS",
    "OPSET",
    "Array",
    "BackendError",
    "Builder",
    "Capture",
    "Constant",
    "Dim",
    "ElementType",
    "Graph",
    "Initializer",
    "Input",
    "InvalidGraphError",
    "MismatchError",
    "Missing",
    "ModelError",
    "Module",
    "ModuleCall",
    "ModuleTree",
    "Node",
    "Operator",
    "Origin",
    "Parameter",
    "PassError",
    "RegraftError",
    "Signature",
    "TensorData",
    "TensorType",
    "TextFormError",
    "Traits",
    "UnsupportedError",
    "UsageError",
    "Value",
    "composite",
    "dtype_name",
    "expand",
    "folded_markup",
    "framework_errors_told",
    "framework_refusal",
    "infer_types",
    "merge_types",
    "missing_file",
    "moving_momentum",
    "near_names",
    "numpy_dtype",
    "onnx_dtype",
    "parse",
    "parse_json",
    "parse_type",
    "printable",
    "read_bytes",
    "read_json",
    "render",
    "require_file",
    "require_name",
    "require_shape",
    "shorten_words",
    "signature",
    "system_error",
    "system_errors_told",
    "table_markup",
    "text_markup",
    "traits_of",
    "validate",
    "walk_operators",
]
