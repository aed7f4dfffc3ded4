"""The same classifier, as somebody who comes from PyTorch writes it in MindSpore."""

import math

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.common.initializer import HeNormal, HeUniform, Uniform, initializer


class Extractor(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, pad_mode="pad", padding=1, has_bias=True, bias_init=Uniform(1 / 3))
        self.first_norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(
            8, 16, 3, pad_mode="pad", padding=1, has_bias=True, bias_init=Uniform(1 / math.sqrt(72))
        )
        self.second_norm = nn.BatchNorm2d(16)
        self.shrink = nn.AdaptiveMaxPool2d((4, 4))
        for _, cell in self.cells_and_names():
            if isinstance(cell, nn.Conv2d):
                cell.weight.set_data(
                    initializer(
                        HeNormal(mode="fan_out", nonlinearity="relu"), cell.weight.shape, cell.weight.dtype
                    )
                )

    def construct(self, x):
        x = ops.relu(self.first_norm(self.first(x)))
        return self.shrink(ops.relu(self.second_norm(self.second(x))))


def dense(inputs, outputs):
    return nn.Dense(
        inputs, outputs, weight_init=HeUniform(math.sqrt(5)), bias_init=Uniform(1 / math.sqrt(inputs))
    )


class Classifier(nn.Cell):
    def __init__(self):
        super().__init__()
        self.extractor = Extractor()
        self.hidden = dense(256, 32)
        self.scores = dense(32, 10)
        for parameter in self.extractor.first.get_parameters():
            parameter.requires_grad = False

    def construct(self, x):
        x = self.extractor(x).reshape((-1, 256))
        return self.scores(ops.relu(self.hidden(x)))


class Half(Classifier):
    """Computes in float16, its normalisations in float32."""

    def __init__(self):
        super().__init__()
        self.to_float(ms.float16)
        for _, cell in self.cells_and_names():
            if isinstance(cell, nn.BatchNorm2d):
                cell.to_float(ms.float32)


class Sampler(nn.Cell):
    """Draws one class with NumPy inside construct."""

    def __init__(self):
        super().__init__()
        self.scores = dense(16, 4)

    def construct(self, x):
        p = ops.softmax(self.scores(x)).asnumpy()
        drawn = [np.random.choice(4, p=row / row.sum()) for row in p]
        return Tensor(np.array(drawn, np.int32))


class Wrong(Classifier):
    """The law of the guide, with the wrong fan."""

    def __init__(self):
        super().__init__()
        for _, cell in self.cells_and_names():
            if isinstance(cell, nn.Conv2d):
                cell.weight.set_data(initializer(HeNormal(), cell.weight.shape, cell.weight.dtype))
