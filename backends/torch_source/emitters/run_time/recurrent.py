"""Functions of an emitted file's own for ONNX's recurrent operators, whose weights are operands."""

from __future__ import annotations

from ....source.helpers import HelperText

RECURRENCE = '''def recurrence(direction, x, w, b, states, lengths, backwards):
    """Run a recurrent layer on x of (sequence, batch, input); direction(k, bias) makes the step of one."""
    outputs, finals = [], []
    for k, is_backwards in enumerate(backwards):
        own, other = b[k].chunk(2)
        step = direction(k, other)
        inputs, state, steps = x @ w[k].T + own, [s[k] for s in states], []
        for turn in range(x.shape[0]):
            at = x.shape[0] - 1 - turn if is_backwards else turn
            new = step(inputs[at], state)
            output = new[0]
            if lengths is not None:  # rows that have ended keep their states
                goes_on = (lengths > at).unsqueeze(-1)
                output = torch.where(goes_on, output, 0)
                new = [torch.where(goes_on, n, s) for n, s in zip(new, state)]
            state = new
            steps.append(output)
        outputs.append(torch.stack(steps[::-1] if is_backwards else steps))
        finals.append(state)
    return torch.stack(outputs, 1), *[torch.stack(final) for final in zip(*finals)]
'''

ONNX_RNN = '''def onnx_rnn(x, w, r, b, lengths, h, backwards, activation):
    """Compute ONNX's RNN."""

    def direction(k, bias):
        return lambda inputs, state: [activation(inputs + state[0] @ r[k].T + bias)]

    return recurrence(direction, x, w, b, (h,), lengths, backwards)
'''

ONNX_GRU = '''def onnx_gru(x, w, r, b, lengths, h, backwards, is_reset_last):
    """Compute ONNX's GRU, whose gates are (update, reset, hidden)."""
    size = r.shape[-1]

    def direction(k, bias):
        gates, hidden = r[k, : 2 * size].T, r[k, 2 * size :].T
        gates_bias, hidden_bias = bias[: 2 * size], bias[2 * size :]

        def step(inputs, state):
            xz, xr, xn = inputs.chunk(3, -1)
            hz, hr = (state[0] @ gates + gates_bias).chunk(2, -1)
            z, reset = torch.sigmoid(xz + hz), torch.sigmoid(xr + hr)
            before = state[0] if is_reset_last else reset * state[0]
            hn = before @ hidden + hidden_bias
            new = torch.tanh(xn + (reset * hn if is_reset_last else hn))
            return [new + z * (state[0] - new)]

        return step

    return recurrence(direction, x, w, b, (h,), lengths, backwards)
'''

ONNX_LSTM = '''def onnx_lstm(x, w, r, b, lengths, h, c, peepholes, backwards):
    """Compute ONNX's LSTM, whose gates are (input, output, forget, cell)."""

    def direction(k, bias):
        pi, po, pf = (0, 0, 0) if peepholes is None else peepholes[k].chunk(3)

        def step(inputs, state):
            i, o, f, new = (inputs + state[0] @ r[k].T + bias).chunk(4, -1)
            i, f = torch.sigmoid(i + pi * state[1]), torch.sigmoid(f + pf * state[1])
            c = f * state[1] + i * torch.tanh(new)
            return [torch.sigmoid(o + po * c) * torch.tanh(c), c]

        return step

    return recurrence(direction, x, w, b, (h, c), lengths, backwards)
'''

OF_LENGTHS = '''class {kind}OfLengths(nn.{kind}):
    """nn.{kind} of padded sequences, each as long as `lengths` has it; zeros follow its outputs."""

    def forward(self, x, hx=None, *, lengths):
        first = self.batch_first
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths.cpu(), first, enforce_sorted=False
        )
        y, states = super().forward(packed, hx)
        steps = x.shape[1 if first else 0]
        y, _ = nn.utils.rnn.pad_packed_sequence(y, first, total_length=steps)
        return y, states
'''

FUNCTIONS = {
    "recurrence": HelperText(RECURRENCE),
    "onnx_rnn": HelperText(ONNX_RNN, ("recurrence",)),
    "onnx_gru": HelperText(ONNX_GRU, ("recurrence",)),
    "onnx_lstm": HelperText(ONNX_LSTM, ("recurrence",)),
    **{f"{kind}OfLengths": HelperText(OF_LENGTHS.format(kind=kind)) for kind in ("LSTM", "GRU", "RNN")},
}
"""Name -> helper, each behind those that it uses."""
