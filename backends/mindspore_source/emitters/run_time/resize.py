"""Functions of an emitted file's own for a Resize whose scales or sizes a run gives.

Places and weights are those of ONNX's reference evaluator: in float64, and in float32 to the nearest, as the
runtimes have them, since places may tie there.
"""

from __future__ import annotations

from ....source.helpers import HelperText

RESIZE_PLACES = '''def resize_places(size, wanted, scale, length, start, end, where):
    """Return the position in the source axis of each element of the resized axis."""
    at = ops.arange(int(wanted)).astype(scale.dtype)
    if where == "asymmetric":
        return at / scale
    if where == "align_corners":
        return at * ops.where(length == 1, 0, (size - 1) / (length - 1))
    if where == "tf_crop_and_resize":
        first, last = start * (size - 1), end * (size - 1)
        return ops.where(length == 1, (first + last) / 2, first + at * ((last - first) / (length - 1)))
    found = (at + 0.5) / scale - 0.5
    if where == "half_pixel_symmetric":
        found = found + size / 2 * (1 - wanted / length)
    return ops.where(length == 1, -0.5, found) if where == "pytorch_half_pixel" else found
'''

RESIZE_WEIGHTS = '''def resize_weights(size, places, scale, mode, cubic, is_antialias, is_within):
    """Return the weight of each source element at each place; the outer elements repeat beyond the ends."""
    one = ops.ones_like(scale)
    narrow = ops.minimum(scale, one) if is_antialias else one
    reach = int(ops.ceil(2 / narrow)) + 1
    taps = ops.arange(-reach, int(size) + reach)
    places = ops.clamp(places, -0.5 * one, size - 0.5)
    far = ops.abs(taps - places.expand_dims(-1)) * narrow
    if mode == "linear":
        weights = ops.relu(1 - far)
    else:
        near = ((cubic + 2) * far - (cubic + 3)) * far * far + 1
        weights = cubic * (((far - 5) * far + 8) * far - 4)
        weights = ops.where(far < 1, near, ops.where(far < 2, weights, 0))
    if is_within:
        weights = ops.where(ops.logical_and(taps >= 0, taps < size), weights, 0)
    nearest = ops.clamp(taps, ops.zeros_like(size), size - 1).expand_dims(-1)
    own = (nearest == ops.arange(int(size))).astype(weights.dtype)
    return ops.matmul(weights / weights.sum(-1, keepdims=True), own)
'''

RESIZED = '''def resized(
    x,
    scales=None,
    sizes=None,
    roi=None,
    axes=(),
    mode="nearest",
    where="half_pixel",
    rounding="round_prefer_floor",
    policy="stretch",
    cubic=-0.75,
    is_antialias=False,
    is_within=False,
    outside=0.0,
):
    """Compute ONNX's Resize for scales or sizes that are tensors: one product or gather per axis."""
    real = ms.float32 if mode == "nearest" else ms.float64
    shape = sizes_of(x).astype(real)
    old = ops.stack([shape[axis] for axis in axes])
    if sizes is None:
        new = ops.floor(old.astype(ms.float32) * scales).astype(real)
        scales = scales.astype(real)
        lengths = scales * old
    else:
        lengths = new = sizes.astype(real)
        scales = new / old
        if policy != "stretch":
            one = ops.min(scales)[0] if policy == "not_larger" else ops.max(scales)[0]
            scales = ops.zeros_like(old) + one
            lengths = scales * old
            new = ops.floor(lengths + 0.5)
    starts, ends = (old, old) if roi is None else ops.chunk(roi.astype(real), 2)
    for k in range(len(axes)):
        size, axis = old[k], axes[k]
        places = resize_places(size, new[k], scales[k], lengths[k], starts[k], ends[k], where)
        if mode == "nearest":
            if rounding == "floor":
                taken = ops.floor(places)
            elif rounding == "ceil":
                taken = ops.ceil(places)
            elif rounding == "round_prefer_ceil":
                taken = ops.floor(places + 0.5)
            else:
                taken = ops.ceil(places - 0.5)
            x = ops.gather(x, ops.clamp(taken, ops.zeros_like(size), size - 1).astype(ms.int64), axis)
        else:
            weights = resize_weights(size, places, scales[k], mode, cubic, is_antialias, is_within)
            x = ops.matmul(x.swapaxes(axis, -1), weights.T.astype(x.dtype)).swapaxes(axis, -1)
        if where == "tf_crop_and_resize":
            is_outside = ops.logical_or(places < 0, places > size - 1)
            x = ops.where(is_outside.reshape((-1,) + (1,) * (x.ndim - 1 - axis)), outside, x)
    return x
'''

FUNCTIONS = {
    "resize_places": HelperText(RESIZE_PLACES),
    "resize_weights": HelperText(RESIZE_WEIGHTS),
    "resized": HelperText(RESIZED, ("sizes_of", "resize_places", "resize_weights")),
}
"""Name -> helper, each behind those that it uses."""
