"""Functions of an emitted file's own, for ONNX's operators in forms that no one function of torch has.

Settings arrive as Python numbers: `numbers(axes)` of those that are tensors.
"""

from __future__ import annotations

from ....source.helpers import HelperText

NUMBERS = '''def numbers(sizes):
    """Return the elements of a tensor of integers as Python numbers."""
    return tuple(sizes.tolist())
'''

SLICED = '''def sliced(x, starts, ends, axes=None, steps=None):
    """Compute ONNX's Slice: bounds are counted from the end where they are negative, and steps may be."""
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps):
        kept = range(x.shape[axis])[start:end:step]
        x = x.index_select(axis, kept.start + kept.step * torch.arange(len(kept), device=x.device))
    return x
'''

PADDED = '''def padded(x, pads, mode, value=0, axes=None):
    """Compute ONNX's Pad, of any axes; negative pads crop."""
    axes = range(x.ndim) if axes is None else [axis % x.ndim for axis in axes]
    for axis, begin, end in zip(axes, pads[: len(axes)], pads[len(axes) :]):
        size = x.shape[axis] - max(-begin, 0) - max(-end, 0)
        x = x.narrow(axis, max(-begin, 0), size)
        at = torch.arange(-max(begin, 0), size + max(end, 0), device=x.device)
        if mode == "constant":
            rest = (0, 0) * (x.ndim - 1 - axis)
            x = F.pad(x, (*rest, max(begin, 0), max(end, 0)))
            is_inside = (at >= 0) & (at < size)
            x = torch.where(is_inside.reshape(-1, *[1] * (x.ndim - 1 - axis)), x, value)
            continue
        if mode == "wrap":
            at = at % size
        if mode == "reflect":
            period = max(2 * size - 2, 1)
            at = torch.minimum(at % period, -at % period)
        x = x.index_select(axis, at.clamp(0, size - 1))
    return x
'''

RESHAPED = '''def reshaped(x, sizes):
    """Compute ONNX's Reshape: 0 keeps a size of x, -1 takes the rest."""
    return x.reshape([size or x.shape[axis] for axis, size in enumerate(sizes)])
'''

UNSQUEEZED = '''def unsqueezed(x, axes):
    """Insert axes of size 1 into x; `axes` count in the result."""
    for axis in sorted(axis % (x.ndim + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x
'''

PRODUCT = '''def product(x, axes, keepdim=False):
    """Multiply along several axes, of which torch's own product has one."""
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keepdim, dtype=x.dtype)
    return x
'''

RUNNING_SUM = '''def running_sum(x, axis, exclusive=False, reverse=False):
    """Compute ONNX's CumSum: exclusive sums lack their own element, reverse ones begin at the end."""
    x = x.flip(axis) if reverse else x
    total = x.cumsum(axis, dtype=x.dtype)
    if exclusive:
        total = torch.cat((torch.zeros_like(x), total), axis).narrow(axis, x.shape[axis] - 1, x.shape[axis])
    return total.flip(axis) if reverse else total
'''

TOP_K = '''def top_k(x, k, axis=-1, largest=True):
    """Return the k largest elements and their places, the first of equal ones, which torch.topk may not."""
    values, places = x.sort(dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, k), places.narrow(axis, 0, k)
'''

UNIQUE = '''def unique(x, is_sorted):
    """Return the values of x, the place where each is first, the number of each element's, and counts."""
    values, own, counts = torch.unique(x.flatten(), return_inverse=True, return_counts=True)
    at = torch.arange(x.numel(), device=x.device)
    first = torch.full_like(counts, x.numel()).scatter_reduce(0, own, at, "amin")
    if not is_sorted:
        order = first.argsort()
        values, first, counts, own = values[order], first[order], counts[order], order.argsort()[own]
    return values, first, own, counts
'''

SCATTERED = '''def scattered(x, indices, updates, reduction):
    """Compute ONNX's ScatterND with a reduction other than a sum."""
    depth, flat = indices.shape[-1], 0
    for axis in range(depth):
        flat = flat * x.shape[axis] + indices[..., axis] % x.shape[axis]
    rows = x.reshape(x.shape[:depth].numel(), x.shape[depth:].numel())
    updates = updates.reshape(-1, rows.shape[1])
    places = flat.reshape(-1, 1).expand(updates.shape)
    return rows.scatter_reduce(0, places, updates, reduction).reshape(x.shape)
'''

GATHERED = '''def gathered(x, indices, batch_dims):
    """Compute ONNX's GatherND, whose first axes are those of a batch."""
    rows, places = x.flatten(0, batch_dims - 1), indices.flatten(0, batch_dims - 1)
    at = torch.arange(len(rows), device=x.device).reshape(-1, *[1] * (places.ndim - 2))
    return rows[(at, *places.unbind(-1))].unflatten(0, x.shape[:batch_dims])
'''

FOLDED = '''def folded(x, size, window, pads, strides, dilations):
    """Compute ONNX's Col2Im: sum columns into an image of any number of axes."""
    rank, lengths, places = len(size), [], torch.zeros(1, dtype=torch.int64, device=x.device)
    inner = []
    for axis in range(rank):
        length = size[axis] + pads[axis] + pads[rank + axis]
        count = (length - dilations[axis] * (window[axis] - 1) - 1) // strides[axis] + 1
        taps = torch.arange(window[axis], device=x.device) * dilations[axis]
        inner.append(taps.unsqueeze(1) + torch.arange(count, device=x.device) * strides[axis])
        lengths.append(length)
    for axis in range(rank):
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = inner[axis].shape
        places = places * lengths[axis] + inner[axis].reshape(shape)
    columns = x.reshape(x.shape[0], -1, places.numel())
    image = columns.new_zeros(*columns.shape[:2], torch.Size(lengths).numel())
    image = image.index_add(2, places.flatten(), columns).unflatten(2, lengths)
    for axis in range(rank):
        image = image.narrow(2 + axis, pads[axis], size[axis])
    return image
'''

DROPPED = '''def dropped(x, ratio, is_training):
    """Drop elements in training, and return which are kept as well."""
    scale = F.dropout(torch.ones_like(x), ratio, is_training)
    return x * scale, scale != 0
'''

FOURIER = '''def fourier(x, length=None, axis=-2, inverse=False, onesided=False):
    """Compute ONNX's DFT, whose last axis holds the real and the imaginary part."""
    axis = axis % x.ndim
    x = torch.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else x[..., 0]
    if inverse and onesided:
        return torch.fft.irfft(x, length, axis).unsqueeze(-1)
    found = torch.fft.ifft(x, length, axis) if inverse else torch.fft.fft(x, length, axis)
    if onesided:
        found = found.narrow(axis, 0, found.shape[axis] // 2 + 1)
    return torch.view_as_real(found)
'''

SHORT_FOURIER = '''def short_fourier(x, step, window=None, length=None, onesided=True):
    """Compute ONNX's STFT, whose last axis holds the real and the imaginary part."""
    x = torch.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else x.flatten(1)
    frames = x.unfold(1, len(window) if length is None else length, step)
    frames = frames if window is None else frames * window
    found = torch.fft.fft(frames)
    return torch.view_as_real(found[..., : found.shape[-1] // 2 + 1] if onesided else found)
'''

NON_MAX_SUPPRESSION = '''\
def non_max_suppression(boxes, scores, overlap, most=None, score=None, is_centred=False):
    """Return a row (image, class, box) for each box that overlaps no better one, as ONNX does."""
    first, second = boxes.chunk(2, -1)
    if is_centred:
        first, second = first - second / 2, first + second / 2
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    area = (high - low).prod(-1)
    found = []
    for image, kind in torch.cartesian_prod(*map(torch.arange, scores.shape[:2])).tolist():
        left = scores[image, kind].argsort(descending=True, stable=True)
        left = left if score is None else left[scores[image, kind][left] > score]
        left = left[:0] if most == 0 else left
        kept = []
        while len(left):
            best, left = left[0], left[1:] if most is None or len(kept) + 1 < most else left[:0]
            kept.append(best)
            ends = torch.minimum(high[image, best], high[image, left])
            shared = (ends - torch.maximum(low[image, best], low[image, left])).clamp(min=0).prod(-1)
            left = left[~(shared / (area[image, best] + area[image, left] - shared) > overlap)]
        found += [(image, kind, int(box)) for box in kept]
    return torch.tensor(found, dtype=torch.int64, device=boxes.device).reshape(-1, 3)
'''

ROI_ALIGN = '''def roi_align(x, regions, images, size, samples, scale, offset, is_largest=False):
    """Compute ONNX's RoiAlign: means, or the largest, of samples between the pixels of each region."""
    found = []
    for region, image in zip(regions * scale - offset, images.tolist()):
        near, far, shares = [], [], []
        for axis in (0, 1):
            start, extent, length = region[1 - axis], region[3 - axis] - region[1 - axis], x.shape[2 + axis]
            extent = extent if offset else extent.clamp(min=1)
            count = samples or max(int((extent / size[axis]).ceil()), 1)
            at = torch.arange(size[axis] * count, device=x.device) + 0.5
            at = start + at * extent / size[axis] / count
            is_inside = (at >= -1) & (at <= length)
            at = at.clamp(0, length - 1)
            low = at.floor().long()
            near.append(low)
            far.append((low + 1).clamp(max=length - 1))
            shares.append(((1 + low - at) * is_inside, (at - low) * is_inside))
        corners = [
            x[image][:, rows][..., columns] * (down.unsqueeze(1) * across)
            for rows, down in zip((near[0], far[0]), shares[0])
            for columns, across in zip((near[1], far[1]), shares[1])
        ]
        bins = torch.stack(corners)
        bins = bins.amax(0) if is_largest else bins.sum(0)
        bins = bins.unflatten(2, (size[1], -1)).unflatten(1, (size[0], -1))
        found.append(bins.amax((2, 4)) if is_largest else bins.mean((2, 4)))
    return torch.stack(found) if found else x.new_zeros(0, x.shape[1], *size)
'''

FUNCTIONS = {
    "numbers": HelperText(NUMBERS),
    "sliced": HelperText(SLICED),
    "padded": HelperText(PADDED),
    "reshaped": HelperText(RESHAPED),
    "unsqueezed": HelperText(UNSQUEEZED),
    "product": HelperText(PRODUCT),
    "running_sum": HelperText(RUNNING_SUM),
    "top_k": HelperText(TOP_K),
    "unique": HelperText(UNIQUE),
    "scattered": HelperText(SCATTERED),
    "gathered": HelperText(GATHERED),
    "folded": HelperText(FOLDED),
    "dropped": HelperText(DROPPED),
    "fourier": HelperText(FOURIER),
    "short_fourier": HelperText(SHORT_FOURIER),
    "non_max_suppression": HelperText(NON_MAX_SUPPRESSION),
    "roi_align": HelperText(ROI_ALIGN),
}
"""Name -> helper, each behind those that it uses."""
