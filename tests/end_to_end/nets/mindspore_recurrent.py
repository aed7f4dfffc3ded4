"""Recurrent nets in MindSpore: stacks and cells, states given, taken and left alone, lengths."""

import mindspore as ms
from mindspore import nn, ops


class Tagger(nn.Cell):
    def __init__(self, words=40, tags=7, width=8, hidden=12):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, batch_first=True, dropout=0.3, bidirectional=True)
        self.dropout = nn.Dropout(p=0.5)
        self.head = nn.Dense(2 * hidden, tags)

    def construct(self, words):
        x, _ = self.lstm(self.embedding(words))
        return self.head(self.dropout(x))


class Translator(nn.Cell):
    """An encoder whose last states a decoder starts from."""

    def __init__(self, width=6, hidden=10):
        super().__init__()
        self.encoder = nn.LSTM(width, hidden, batch_first=True)
        self.decoder = nn.LSTM(width, hidden, batch_first=True)
        self.head = nn.Dense(hidden, 4)

    def construct(self, source, target):
        _, (h, c) = self.encoder(source)
        x, (h, _) = self.decoder(target, (h, c))
        return self.head(x), h[0]


class Stepwise(nn.Cell):
    """Cells called once a step, and an Elman layer over what they made."""

    def __init__(self, width=5, hidden=7):
        super().__init__()
        self.hidden = hidden
        self.cell = nn.LSTMCell(width, hidden)
        self.gate = nn.GRUCell(hidden, hidden)
        self.rnn = nn.RNN(hidden, 6, nonlinearity="relu", has_bias=False)

    def construct(self, x):
        h = ops.zeros((x.shape[0], self.hidden), ms.float32)
        c, g, outputs = h, h, []
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
            g = self.gate(h, g)
            outputs.append(g)
        y, _ = self.rnn(ops.stack(outputs))
        return y.swapaxes(0, 1), c


class Lengths(nn.Cell):
    """Padded sequences with their lengths."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(5, 6, batch_first=True, bidirectional=True)

    def construct(self, x, lengths):
        x, h = self.gru(x, None, lengths)
        return x, h[0] + h[1]
