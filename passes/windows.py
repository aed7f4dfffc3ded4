"""The arithmetic of sliding windows: how much padding `SAME` means, per side, for one axis."""

from __future__ import annotations


def extent(kernel: int, dilation: int = 1) -> int:
    """Return the number of input cells that a window spans along one axis.

    Example:
        >>> extent(3), extent(3, dilation=2), extent(1, dilation=5)
        (3, 5, 1)
    """
    return dilation * (kernel - 1) + 1


def same_total(size: int | None, kernel: int, stride: int = 1, dilation: int = 1) -> int | None:
    """Return the total padding of `SAME` along one axis, by which the output has ceil(size / stride) cells.

    The total is never negative. Where the stride exceeds the window, ONNX's runtimes disagree with each
    other; 0 is what MindSpore computes, and TensorFlow, which invented the rule.

    Args:
        size: input size, or None when it is not known.
        kernel: kernel size.
        stride: stride.
        dilation: dilation.

    Returns:
        The total, or None where it depends on a size that is not known.

    Example:
        >>> same_total(7, 3, stride=2), same_total(8, 3, stride=2), same_total(8, 3, stride=2, dilation=2)
        (2, 1, 3)
        >>> same_total(None, 4), same_total(None, 3, stride=2), same_total(None, 1, stride=2)
        (3, None, 0)
    """
    span = extent(kernel, dilation)
    if span == 1:  # (ceil(size / stride) - 1) * stride + 1 never exceeds the size
        return 0
    if stride == 1:
        return span - 1
    if size is None:
        return None
    return max((-(-size // stride) - 1) * stride + span - size, 0)


def split_total(total: int, mode: str) -> tuple[int, int]:
    """Split padding into (begin, end): an odd cell is at the end for SAME_UPPER, else at the beginning.

    Example:
        >>> split_total(3, "SAME_UPPER"), split_total(3, "SAME_LOWER")
        ((1, 2), (2, 1))
    """
    less = total // 2
    return (less, total - less) if mode == "SAME_UPPER" else (total - less, less)


def transposed_total(kernel: int, stride: int, dilation: int, output_padding: int) -> int:
    """Return what `SAME` crops from a transposed convolution along one axis: size * stride cells stay.

    The result is negative where the full output is shorter than that; so many zeros are then appended.

    Example:
        >>> transposed_total(3, 2, 1, 0), transposed_total(2, 3, 1, 0)
        (1, -1)
    """
    return extent(kernel, dilation) - stride + output_padding


def interleave(pairs: list[tuple[int, int]]) -> list[int]:
    """Return pads in ONNX's order: all beginnings, then all ends.

    Example:
        >>> interleave([(1, 2), (3, 4)])
        [1, 3, 2, 4]
    """
    return [begin for begin, _ in pairs] + [end for _, end in pairs]
