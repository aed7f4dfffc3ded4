"""Resolves the calls of a saved program: torch's own operators on tensors and sizes, by an allow-list.

torch finds what a file calls by `getattr` from the module `torch`, which holds far more than operators:
``torch.hub.load``, ``torch.ops.load_library``, ``torch.load``.
"""

from __future__ import annotations

import keyword
import re
from contextlib import suppress
from functools import cache
from typing import Any

_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims|quantized_decomposed|torchao)\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)\Z", re.ASCII
)
_OF_PACKAGES = {
    "quantized_decomposed": ("torch.ao.quantization.fx._decomposed", None),
    "torchao": ("torchao.quantization", ("choose_qparams_affine", "dequantize_affine", "quantize_affine")),
}
"""Namespace -> the module that registers its operators, and those of them that compute only; None for all."""
_HIGHER = re.compile(r"torch\.ops\.higher_order\.(\w+)\Z", re.ASCII)
_WITH_FILES = frozenset({"from_file", "_print", "save"})
"""Operators of ``aten`` that write: `from_file` makes the file that it names."""
_HIGHER_ORDER = frozenset(
    {
        "associative_scan",
        "auto_functionalized",
        "auto_functionalized_v2",
        "cond",
        "flex_attention",
        "hints_wrapper",
        "invoke_subgraph",
        "map_impl",
        "out_dtype",
        "scan",
        "strict_mode",
        "tag_activation_checkpoint",
        "while_loop",
        "wrap",
        "wrap_with_autocast",
        "wrap_with_set_grad_enabled",
    }
)
"""Higher-order operators that run graphs of the same file and nothing else."""
_NAMES = """
_operator.eq _operator.ne _operator.le _operator.ge _operator.lt _operator.gt _operator.neg _operator.pos
_operator.mul _operator.add _operator.sub _operator.floordiv _operator.mod _operator.pow
_operator.truediv _operator.and_ _operator.or_ _operator.lshift _operator.rshift _operator.getitem
math.trunc math.floor math.ceil
torch.sym_int torch.sym_float torch.sym_ite torch.sym_max torch.sym_min torch.sym_not torch.sym_sqrt
torch.sym_sum torch.sym_fresh_size
torch._sym_sqrt torch._sym_cos torch._sym_cosh torch._sym_sin torch._sym_sinh torch._sym_tan
torch._sym_tanh torch._sym_asin torch._sym_acos torch._sym_atan torch._sym_exp torch._sym_log
torch._sym_log2
torch._functorch.predispatch._add_batch_dim torch._functorch.predispatch._remove_batch_dim
torch._functorch.predispatch._vmap_increment_nesting torch._functorch.predispatch._vmap_decrement_nesting
torch._functorch.predispatch.lazy_load_decompositions
"""
_FUNCTIONS = frozenset(_NAMES.split())
"""Python's and torch's functions on sizes, and the marks that `torch.vmap` leaves."""


def is_operator(target: str) -> bool:
    """Whether a saved program may call `target`: an operator that computes and touches nothing else."""
    if target in _FUNCTIONS:
        return True
    found = _HIGHER.match(target)
    if found:
        return found[1] in _HIGHER_ORDER
    found = _OPERATOR.match(target)
    return found is not None and found[2] not in _WITH_FILES and _is_dispatched(*found.groups())


def writes_files(name: str) -> bool:
    """Whether an operator of ``aten`` opens files or prints."""
    return name in _WITH_FILES


def is_identifier(name: str) -> bool:
    """Whether a name is safe in the source that torch.fx writes and executes: an identifier, nothing else."""
    return name.isidentifier() and not keyword.iskeyword(name) and len(name) <= _LONGEST


_LONGEST = 2000


def _is_dispatched(namespace: str, name: str, overload: str) -> bool:
    """Whether torch's dispatcher has it, as against functions of TorchScript alone (``aten::save``)."""
    full = f"{namespace}::{name}" + ("" if overload == "default" else f".{overload}")
    package, names = _OF_PACKAGES.get(namespace, ("", None))
    return (names is None or name in names) and full in _dispatched(package)


@cache
def _dispatched(package: str) -> frozenset[str]:
    """Return the names of all operators; with those of a module, if it is installed."""
    import importlib

    import torch

    if package:
        with suppress(ImportError):
            importlib.import_module(package)
    library: Any = torch._C
    return frozenset(library._dispatch_get_all_op_names())
