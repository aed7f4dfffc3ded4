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
    """Return the numbers of a vector, for arguments that cannot be tensors: sizes, axes."""
    return tuple([int(n) for n in x])
'''

BY_AXIS = '''def by_axis(given, axes, default):
    """Return one number per axis: `given` for the axes listed, `default` for the others."""
    return ops.tensor_scatter_elements(default, axes.astype(ms.int64) % len(default), given.astype(ms.int64))
'''

SIZES_OF = '''def sizes_of(x):
    """Return the shape of x as a tensor; x has at least one axis."""
    return ops.tuple_to_array(x.shape).astype(ms.int64)
'''

OF_NONE = '''def of_none(x, axes, value, dtype, keepdims):
    """Reduce x over axes without elements; MindSpore's own result has another shape in graph mode."""
    found = ops.full(numbers(by_axis(ops.ones_like(axes), axes, sizes_of(x))), value, dtype=dtype)
    return found if keepdims else found.squeeze(numbers(axes))
'''

WITH_NEUTRAL = '''def with_neutral(x, axis, value):
    """Append one element along an axis: on CPU, a reduction of no elements returns stale memory."""
    like = x.any(axis, True) if x.dtype == ms.bool_ else x.sum(axis, keepdims=True)
    return ops.cat((x, ops.full_like(like.astype(x.dtype), value)), axis)
'''

SLICED = '''def sliced(x, starts, ends, axes=None, steps=None):
    """Compute ONNX's Slice for bounds, axes and steps that are tensors."""
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
    """Compute ONNX's Pad for pads and axes that are tensors; negative pads crop."""
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
    """Compute ONNX's Expand for a shape that is a tensor; a size of 1 stretches on either side."""
    more = len(shape) - x.ndim
    x = x.reshape((1,) * more + x.shape) if more > 0 else x
    shape = ops.cat((ops.ones(max(-more, 0), ms.int64), shape.astype(ms.int64)))
    return ops.broadcast_to(x, numbers(ops.where(shape == 1, sizes_of(x), shape)))
'''

RESHAPED = '''def reshaped(x, shape):
    """Compute ONNX's Reshape for a shape that is a tensor: 0 keeps a size of x, -1 takes the rest."""
    sizes = ops.cat((sizes_of(x), ops.ones_like(shape)))[: len(shape)]
    return x.reshape(numbers(ops.where(shape == 0, sizes, shape)))
'''

UNSQUEEZED = '''def unsqueezed(x, axes):
    """Insert axes of size 1 into x; the tensor `axes` counts in the result."""
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
