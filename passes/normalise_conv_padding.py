"""normalise-conv-padding: padding rules become explicit pads, and a Pad joins the window it precedes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..ir import DOMAIN, BackendError, Builder, Graph, Operator, PassError, expand
from .base import Change, Pass
from .eliminate_identities import drop_idle_constants
from .places import Places
from .windows import interleave, same_total, split_total, transposed_total


@dataclass(frozen=True)
class NormaliseConvPadding(Pass):
    """Make padding explicit.

    What it does:
        Replaces ``auto_pad`` SAME_UPPER, SAME_LOWER and VALID of convolutions, transposed convolutions and
        pools by explicit pads, dilation, even kernels and even inputs with stride included; writes out
        MXNet's "full" pools; and folds a Pad into the Conv (zeros), AveragePool (zeros, which then count) or
        MaxPool (-inf) that follows it in the same module call.

    Why:
        Every framework has another default and another rule for where the odd cell goes; explicit pads mean
        the same everywhere. ONNX Runtime refuses ``auto_pad`` with dilation.

    Leaves alone:
        ``ceil_mode``, which ONNX has exactly. A Pad of another value, of other axes, with other users, in
        another module call (folding it would change what the modules compute), or as wide as the window of
        a pool: runtimes refuse those pads.

    Refuses:
        A stride above 1 over a spatial size that is not known: the amount depends on it. It is reported and
        stays as it is; with ``strict=on`` it is an error.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,3,8,8]
        ...   %w = param "w" : f32[4,3,3,3]
        ...   %y = Conv(%x, %w) {auto_pad="SAME_UPPER", strides=[2, 2]} : f32[N,4,4,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in NormaliseConvPadding().run(graph):
        ...     print(change)
        CP101 SAME_UPPER is pads [0, 0, 1, 1] - at `Conv`

    Attributes:
        strict: whether a size that is not known is an error.
    """

    name: ClassVar[str] = "normalise-conv-padding"
    codes: ClassVar[dict[str, str]] = {
        "CP101": "a padding rule becomes explicit pads",
        "CP102": "a padding rule depends on a size that is not known",
        "CP103": "a Pad joins the convolution or pool that follows it",
        "CP104": "a pool of MXNet's full convention is written out",
    }
    rewordings: ClassVar[frozenset[str]] = frozenset({"CP101", "CP103", "CP104"})
    needs_dataflow: ClassVar[bool] = True

    strict: bool = False

    def run(self, graph: Graph) -> list[Change]:
        """Normalise; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        for part in list(graph.subgraphs()):
            for node in part.operators():
                if node.key not in part:
                    continue
                if node.domain == DOMAIN and node.op_type == "FullPool":
                    changes.append(self._write_out(part, node, places))
                elif node.traits.windowed:
                    change = self._make_explicit(part, node, places)
                    changes += [change] if change else []
            for node in part.operators():
                if not node.domain and node.op_type in ("Conv", "AveragePool", "MaxPool"):
                    while fold_pad(part, node):
                        pads = node.ints("pads")
                        changes.append(
                            Change("CP103", f"takes over a Pad: pads {pads}", place=places.of(part, node.key))
                        )
        return changes

    def _write_out(self, part: Graph, node: Operator, places: Places) -> Change:
        place = places.of(part, node.key)
        try:
            expand(Builder(part), node.key)
        except BackendError as error:  # the expansion needs sizes that are not known
            if self.strict:
                raise PassError("E501", error.message, place=place, hint=error.hint) from error
            message = f"{error.message}: {error.hint}"
            return Change("CP102", message, place=place, severity="warning", fixed=False)
        return Change("CP104", "the full convention is written out", place=place)

    def _make_explicit(self, part: Graph, node: Operator, places: Places) -> Change | None:
        mode = node.str("auto_pad")
        transposed = node.op_type == "ConvTranspose"
        if mode == "NOTSET" and not (transposed and node.ints("output_shape")):
            return None
        place = places.of(part, node.key)
        found = _compute_transposed_pads(part, node, mode) if transposed else _compute_pads(part, node, mode)
        sizes = node.ints("output_shape") if transposed else []
        rule = f"output_shape {sizes}" if sizes else mode
        if found is None:
            hint = "give the model's spatial size, e.g. --input x=1x3x224x224 without --dynamic for its axes"
            message = f"{rule} with a stride depends on a spatial size that is not known"
            if self.strict:
                raise PassError("E501", message, place=place, hint=hint)
            return Change("CP102", f"{message}: {hint}", place=place, severity="warning", fixed=False)
        node.attributes.pop("auto_pad", None)
        node.attributes.pop("output_shape", None)
        node.attributes.pop("ceil_mode", None)  # SAME and VALID have no use for it, explicit pads would
        node.attributes["pads"], more = found
        if any(more):
            node.attributes["output_padding"] = more
        also = f" and output_padding {more}" if any(more) else ""
        return Change("CP101", f"{rule} is pads {node.attributes['pads']}{also}", place=place)


def kernel_of(part: Graph, node: Operator) -> list[int] | None:
    """Return the kernel sizes: the attribute, or the weight's trailing dimensions."""
    kernel = node.ints("kernel_shape")
    if kernel or node.op_type not in ("Conv", "ConvTranspose"):
        return kernel or None
    weight = part.operands(node.key)[1]
    type_ = None if weight is None else part.type_of(weight)
    return list(type_.static_shape()[2:]) if type_ is not None and type_.is_static else None


def _sizes(part: Graph, node: Operator, rank: int) -> list[int | None]:
    """Return the spatial sizes of the data operand, None where one is not known."""
    data = part.operands(node.key)[0]
    type_ = None if data is None else part.type_of(data)
    if type_ is None or type_.shape is None:
        return [None] * rank
    return [d if isinstance(d, int) else None for d in type_.shape[2:]]


def _compute_pads(part: Graph, node: Operator, mode: str) -> tuple[list[int], list[int]] | None:
    """Return (pads, output padding) of a convolution or pool with `auto_pad`; None if a size is unknown."""
    kernel = kernel_of(part, node)
    if kernel is None:
        return None
    rank = len(kernel)
    if mode == "VALID":
        return [0] * (2 * rank), []
    totals = [
        same_total(*axis)
        for axis in zip(
            _sizes(part, node, rank),
            kernel,
            node.spatial("strides", rank),
            node.spatial("dilations", rank),
            strict=True,
        )
    ]
    known = [total for total in totals if total is not None]
    if len(known) < rank:
        return None
    return interleave([split_total(total, mode) for total in known]), []


def _compute_transposed_pads(part: Graph, node: Operator, mode: str) -> tuple[list[int], list[int]] | None:
    """Return (pads, output padding) of a transposed convolution, whose pads crop the output."""
    kernel = kernel_of(part, node)
    if kernel is None:
        return None
    rank = len(kernel)
    strides = node.spatial("strides", rank)
    dilations = node.spatial("dilations", rank)
    extra = node.spatial("output_padding", rank)
    wanted = node.ints("output_shape")
    if mode == "VALID" and not wanted:
        return [0] * (2 * rank), extra
    sizes = _sizes(part, node, rank)
    pairs: list[tuple[int, int]] = []
    for axis in range(rank):
        total = transposed_total(kernel[axis], strides[axis], dilations[axis], extra[axis])
        if wanted:
            size = sizes[axis]
            if size is None:
                return None
            total += strides[axis] * size - wanted[-rank:][axis]
        if total < 0:
            extra[axis] -= total
            total = 0
        pairs.append(split_total(total, mode))
    return interleave(pairs), extra


def fold_pad(part: Graph, node: Operator) -> bool:
    """Fold the Pad before a convolution or pool into its pads, if that is exact; returns whether it did."""
    data = part.operands(node.key)[0]
    pad = None if data is None else part.producer(data)
    if data is None or not isinstance(pad, Operator) or pad.domain or pad.op_type != "Pad":
        return False
    if pad.call != node.call or len(part.users(data)) != 1 or part.is_output(data):
        return False
    found = pad_widths(part, pad)
    kernel = kernel_of(part, node)
    if found is None or kernel is None or node.str("auto_pad") != "NOTSET" or len(node.types) != 1:
        return False
    widths, value = found
    rank = len(kernel)
    if (
        len(widths) != rank + 2
        or any(widths[0])
        or any(widths[1])
        or any(w < 0 for pair in widths for w in pair)
    ):
        return False
    own = node.spatial("pads", rank)
    if value != (-np.inf if node.op_type == "MaxPool" else 0.0):
        return False
    total = [a + b for a, b in zip(own, interleave(widths[2:]), strict=True)]
    if node.op_type != "Conv":
        if any(p >= k for p, k in zip(total, [*kernel, *kernel], strict=True)):
            return False
        if node.op_type == "AveragePool":
            # zeros of the Pad count; so must the pool's own, and an overhang must not
            if node.int("ceil_mode") or (any(own) and not node.int("count_include_pad")):
                return False
            node.attributes["count_include_pad"] = 1
        elif node.int("ceil_mode"):
            return False  # the rule for the last window looks at the pads
    node.attributes["pads"] = total
    operands = part.operands(pad.key)
    part.set_operand(node.key, 0, operands[0])
    part.remove(pad.key)
    drop_idle_constants(part, operands[1:])
    return True


def pad_widths(part: Graph, pad: Operator) -> tuple[list[tuple[int, int]], float] | None:
    """Return ((begin, end) per axis, value) of a Pad with constant operands; None for any other."""
    operands = [*part.operands(pad.key), None, None, None][:4]
    type_ = None if operands[0] is None else part.type_of(operands[0])
    widths = part.constant_value(operands[1])
    if pad.str("mode") != "constant" or widths is None or type_ is None or type_.rank is None:
        return None
    value, axes = part.constant_value(operands[2]), part.constant_value(operands[3])
    if (operands[2] is not None and value is None) or (operands[3] is not None and axes is None):
        return None
    chosen = range(type_.rank) if axes is None else [int(a) % type_.rank for a in axes]
    pairs = [(0, 0)] * type_.rank
    half = len(widths) // 2
    for axis, begin, end in zip(chosen, widths[:half], widths[half:], strict=True):
        pairs[axis] = (int(begin), int(end))
    return pairs, 0.0 if value is None else float(value)
