"""A function of an emitted file's own for a Resize in modes that torch lacks, or whose sizes a run gives.

Places and weights are those of ONNX's reference evaluator: in float64, and in float32 to the nearest, as the
runtimes have them, since places may tie there. Sizes stay Python numbers, so that torch.export reads it.
"""

from __future__ import annotations

from ....source.helpers import HelperText

RESIZE_PLACES = '''def resize_places(size, wanted, scale, length, part, where):
    """Return the position in the source axis of each element of the resized axis."""
    at = torch.arange(wanted, dtype=scale.dtype, device=scale.device)
    if where == "asymmetric":
        return at / scale
    if where == "align_corners":
        return at * torch.where(length == 1, 0, (size - 1) / (length - 1))
    if where == "tf_crop_and_resize":
        first, last = part[0] * (size - 1), part[1] * (size - 1)
        return torch.where(length == 1, (first + last) / 2, first + at * ((last - first) / (length - 1)))
    found = (at + 0.5) / scale - 0.5
    if where == "half_pixel_symmetric":
        found = found + size / 2 * (1 - wanted / length)
    return torch.where(length == 1, -0.5, found) if where == "pytorch_half_pixel" else found
'''

RESIZE_WEIGHTS = '''def resize_weights(size, places, narrow, mode, cubic, is_within):
    """Return the weight of each source element at each place; the outer elements repeat beyond the ends."""
    reach = int(2 / narrow) + 2
    taps = torch.arange(-reach, size + reach, device=places.device)
    far = (taps - places.clamp(-0.5, size - 0.5).unsqueeze(-1)).abs() * narrow
    if mode == "linear":
        weights = (1 - far).clamp(min=0)
    else:
        near = ((cubic + 2) * far - (cubic + 3)) * far * far + 1
        weights = cubic * (((far - 5) * far + 8) * far - 4)
        weights = torch.where(far < 1, near, torch.where(far < 2, weights, 0))
    if is_within:
        weights = torch.where((taps >= 0) & (taps < size), weights, 0)
    own = taps.clamp(0, size - 1).unsqueeze(-1) == torch.arange(size, device=places.device)
    return (weights / weights.sum(-1, keepdim=True)) @ own.to(weights.dtype)
'''

RESIZED = '''def resized(
    x,
    sizes=None,
    scales=None,
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
    """Compute ONNX's Resize in every mode: one product or selection per axis."""
    real = torch.float32 if mode == "nearest" else torch.float64
    factors = scales
    if scales is None:
        factors = [new / x.shape[axis] for new, axis in zip(sizes, axes)]
        if policy != "stretch":
            factors = [min(factors) if policy == "not_larger" else max(factors)] * len(axes)
            sizes = [int(factor * x.shape[axis] + 0.5) for factor, axis in zip(factors, axes)]
    for k, axis in enumerate(axes):
        size, factor = x.shape[axis], torch.tensor(factors[k], device=x.device, dtype=real)
        if scales is not None:
            factor = torch.tensor(factors[k], device=x.device).to(real)
        new = int((factor.float() * size).floor()) if sizes is None else sizes[k]
        is_stretched = scales is None and policy == "stretch"
        length = torch.tensor(new, device=x.device, dtype=real) if is_stretched else factor * size
        part = (0.0, 1.0) if roi is None else (roi[k], roi[len(axes) + k])
        places = resize_places(size, new, factor, length, part, where)
        if mode == "nearest":
            if rounding == "floor":
                taken = places.floor()
            elif rounding == "ceil":
                taken = places.ceil()
            elif rounding == "round_prefer_ceil":
                taken = (places + 0.5).floor()
            else:
                taken = (places - 0.5).ceil()
            x = x.index_select(axis, taken.long().clamp(0, size - 1))
        else:
            narrow = min(factors[k], 1.0) if is_antialias else 1.0
            weights = resize_weights(size, places, narrow, mode, cubic, is_within)
            x = (x.movedim(axis, -1) @ weights.T.to(x.dtype)).movedim(-1, axis)
        if where == "tf_crop_and_resize":
            is_outside = (places < 0) | (places > size - 1)
            x = torch.where(is_outside.reshape(-1, *[1] * (x.ndim - 1 - axis)), outside, x)
    return x
'''

FUNCTIONS = {
    "resize_places": HelperText(RESIZE_PLACES),
    "resize_weights": HelperText(RESIZE_WEIGHTS),
    "resized": HelperText(RESIZED, ("resize_places", "resize_weights")),
}
"""Name -> helper, each behind those that it uses."""
