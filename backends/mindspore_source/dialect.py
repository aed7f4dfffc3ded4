"""MindSpore's dialect: what its source looks like."""

from __future__ import annotations

from collections.abc import Set
from functools import partial

from ...frameworks.mindspore import MINDSPORE
from ...ir import Graph
from ..source import emission
from ..source.dialect import Dialect
from ..source.expressions import Expression, NnClass, Part, call, method
from ..source.names import Names
from .emitters import TABLE
from .emitters.constants import constant, stored_constant
from .emitters.initializers import law_of, ms_dtype, own_parameter
from .emitters.own_functions import HELPERS
from .emitters.run_time import functions, resize
from .emitters.run_time.operators import TABLE as RUN_TIME
from .naming import initializer_classes, reserved_attributes
from .templates.build_function import build_function

_INITIALIZERS = sorted(d.function for law, d in MINDSPORE.drawings.items() if law not in ("zeros", "ones"))
_MODULES = frozenset({"ms", "np", "nn", "ops", "math"})

NAMES = Names(
    reserved=reserved_attributes,
    imported=initializer_classes,
    top=_MODULES
    | HELPERS.keys()
    | {
        "int",
        "mindspore",
        "Tensor",
        "Parameter",
        "Path",
        "json",
        "CHECKPOINT",
        "build",
        "load",
        "read",
        "initializer",
    },
    called=_MODULES | functions.FUNCTIONS.keys() | resize.FUNCTIONS.keys() | {"int", "affine"},
    ascii_only=True,
)


def _size_tensor(sizes: Part, host: str, dtype: str, is_computed: bool) -> Part:
    """Return ``ms.Tensor(x.shape[0], ms.int64)``."""
    if (
        host == "tuple" and is_computed
    ):  # in graph mode `ms.Tensor` of sizes that are variables has no element type
        return method(call("ops.tuple_to_array", sizes), "astype", Expression(("ms.int64",)))
    return call("ms.Tensor", sizes, Expression((ms_dtype(dtype),)))


def _imports(names: Set[str], called: Set[str]) -> list[str]:
    """Return the imports for the names that a file reads, and those that it calls."""
    lines: list[str] = []
    if "ms" in names:
        lines.append("import mindspore as ms")
    if "np" in names:
        lines.append("import numpy as np")
    parts = [n for n in ("Parameter", "Tensor", "nn", "ops") if n in names]
    lines.append(f"from mindspore import {', '.join(parts)}")
    laws = [n for n in (*_INITIALIZERS, "initializer") if n in called]
    if laws:
        lines.append(f"from mindspore.common.initializer import {', '.join(laws)}")
    return lines


def _notes(graph: Graph) -> list[str]:
    """Return sentences on what MindSpore computes otherwise, for a file's head."""
    notes: list[str] = []
    if any(p.data.dtype == "bfloat16" for p in graph.parameters()):
        notes.append("Some parameters are bfloat16, for which MindSpore's CPU backend has no kernels.")
    if any(p.role == "running_mean" and p.data.dtype == "float16" for p in graph.parameters()):
        notes.append("MindSpore's CPU backend does not update the float16 statistics of BatchNorm layers.")
    if graph.origin.framework == "mxnet" and any(
        n.op_type == "BatchNormalization" and n.float("momentum") < 1 for n in graph.operators()
    ):
        notes.append(
            "In training, MindSpore moves a running variance towards n / (n - 1) times the variance of a "
            "batch with n numbers per channel; MXNet moves it towards that variance itself."
        )
    return notes


DIALECT = Dialect(
    "MindSpore",
    base=NnClass("Cell"),
    sequential=NnClass("SequentialCell", "sequential"),
    module_list=NnClass("CellList", "list"),
    emitters=TABLE,
    constant=constant,
    stored_constant=stored_constant,
    parameter=own_parameter,
    build=build_function,
    method="construct",
    is_traced=True,
    computed=RUN_TIME,
    helpers=HELPERS,
    names=NAMES,
    distribution=law_of,
    size_tensor=_size_tensor,
    concatenation="ops.cat",
    activated=("Dense", "activation"),
    distribution_arguments=frozenset(
        state.argument
        for layer in MINDSPORE.layers.values()
        for state in layer.states
        if state.argument.endswith("_init")
    ),
    bias_argument=MINDSPORE.keywords["bias"],
    missing="`--partial` writes the rest, and leaves these to be written by hand; `--to onnx` may have them",
    imports=_imports,
    notes=_notes,
)

can_emit = partial(emission.can_emit, DIALECT)
