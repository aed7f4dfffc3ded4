"""lower-conv-transpose: transposed convolutions that MindSpore lacks become convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .....ir import Builder, Graph, Operator, Value
from .....passes.pattern import PatternPass
from ...dialect import can_emit


@dataclass(frozen=True)
class LowerConvTranspose(PatternPass):
    """Write a transposed convolution as a convolution of an input with zeros between.

    What it does:
        Replaces a ConvTranspose of static spatial axes that MindSpore has no layer for by a convolution with
        the kernel turned round, over the input with ``stride - 1`` zeros after every element and as much
        padding as the kernel reaches, less what the padding takes off.

    Why:
        MindSpore's layers take no groups with some strides, no three dimensions with dilation, and no
        output padding of every size.

    Leaves alone:
        What MindSpore has a layer for, symbolic axes, `auto_pad` and `output_shape`.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,2,4]
        ...   %w = input "w" : f32[2,3,3]
        ...   %y = ConvTranspose(%x, %w) {strides=[2]} : f32[N,3,9]
        ...   return "y" = %y
        ... }''')
        >>> for change in LowerConvTranspose().run(graph):
        ...     print(change)
        MS107 is written as a convolution of an input with zeros between - at `ConvTranspose`
    """

    name: ClassVar[str] = "lower-conv-transpose"
    codes: ClassVar[dict[str, str]] = {
        "MS107": "a transposed convolution is a convolution of an input with zeros between"
    }
    operators: ClassVar[tuple[str, ...]] = ("ConvTranspose",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Replace; see the class."""
        found = not can_emit(graph, node) and _replace_by_convolution(graph, node)
        return "is written as a convolution of an input with zeros between" if found else ""


def _replace_by_convolution(graph: Graph, node: Operator) -> bool:
    """Replace a ConvTranspose of static spatial axes; False where that cannot be.

    The convolution has the flipped kernel, and an input with ``stride - 1`` zeros after every element and
    padding as wide as the kernel reaches, minus the original padding.
    """
    data, weight, *rest = graph.operands(node.key)
    source, kernel = (None if v is None else graph.type_of(v) for v in (data, weight))
    if data is None or weight is None or source is None or kernel is None:
        return False
    sizes = [s for s in (source.shape or ())[2:] if isinstance(s, int)]
    form = [s for s in kernel.shape or () if isinstance(s, int)]
    rank = len(form) - 2
    automatic = node.str("auto_pad") != "NOTSET" or node.ints("output_shape")
    if rank < 1 or len(sizes) != rank or len(form) != kernel.rank or automatic:
        return False
    strides, dilations = node.spatial("strides", rank), node.spatial("dilations", rank)
    pads, more = node.spatial("pads", rank), node.spatial("output_padding", rank)
    group = node.int("group")
    reach = [d * (k - 1) for d, k in zip(dilations, form[2:], strict=True)]
    begins = [r - p for r, p in zip(reach, pads[:rank], strict=True)]
    ends = [r - p + m - s + 1 for r, p, m, s in zip(reach, pads[rank:], more, strides, strict=True)]
    b = Builder(graph)
    with b.inside(node.call, node.location):
        x = _insert_zeros(b, data, sizes, strides)
        if any(begins) or any(ends):
            axes = b.constant(list(range(2, 2 + rank)))
            x = b.op("Pad", x, b.constant([*begins, *ends]), None, axes)
        w = _turn_kernel(b, weight, form, group)
        if dilations[0] != 1 and rank == 3:  # which MindSpore's kernels lack
            w = _insert_zeros(b, w, form[2:], dilations)
            cut = [r + 1 for r in reach]
            w = b.op("Slice", w, b.constant([0] * rank), b.constant(cut), b.constant([2, 3, 4]))
            form, dilations = [*form[:2], *cut], [1] * rank
        bias = rest[0] if rest else None
        found = b.op(
            "Conv", x, w, bias, kernel_shape=form[2:], dilations=dilations, strides=[1] * rank, group=group
        )
    graph.replace_uses(Value(node.key), found)
    return True


def _insert_zeros(b: Builder, x: Value, sizes: list[int], steps: list[int]) -> Value:
    """Insert ``step - 1`` zeros after every element of each spatial axis."""
    for at, step in enumerate(steps):
        if step == 1:
            continue
        axis = 2 + at
        sizes = [*sizes[:at], sizes[at] * step, *sizes[at + 1 :]]
        apart = b.op("Unsqueeze", x, b.constant([axis + 1]))
        padded = b.op("Pad", apart, b.constant([0, step - 1]), None, b.constant([axis + 1]))
        x = b.op("Reshape", padded, b.constant([0, 0, *sizes]))
    return x


def _turn_kernel(b: Builder, weight: Value, form: list[int], group: int) -> Value:
    """Return a weight (in, out / group, …) as a convolution's (out, in / group, …), flipped spatially."""
    into, out, *window = form
    rank = len(window)
    if group != 1:
        weight = b.op("Reshape", weight, b.constant([group, into // group, out, *window]))
        weight = b.op("Transpose", weight, perm=[0, 2, 1, *range(3, 3 + rank)])
        weight = b.op("Reshape", weight, b.constant([group * out, into // group, *window]))
    else:
        weight = b.op("Transpose", weight, perm=[1, 0, *range(2, 2 + rank)])
    axes = [a for a, size in enumerate(window, 2) if size > 1]
    if not axes:
        return weight
    ends = [-(2**63) + 1] * len(axes)
    last, back = b.constant([-1] * len(axes)), b.constant([-1] * len(axes))
    return b.op("Slice", weight, last, b.constant(ends), b.constant(axes), back)
