"""Recurrent nets in PyTorch: stacks and cells, states given, taken and left alone."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, words=40, tags=7, width=8, hidden=12):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, batch_first=True, dropout=0.3, bidirectional=True)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(2 * hidden, tags)

    def forward(self, words):
        states, _ = self.lstm(self.embedding(words))
        return self.head(self.dropout(states))


class Translator(nn.Module):
    """An encoder whose last states a decoder starts from."""

    def __init__(self, width=6, hidden=10):
        super().__init__()
        self.encoder = nn.GRU(width, hidden, batch_first=True)
        self.decoder = nn.GRU(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 4)

    def forward(self, source, target):
        _, state = self.encoder(source)
        x, state = self.decoder(target, state)
        return self.head(x), state


class Stepwise(nn.Module):
    """Cells called once a step, and an Elman layer over what they made."""

    def __init__(self, width=5, hidden=7):
        super().__init__()
        self.cell = nn.LSTMCell(width, hidden)
        self.gate = nn.GRUCell(hidden, hidden)
        self.rnn = nn.RNN(hidden, 6, nonlinearity="relu", bias=False)

    def forward(self, x):
        h = c = x.new_zeros(x.size(0), self.cell.hidden_size)
        g, outputs = h, []
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
            g = self.gate(h, g)
            outputs.append(g)
        return self.rnn(torch.stack(outputs))[0].transpose(0, 1), c
