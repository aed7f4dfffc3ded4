"""Functions of an emitted file's own, where MindSpore has none, or one that is wrong, coarse or slow.

Each is written once, into files that call it. Measured on CPU: `ops.log1p` and `ops.expm1` are 6e-8 off in
float32 and 1e-16 in float64, however close to 0; those here are within a unit in the last place of float32,
and two of float64.
"""

from __future__ import annotations

from ...source.helpers import HelperText
from . import indexing, recurrent, stub
from .run_time import functions, resize

AFFINE = '''def affine(x, weight, bias=None):
    """Compute ops.dense as nn.Dense does: ops.dense copies the weight at every call in PyNative mode."""
    y = ops.MatMul(transpose_b=True)(x.reshape(-1, weight.shape[1]), weight)
    if bias is not None:
        y = ops.bias_add(y, bias)
    return y.reshape(*x.shape[:-1], weight.shape[0])
'''

MODULO = '''def modulo(x, y):
    """Return x % y, also where y is infinite: MindSpore's own is NaN there."""
    is_far = ops.logical_and(ops.isinf(y), ops.isfinite(x))
    alike = ops.logical_or(x == 0, (x < 0) == (y < 0))
    return ops.where(is_far, ops.where(alike, x, y), x % y)
'''

FMOD = '''def fmod(x, y):
    """Return ops.fmod(x, y), also where y is infinite: MindSpore's own is NaN there."""
    return ops.where(ops.logical_and(ops.isinf(y), ops.isfinite(x)), x, ops.fmod(x, y))
'''

NEAREST_PIXELS = '''def nearest_pixels(grid, image, is_aligned, is_reflected):
    """Move each place to the nearest pixel, a tie to the even one; ops.grid_sample takes the outer one."""
    if is_reflected:
        grid = 1 - ops.abs(ops.abs(grid + 1) % 4 - 2)
    size = ms.Tensor(image.shape[:1:-1], grid.dtype)
    if is_aligned:
        return ops.round((grid + 1) * (size - 1) / 2) * 2 / ops.clamp(size - 1, min=1) - 1
    return (ops.round(((grid + 1) * size - 1) / 2) * 2 + 1) / size - 1
'''

NON_MAX_SUPPRESSION = '''def non_max_suppression(boxes, scores, most, overlap, score, is_centred):
    """Return a row (image, class, box) for each box that overlaps no better one, as ONNX does."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if is_centred:
        first, second = first - second / 2, first + second / 2
    low, high = ops.minimum(first, second), ops.maximum(first, second)
    area = ops.prod(high - low, -1)
    found = []
    for image in range(scores.shape[0]):
        inner = ops.minimum(high[image].expand_dims(1), high[image])
        shared = ops.prod(ops.relu(inner - ops.maximum(low[image].expand_dims(1), low[image])), -1)
        union = area[image].expand_dims(1) + area[image] - shared
        clash = (shared / union > overlap).tolist()
        for kind in range(scores.shape[1]):
            row, kept = scores[image, kind], []
            taken = (row > score).tolist()
            row = row.tolist()
            for box in sorted(range(len(row)), key=lambda i: -row[i]):
                if taken[box] and len(kept) < most and not any(clash[box][k] for k in kept):
                    kept.append(box)
            found += [(image, kind, box) for box in kept]
    return ms.Tensor(np.array(found, np.int64).reshape(-1, 3))
'''

RECURRENCE = '''def recurrence(direction, x, w, b, states, lengths, backwards):
    """Run a recurrent layer on x of (sequence, batch, input); direction(k, bias) makes the step of one."""
    outputs, finals = [], []
    for k in range(len(backwards)):
        own, other = ops.chunk(b[k], 2)
        step = direction(k, other)
        inputs, state, steps = ops.matmul(x, w[k].T) + own, tuple([s[k] for s in states]), []
        for turn in range(x.shape[0]):
            at = x.shape[0] - 1 - turn if backwards[k] else turn
            new = step(inputs[at], state)
            output = new[0]
            if lengths is not None:  # rows that have ended keep their states
                goes_on = (lengths > at).expand_dims(-1)
                output = ops.where(goes_on, output, ops.zeros_like(output))
                new = tuple([ops.where(goes_on, n, s) for n, s in zip(new, state)])
            state = new
            steps.append(output)
        outputs.append(ops.stack(steps[::-1] if backwards[k] else steps))
        finals.append(state)
    return (ops.stack(outputs, 1),) + tuple([ops.stack(final) for final in zip(*finals)])
'''

ONNX_RNN = '''def onnx_rnn(x, w, r, b, lengths, h, backwards, activation):
    """Compute ONNX's RNN."""

    def direction(k, bias):
        weight = r[k].T

        def step(inputs, state):
            return (activation(inputs + ops.matmul(state[0], weight) + bias),)

        return step

    return recurrence(direction, x, w, b, (h,), lengths, backwards)
'''

ONNX_GRU = '''def onnx_gru(x, w, r, b, lengths, h, backwards, is_reset_last):
    """Compute ONNX's GRU, whose gates are (update, reset, hidden)."""
    size = r.shape[-1]

    def direction(k, bias):
        gates, hidden = r[k, : 2 * size].T, r[k, 2 * size :].T
        gates_bias, hidden_bias = bias[: 2 * size], bias[2 * size :]

        def step(inputs, state):
            xz, xr, xn = ops.chunk(inputs, 3, axis=-1)
            hz, hr = ops.chunk(ops.matmul(state[0], gates) + gates_bias, 2, axis=-1)
            z, reset = sigmoid(xz + hz), sigmoid(xr + hr)
            before = state[0] if is_reset_last else reset * state[0]
            hn = ops.matmul(before, hidden) + hidden_bias
            new = tanh(xn + (reset * hn if is_reset_last else hn))
            return (new + z * (state[0] - new),)

        return step

    return recurrence(direction, x, w, b, (h,), lengths, backwards)
'''

ONNX_LSTM = '''def onnx_lstm(x, w, r, b, lengths, h, c, peepholes, backwards):
    """Compute ONNX's LSTM, whose gates are (input, output, forget, cell)."""

    def direction(k, bias):
        weight = r[k].T
        pi, po, pf = (0, 0, 0) if peepholes is None else ops.chunk(peepholes[k], 3)

        def step(inputs, state):
            gates = inputs + ops.matmul(state[0], weight) + bias
            i, o, f, new = ops.chunk(gates, 4, axis=-1)
            if peepholes is not None:
                i, f = i + pi * state[1], f + pf * state[1]
            c = sigmoid(f) * state[1] + sigmoid(i) * tanh(new)
            o = o if peepholes is None else o + po * c
            return sigmoid(o) * tanh(c), c

        return step

    return recurrence(direction, x, w, b, (h, c), lengths, backwards)
'''

# -- precise on CPU -----------------------------------------------------------------------------------------

ON_CPU = 'ON_CPU = ms.get_current_device().device_target == "CPU"'
"""The lines that precede the helpers below in a file."""

_PRECISE = {
    "sigmoid": '''def sigmoid(x):
    """Return ops.sigmoid(x); on CPU by ops.expm1, because errors of 1e-6 there add up over layers."""
    if ON_CPU:
        return 1 / (2 + ops.expm1(ops.clamp(-x, max=80)))
    return ops.sigmoid(x)
''',
    "tanh": '''def tanh(x):
    """Return ops.tanh(x); on CPU in float64, because float32 is 1e-4 off near 5 there."""
    if ON_CPU:
        return ops.tanh(x.astype(ms.float64)).astype(x.dtype)
    return ops.tanh(x)
''',
    "mish": '''def mish(x):
    """Return ops.mish(x); on CPU by powers of e in float64, because float32 is NaN from 45 on there."""
    if ON_CPU:
        wide = x.astype(ms.float64)
        power = ops.exp(ops.clamp(wide, max=40))
        power = power * (power + 2)
        return (wide * (power / (power + 2))).astype(x.dtype)
    return ops.mish(x)
''',
    "softmax": '''def softmax(x):
    """Return the softmax of rows; on CPU over another axis, because a row of -inf spoils later rows."""
    if ON_CPU:
        return ops.softmax(x.expand_dims(-1), axis=-2).squeeze(-1)
    return ops.softmax(x, axis=-1)
''',
    "log_softmax": '''def log_softmax(x, axis):
    """Return ops.log_softmax; on CPU by ops.logsumexp, because it is 4e-6 off near 0 there."""
    if ON_CPU:
        x = x - ops.amax(x, axis, keepdims=True)
        return x - ops.logsumexp(x, axis, keepdim=True)
    return ops.log_softmax(x, axis)
''',
    "log1p": '''def log1p(x):
    """Return ops.log1p(x); on CPU in float64, as ops.log(1 + x) with the sum's rounding error restored."""
    if ON_CPU:
        wide = x.astype(ms.float64)
        total = wide + 1
        found = ops.log(total)
        return ops.where(ops.abs(wide) < 1, found + (wide - (total - 1)) / total, found).astype(x.dtype)
    return ops.log1p(x)
''',
    "expm1": '''def expm1(x):
    """Return ops.expm1(x); on CPU in float64, as a product that avoids the cancellation of exp(x) - 1."""
    if ON_CPU:
        wide = x.astype(ms.float64)
        return (ops.tanh(wide / 2) * (ops.exp(wide) + 1)).astype(x.dtype)
    return ops.expm1(x)
''',
}
"""Precise functions of an emitted file; MindSpore has no other precise tanh in float32."""

_LAYER = '''class {layer}(nn.Cell):
    """nn.{layer}, computed by `{function}`."""

    def construct(self, x):
        return {function}(x)
'''
"""A layer that calls such a function."""


def _precise() -> dict[str, HelperText]:
    """Return the precise functions, each with the layer that calls it where there is one."""
    found = {"ON_CPU": HelperText(ON_CPU)}
    for name, text in _PRECISE.items():
        found[name] = HelperText(text, ("ON_CPU",))
        if name in ("sigmoid", "tanh", "mish", "softmax"):
            layer = name.capitalize()
            found[layer] = HelperText(_LAYER.format(layer=layer, function=name), (name,))
    return found


HELPERS: dict[str, HelperText] = {
    **_precise(),
    **recurrent.FUNCTIONS,
    **functions.FUNCTIONS,
    **resize.FUNCTIONS,
    "affine": HelperText(AFFINE),
    "modulo": HelperText(MODULO),
    "fmod": HelperText(FMOD),
    "nearest_pixels": HelperText(NEAREST_PIXELS),
    "non_max_suppression": HelperText(NON_MAX_SUPPRESSION),
    "recurrence": HelperText(RECURRENCE),
    "onnx_rnn": HelperText(ONNX_RNN, ("recurrence",)),
    "onnx_gru": HelperText(ONNX_GRU, ("recurrence", "sigmoid", "tanh")),
    "onnx_lstm": HelperText(ONNX_LSTM, ("recurrence", "sigmoid", "tanh")),
    "Unsupported": HelperText(stub.STUB),
    "redrawn": HelperText(recurrent.REDRAWN),
    "PaddedEmbedding": HelperText(indexing.PADDED_EMBEDDING),
}
"""Name -> helper, in the order in which a file has them: each behind those that it uses."""
