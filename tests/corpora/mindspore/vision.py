"""Convolution, normalisation and pooling layers with chosen arguments."""

from mindspore import nn, ops


class Convolution(nn.Cell):
    def __init__(self, **arguments):
        super().__init__()
        self.conv = nn.Conv2d(4, 6, **arguments)

    def construct(self, x):
        return self.conv(x)


class Pool(nn.Cell):
    def __init__(self, kind, **arguments):
        super().__init__()
        self.pool = getattr(nn, kind)(**arguments)

    def construct(self, x):
        return self.pool(x)


class Norm(nn.Cell):
    def __init__(self, kind, *arguments, **named):
        super().__init__()
        self.norm = getattr(nn, kind)(*arguments, **named)

    def construct(self, x):
        return self.norm(x)


class Activation(nn.Cell):
    def __init__(self, kind, *arguments, **named):
        super().__init__()
        self.act = getattr(nn, kind)(*arguments, **named)

    def construct(self, x):
        return self.act(x)


class Inverted(nn.Cell):
    """MobileNet v2's block: expansion, depthwise convolution, projection, shortcut."""

    def __init__(self, width=4, expansion=3):
        super().__init__()
        inner = width * expansion
        self.body = nn.SequentialCell(
            nn.Conv2d(width, inner, 1),
            nn.BatchNorm2d(inner),
            nn.ReLU6(),
            nn.Conv2d(inner, inner, 3, group=inner),
            nn.BatchNorm2d(inner),
            nn.ReLU6(),
            nn.Conv2d(inner, width, 1),
            nn.BatchNorm2d(width),
        )

    def construct(self, x):
        return x + self.body(x)


class Growing(nn.Cell):
    """DenseNet's block: every layer reads all before it."""

    def __init__(self, width=4, growth=3, layers=2):
        super().__init__()
        self.layers = nn.CellList(
            [nn.SequentialCell(nn.ReLU(), nn.Conv2d(width + i * growth, growth, 3)) for i in range(layers)]
        )
        self.pool = nn.AvgPool2d(2, 2)

    def construct(self, x):
        for layer in self.layers:
            x = ops.concat((x, layer(x)), 1)
        return self.pool(x).mean((2, 3))
