"""PyTorch's dialect: the form of its source."""

from __future__ import annotations

from collections.abc import Set
from functools import partial

from ..source import emission
from ..source.dialect import Dialect
from ..source.expressions import Argument, Call, NnClass, Part, Tuple, call
from ..source.names import Names
from .emitters import HELPERS, TABLE
from .emitters.constants import constant, stored_constant
from .emitters.idle import idle_layer
from .emitters.initializers import DRAWN, REGISTER_BUFFER, law_of, own_parameter, torch_dtype
from .emitters.run_time.operators import TABLE as RUN_TIME
from .naming import reserved_attributes
from .templates.build_function import COUNTER, build_function

_MODULES = frozenset({"torch", "nn", "F", "math"})

NAMES = Names(
    reserved=reserved_attributes,
    top=_MODULES
    | HELPERS.keys()
    | {"Path", "json", "CHECKPOINT", "CONSTANTS", "build", "load", "load_file", "load_model", "tuple"},
    holds_any=True,
    called=_MODULES | {"tuple", "int", "float", "bool", "print", "min", "max"} | HELPERS.keys(),
)


def _size_tensor(sizes: Part, host: str, dtype: str, is_computed: bool) -> Part:  # noqa: ARG001
    """Return ``torch.tensor(x.shape[0])``."""
    if host == "tuple":
        sizes = Call("list", (Argument("", sizes),)) if not isinstance(sizes, Tuple) else sizes
    return call("torch.tensor", sizes, dtype=None if dtype == "int64" else torch_dtype(dtype))


def _imports(names: Set[str], called: Set[str]) -> list[str]:
    """Return the imports for the names that a file reads, and those that it calls."""
    lines = [*(["import torch"] if "torch" in names else [])]
    lines += ["import torch.nn.functional as F"] if "F" in names else []
    loading = [name for name in ("load_file", "load_model") if name in called]
    lines += [f"from safetensors.torch import {', '.join(loading)}"] if loading else []
    return [*lines, "from torch import nn"]


DIALECT = Dialect(
    "PyTorch",
    base=NnClass("Module"),
    sequential=NnClass("Sequential", "sequential"),
    module_list=NnClass("ModuleList", "list"),
    emitters=TABLE,
    constant=constant,
    stored_constant=stored_constant,
    parameter=own_parameter,
    build=build_function,
    parameter_list=NnClass("ParameterList"),
    calls_lists=True,
    method="forward",
    computed=RUN_TIME,
    helpers=HELPERS,
    names=NAMES,
    distribution=law_of,
    size_tensor=_size_tensor,
    concatenation="torch.cat",
    constants_file="constants.safetensors",
    registration=REGISTER_BUFFER,
    drawing=DRAWN,
    keeps="torch",
    idle_layer=idle_layer,
    counter=(COUNTER, Call(REGISTER_BUFFER, (Argument("", call("torch.tensor", 0)),))),
    missing="`--partial` writes the rest, and leaves these to be written by hand; `--to onnx` may have them",
    imports=_imports,
)

can_emit = partial(emission.can_emit, DIALECT)
