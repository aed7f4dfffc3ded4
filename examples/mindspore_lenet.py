"""A healthy small MindSpore net: convolutions with the default 'same' padding, BatchNorm, pools, Dense."""

from mindspore import nn


class Block(nn.Cell):
    """Convolution, normalisation, activation, pooling."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride)
        self.norm = nn.BatchNorm2d(outputs)
        self.act = nn.ReLU()
        self.pool = nn.MaxPool2d(2, 2)

    def construct(self, x):
        return self.pool(self.act(self.norm(self.conv(x))))


class LeNet(nn.Cell):
    """Two blocks and a two-layer head on (N, 1, 28, 28) images; returns (N, classes) scores."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.SequentialCell(Block(1, 8), Block(8, 16, 2))
        self.flatten = nn.Flatten()
        self.hidden = nn.Dense(16 * 3 * 3, 32, activation="relu")
        self.dropout = nn.Dropout(p=0.25)
        self.head = nn.Dense(32, classes)

    def construct(self, x):
        x = self.flatten(self.features(x))
        return self.head(self.dropout(self.hidden(x)))
