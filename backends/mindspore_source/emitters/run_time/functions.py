"""Functions of an emitted file's own, for operators whose settings are tensors: axes, sizes, bounds.

Measured in MindSpore 2.10 on CPU: all run in PyNative and in graph mode, and have gradients. In graph mode
there is none behind `Tensor.tolist`, and `ops.gather` has none along an axis that only a run gives.
In PyNative mode `Tensor.reshape` and `ops.broadcast_to` read a shape that is a tensor before it is computed:
sizes are what is in memory, and repeated calls end the process. `ops.tile`, `ops.arange`, `ops.full`,
`ops.topk`, `ops.one_hot`, `ops.linspace` and subscripts wait for theirs, and `int` of an element does.
"""

from __future__ import annotations

from ....source.helpers import HelperText

NUMBERS = '''def numbers(x):
    """The numbers of a vector, for arguments that are no tensors: sizes, axes."""
    return tuple([int(n) for n in x])
'''

BY_AXIS = '''def by_axis(given, axes, default):
    """One number an axis: those given for some axes, the default of all others."""
    return ops.tensor_scatter_elements(default, axes.astype(ms.int64) % len(default), given.astype(ms.int64))
'''

SIZES_OF = '''def sizes_of(x):
    """The shape of x, which has an axis at least, as a tensor."""
    return ops.tuple_to_array(x.shape).astype(ms.int64)
'''

OF_NONE = '''def of_none(x, axes, value, dtype, keepdims):
    """A reduction of x over no elements; MindSpore's have another shape in graph mode."""
    found = ops.full(numbers(by_axis(ops.ones_like(axes), axes, sizes_of(x))), value, dtype=dtype)
    return found if keepdims else found.squeeze(numbers(axes))
'''

WITH_NEUTRAL = '''def with_neutral(x, axis, value):
    """x with one more element along an axis: reductions of none give what is in memory on CPU."""
    like = x.any(axis, True) if x.dtype == ms.bool_ else x.sum(axis, keepdims=True)
    return ops.cat((x, ops.full_like(like.astype(x.dtype), value)), axis)
'''

SLICED = '''def sliced(x, starts, ends, axes=None, steps=None):
    """ONNX's Slice, with bounds, axes and steps that are tensors."""
    sizes = sizes_of(x)
    ones = ops.ones_like(sizes)
    axes = ops.arange(len(starts)) if axes is None else axes
    starts, ends = by_axis(starts, axes, ops.zeros_like(sizes)), by_axis(ends, axes, sizes)
    steps = ones if steps is None else by_axis(steps, axes, ones)
    low, high = ops.where(steps < 0, -1, 0), ops.where(steps < 0, sizes - 1, sizes)
    starts, ends = [ops.clamp(ops.where(n < 0, n + sizes, n), low, high) for n in (starts, ends)]
    ends = ops.where(steps < 0, ops.minimum(starts, ends), ops.maximum(starts, ends))
    for axis in range(x.ndim):
        places = ops.arange(int(starts[axis]), int(ends[axis]), int(steps[axis]))
        x = ops.gather(x, places, axis)
    return x
'''

PADDED = '''def padded(x, pads, mode, value=0, axes=None):
    """ONNX's Pad, with pads and axes that are tensors; negative pads crop."""
    sizes = sizes_of(x)
    begins, ends = ops.chunk(pads.astype(ms.int64), 2)
    if axes is not None:
        begins, ends = [by_axis(n, axes, ops.zeros_like(sizes)) for n in (begins, ends)]
    cut = ops.relu(-begins)
    sizes = sizes - cut - ops.relu(-ends)
    begins, ends = ops.relu(begins), ops.relu(ends)
    for axis in range(x.ndim):
        size = sizes[axis]
        at = ops.arange(int(-begins[axis]), int(size + ends[axis]))
        inside = ops.logical_and(at >= 0, at < size)
        if mode == "wrap":
            at = at % size
        if mode == "reflect":
            period = ops.relu(2 * size - 3) + 1
            at = ops.minimum(at % period, -at % period)
        x = ops.gather(x, ops.clamp(at, ops.zeros_like(size), size - 1) + cut[axis], axis)
        if mode == "constant":
            x = ops.where(inside.reshape((-1,) + (1,) * (x.ndim - 1 - axis)), x, value)
    return x
'''

EXPANDED = '''def expanded(x, shape):
    """ONNX's Expand, whose shape is a tensor: a size of 1 is stretched, on either side."""
    more = len(shape) - x.ndim
    x = x.reshape((1,) * more + x.shape) if more > 0 else x
    shape = ops.cat((ops.ones(max(-more, 0), ms.int64), shape.astype(ms.int64)))
    return ops.broadcast_to(x, numbers(ops.where(shape == 1, sizes_of(x), shape)))
'''

RESHAPED = '''def reshaped(x, shape):
    """ONNX's Reshape, whose shape is a tensor: a size of 0 is that of x, one of -1 what is left."""
    sizes = ops.cat((sizes_of(x), ops.ones_like(shape)))[: len(shape)]
    return x.reshape(numbers(ops.where(shape == 0, sizes, shape)))
'''

UNSQUEEZED = '''def unsqueezed(x, axes):
    """x with axes of size 1; they are a tensor, and count in the result."""
    for axis in numbers(ops.sort(axes % (x.ndim + len(axes)))[0]):
        x = x.expand_dims(axis)
    return x
'''

FUNCTIONS = {
    "numbers": HelperText(NUMBERS),
    "by_axis": HelperText(BY_AXIS),
    "sizes_of": HelperText(SIZES_OF),
    "of_none": HelperText(OF_NONE, ("numbers", "by_axis", "sizes_of")),
    "with_neutral": HelperText(WITH_NEUTRAL),
    "sliced": HelperText(SLICED, ("by_axis", "sizes_of")),
    "padded": HelperText(PADDED, ("by_axis", "sizes_of")),
    "expanded": HelperText(EXPANDED, ("numbers", "sizes_of")),
    "reshaped": HelperText(RESHAPED, ("numbers", "sizes_of")),
    "unsqueezed": HelperText(UNSQUEEZED, ("numbers",)),
}
"""Name -> helper, each behind those that it uses."""
