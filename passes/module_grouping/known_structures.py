"""Recognises well-known structures by their operators, such as Bottleneck and Fire."""

from __future__ import annotations

from collections.abc import Sequence

from .chains import Block, Chain, Element, Group, Leaf, Step, steps_of, traits_of_element

GENERIC = frozenset({"ResidualBlock", "InceptionBlock", "ConvBlock"})
"""Names less specific than most names that sources give."""


def structural_name(group: Group) -> str:
    """Return the usual name of a structure, such as Bottleneck; empty if it has none."""
    elements = list(group.elements)
    while len(elements) > 1 and traits_of_element(elements[-1]).activation:
        elements.pop()
    if all(isinstance(e, Leaf) for e in elements):
        return _plain(list(steps_of(group.elements)))
    *before, last = elements
    if not isinstance(last, Block):
        return ""
    activations = [traits_of_element(e).activation for e in before]
    if last.shortcut is not None and activations == [False, True]:
        return "DownsampleBlock" if _kind(before[0]) == "BatchNormalization" else ""
    if last.join.step.kind == "Concat":
        return _name_joined(before, last)
    if not before and last.shortcut is not None:
        return _residual(last)
    if not before and last.join.step.kind == "Mul" and any(s.traits.pool for s in steps_of(last)):
        return "SqueezeExcite"
    return ""


def _kind(element: Element) -> str:
    return element.step.kind if isinstance(element, Leaf) else ""


def _kernels(steps: Sequence[Step]) -> list[int]:
    """Return the kernel size of each convolution, 0 for one that is not square."""
    return [s.kernel[0] if len(set(s.kernel)) == 1 else 0 for s in steps if s.traits.heavy]


def _residual(block: Block) -> str:
    """Name a residual block by the kernels of its main way."""
    assert block.shortcut is not None
    main = block.ways[1 - block.shortcut]
    assert main is not None
    steps = list(steps_of(main))
    if not all(isinstance(e, Leaf) for e in main.elements) or not all(map(_is_plain_layer, steps)):
        return "ResidualBlock"
    kernels = _kernels(steps)
    before = "PreAct" if steps[0].kind == "BatchNormalization" else ""
    if len(kernels) == 3 and kernels[0] == kernels[2] == 1 < kernels[1]:
        depthwise = [s.groups for s in steps if s.traits.heavy][1] == "depthwise"
        return "InvertedResidual" if depthwise else f"{before}Bottleneck"
    if kernels == [3, 3]:
        return f"{before}BasicBlock"
    return "ResidualBlock"


def _is_plain_layer(step: Step) -> bool:
    """Whether a step is a layer that blocks of convolutional networks consist of."""
    return step.kind in ("Conv", "BatchNormalization") or step.traits.activation or bool(step.traits.dropout)


def _name_joined(before: list[Element], block: Block) -> str:
    """Name a block whose ways are joined: DenseLayer, Fire or InceptionBlock; empty for others."""
    ways = block.ways
    if None in ways:
        plain = all(isinstance(e, Leaf) for way in ways if way is not None for e in way.elements)
        return "DenseLayer" if len(ways) == 2 and not before and plain else ""
    kernels = [_kernels(list(steps_of(way))) for way in ways if isinstance(way, Chain)]
    if before:
        squeeze = _kernels(list(steps_of(before)))
        return "Fire" if squeeze == [1] and kernels in ([[1], [3]], [[3], [1]]) else ""
    return "InceptionBlock" if len(ways) > 2 else ""


def _plain(steps: list[Step]) -> str:
    """Name an unbranched row of steps, such as ConvBNReLU or DepthwiseSeparable; empty for others."""
    kinds = [s.kind for s in steps]
    heavy = [s for s in steps if s.traits.heavy]
    kernels = _kernels(steps)
    if len(heavy) == 1 and kinds[0] == "Conv" and len(kinds) <= 3:
        return "".join(_WORDS.get(s.kind, "Act" if s.traits.activation else "") for s in steps)
    if len(heavy) == 1 and kinds[0] == "BatchNormalization" and steps[-1].traits.pool:
        return "Transition"
    if len(heavy) == 2 and heavy[0].groups == "depthwise" and kernels[1] == 1:
        return "DepthwiseSeparable"
    if len(heavy) == 3 and heavy[1].groups == "depthwise" and kernels[0] == kernels[2] == 1:
        return "" if steps[-1].traits.activation else "LinearBottleneck"
    plain = all(_is_plain_layer(s) or s.traits.pool for s in steps)
    return "ConvBlock" if len(heavy) > 1 and plain else ""


_WORDS = {"Conv": "Conv", "BatchNormalization": "BN", "Relu": "ReLU"}
