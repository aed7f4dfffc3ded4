"""Explains refused torch operators, with advice and the smallest module that has one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...ir import Missing

if TYPE_CHECKING:
    from torch.fx import Node

COMPLEX = "it uses complex numbers, and has no form on real and imaginary parts yet"
"""The reason of every operator on complex numbers."""

_RULES: tuple[tuple[str, str, str], ...] = (
    (
        r"rand|normal_?$|normal_functional|bernoulli|poisson|multinomial|binomial|random|cauchy|exponential_"
        r"|geometric_|rrelu_with|alpha_dropout|uniform",
        "it draws random numbers, and no runtime draws torch's",
        "draw them outside the model and give them as an input",
    ),
    (
        r"complex|polar|^imag$|^real$|^fft_|^_?stft|^istft|conj|angle|linalg_eig$|linalg_eigvals$",
        COMPLEX,
        "write the model on real and imaginary parts",
    ),
    (
        r"eig|svd|_qr|^qr$|geqrf|ormqr|householder|ldl|lstsq|pinv|^linalg_lu$|lu_unpack|_powsum",
        "it is an iterative or rank-revealing factorisation, which neither ONNX nor MindSpore has",
        "compute it outside the model and give the result as an input, or as a buffer where it is constant",
    ),
    (
        r"sparse|coalesce|(col|row|^)_?indices|^values|mkldnn|hspmm",
        "it needs a storage format other than dense",
        "call `to_dense()` before",
    ),
    (
        r"quant|int_repr|^_scaled_mm|_q_",
        "it is part of a quantised model",
        "export the float model and quantise it for its target",
    ),
    (
        r"combinations|unique_dim_consecutive|repeat_interleave|padded_tensor|narrow",
        "the size of its result depends on data",
        "give it a size that is known, e.g. by `one_hot(x, n).sum(0)` for counts",
    ),
    (
        r"igamma|airy|nextafter|hash",
        "no formula of a fixed number of steps gives it to the precision of float32",
        "compute it outside the model, or write an approximation for the range that the model needs",
    ),
    (
        r"resize|^set$|from_file|^view$|slice_inverse",
        "it depends on how a tensor lies in memory, or writes into a parameter",
        "write it with `reshape`, slices and `index_put`",
    ),
    (
        r"^associative_scan$",
        "it is a kernel of one device where `combine_mode` is 'pointwise'",
        "give it combine_mode='generic'",
    ),
    (
        r"efficient_attention|flash_attention|cudnn",
        "it is a kernel of one device",
        "call `torch.nn.functional.scaled_dot_product_attention`",
    ),
    (
        r"batch_norm_|native_norm|glu_jvp|slow_conv|conv_depthwise|conv_tbc|overrideable|backward|lu_with_info",
        "it is a part of a kernel of torch's own",
        "call the function of `torch.nn.functional` that it belongs to",
    ),
)
"""(pattern of the operator's name, why it is refused, what to do instead); the first that fits."""

_OF_DEVICES = ("_", "cudnn", "miopen", "mkldnn", "mps")
"""Kernels that no program asks for by name."""

_OTHERS = (
    "it has no lowering yet",
    "write it in operators that have one, or add a lowering (docs/en/guides/extending.md)",
)


class WrongKernelError(Exception):
    """A kernel does not give what its layer computes, as fbgemm's of some transposed convolutions.

    Args:
        packed: the layer's packed weights.
        operator: the operator's name.
        steps: the most that a result is off.
    """

    def __init__(self, packed: Any, operator: str, steps: int) -> None:
        super().__init__(operator)
        self.packed, self.operator, self.steps = packed, operator, steps


def reason(operator: str) -> tuple[str, str] | None:
    """Return why an operator cannot be read, and what to do instead; None if no rule fits."""
    base = operator.split(".")[1] if "." in operator else operator
    return next(((why, instead) for pattern, why, instead in _RULES if re.search(pattern, base)), None)


def explain_missing(operator: str, places: list[str], node: Node, found: str = "") -> Missing:
    """Return an operator without a lowering as an error's row, with all that its user can do.

    Args:
        operator: its name.
        places: module path and source line of every use.
        node: the first use.
        found: why its expansion does not cover this use, where there is one.
    """
    why, instead = find_advice(operator)
    smallest = reproduction(node) if hasattr(node.target, "_schema") else ""
    return Missing(operator, tuple(places), found or why, instead, smallest)


def has_complex(node: Node) -> bool:
    """Whether a call takes or gives complex tensors."""
    values = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
    flat = [v for value in values for v in (value if isinstance(value, (list, tuple)) else [value])]
    return any(v.dtype.is_complex for v in flat if v is not None and hasattr(v, "dtype"))


def find_advice(operator: str) -> tuple[str, str]:
    """Return why an operator is refused and what to do instead, also where no rule fits."""
    return reason(operator) or _OTHERS


def tensor_arguments(node: Node) -> list[Node]:
    """Return the calls and inputs whose tensors a call reads, each once, in argument order."""
    return [n for n in node.all_input_nodes if hasattr(n.meta.get("val"), "dtype")]


def write_call(node: Node, names: list[str]) -> str:
    """Return a call as Python source, its tensors under the given names."""
    from torch.fx import Node

    tensors = dict(zip(tensor_arguments(node), names, strict=True))

    def written(argument: Any) -> str:
        if isinstance(argument, Node):
            if getattr(argument.meta.get("val"), "class_fqn", "") == "torch._C.Generator":
                return "torch.Generator()"
            return tensors.get(argument) or repr(_hint(argument.meta.get("val")))
        if isinstance(argument, (list, tuple)):
            return f"[{', '.join(map(written, argument))}]"
        text = repr(argument)
        return f"torch.{text}" if text.startswith("device(") else text

    arguments = [written(a) for a in node.args]
    arguments += [f"{k}={written(v)}" for k, v in node.kwargs.items()]
    return f"torch.ops.{node.target}({', '.join(arguments)})"


def reproduction(node: Node) -> str:
    """Return source of the smallest module with this call, and how to load it."""
    tensors = [n.meta["val"] for n in tensor_arguments(node)]
    names = [f"x{i}" for i in range(len(tensors))]
    inputs = [f"torch.ones({[_hint(s) for s in t.shape]}, dtype={t.dtype})" for t in tensors]
    return "\n".join(
        [
            "class Smallest(torch.nn.Module):",
            f"    def forward({', '.join(['self', *names])}):",
            f"        return {write_call(node, names)}",
            "",
            f"regraft.load(Smallest(), ({', '.join(inputs)}{',' if len(inputs) == 1 else ''}))",
        ]
    )


def _hint(value: Any) -> Any:
    """Return a size as the number that it was in the example."""
    return getattr(getattr(value, "node", None), "hint", None) or value


def refused_operators() -> dict[str, list[str]]:
    """Return reason -> the functional operators of torch that are refused for it, sorted."""
    import torch
    from torch._decomp import decomposition_table

    from .expansions import EXPANSIONS, IN_PARTS
    from .nodes import IGNORED
    from .operators import TABLE

    found: dict[str, set[str]] = {}
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        overload = overload or "default"
        if namespace != "aten" or base.startswith(_OF_DEVICES) or "out" in overload or "backward" in base:
            continue
        operator = getattr(getattr(torch.ops.aten, base), overload, None)
        if operator is None or operator._schema.is_mutable:
            continue
        if not any("Tensor" in str(r.type) for r in operator._schema.returns):
            continue
        full = f"aten.{base}.{overload}"
        known = full in TABLE or full in EXPANSIONS or full in IGNORED or full in IN_PARTS
        rule = reason(full)
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
        if known or composite or (operator in decomposition_table and rule is None):
            continue
        found.setdefault((rule or _OTHERS)[0], set()).add(full.removeprefix("aten.").removesuffix(".default"))
    return {why: sorted(found[why]) for why in sorted(found)}


def refusals_page() -> str:
    """Return the page docs/en/reference/torch-refusals.md."""
    instead = {why: advice for _, why, advice in _RULES} | dict([_OTHERS])
    rows = [
        f"| {', '.join(f'`{n}`' for n in names)} | {why} | {instead[why]} |"
        for why, names in refused_operators().items()
    ]
    return "\n".join(
        [
            "# torch operators that are refused",
            "",
            "Every functional ATen operator without a lowering, an expansion of ours or a decomposition of "
            "torch's that is known to work. Written by `make golden`, checked by the tests.",
            "",
            "| operators | why | instead |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )
