"""Image models in MindSpore, as mindcv's and the tutorials' users write them, narrow."""

import mindspore as ms
from mindspore import nn, ops


class BasicBlock(nn.Cell):
    """A residual block; padding is MindSpore's default 'same'."""

    def __init__(self, in_channel, out_channel, stride=1, down_sample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channel, out_channel, 3, stride, has_bias=False)
        self.norm1 = nn.BatchNorm2d(out_channel)
        self.conv2 = nn.Conv2d(out_channel, out_channel, 3)
        self.norm2 = nn.BatchNorm2d(out_channel)
        self.relu = nn.ReLU()
        self.down_sample = down_sample

    def construct(self, x):
        identity = x
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        if self.down_sample is not None:
            identity = self.down_sample(x)
        out += identity
        return self.relu(out)


def make_layer(in_channel, out_channel, blocks, stride=1):
    down_sample = None
    if stride != 1 or in_channel != out_channel:
        down_sample = nn.SequentialCell(
            [nn.Conv2d(in_channel, out_channel, kernel_size=1, stride=stride), nn.BatchNorm2d(out_channel)]
        )
    layers = [BasicBlock(in_channel, out_channel, stride, down_sample)]
    layers += [BasicBlock(out_channel, out_channel) for _ in range(1, blocks)]
    return nn.SequentialCell(layers)


class ResNet(nn.Cell):
    """The tutorial's ResNet: (N, 3, 33, 30), an odd and an even side under 'same' with strides."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, kernel_size=7, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()
        self.max_pool = nn.MaxPool2d(kernel_size=3, stride=2, pad_mode="same")
        self.layer1 = make_layer(8, 8, 2)
        self.layer2 = make_layer(8, 16, 2, stride=2)
        self.avg_pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Dense(16, classes)

    def construct(self, x):
        x = self.max_pool(self.relu(self.norm(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(self.flatten(self.avg_pool(x)))


class Vgg(nn.Cell):
    """mindcv's VGG: 'pad' convolutions with biases, a flattened classifier with dropout."""

    def __init__(self, cfg=(8, "M", 16, 16, "M"), classes=10):
        super().__init__()
        layers, channels = [], 3
        for v in cfg:
            if v == "M":
                layers += [nn.MaxPool2d(kernel_size=2, stride=2)]
            else:
                layers += [
                    nn.Conv2d(channels, v, 3, pad_mode="pad", padding=1, has_bias=True),
                    nn.ReLU(),
                ]
                channels = v
        self.features = nn.SequentialCell(layers)
        self.flatten = nn.Flatten()
        self.classifier = nn.SequentialCell(
            [
                nn.Dense(channels * 16, 32),
                nn.ReLU(),
                nn.Dropout(p=0.5),
                nn.Dense(32, classes),
            ]
        )

    def construct(self, x):
        return self.classifier(self.flatten(self.features(x)))


class ConvBnRelu(nn.Cell):
    def __init__(self, inputs, outputs, kernel=3, stride=1, groups=1):
        super().__init__()
        self.features = nn.SequentialCell(
            [
                nn.Conv2d(
                    inputs, outputs, kernel, stride, pad_mode="pad", padding=(kernel - 1) // 2, group=groups
                ),
                nn.BatchNorm2d(outputs),
                nn.ReLU6(),
            ]
        )

    def construct(self, x):
        return self.features(x)


class InvertedResidual(nn.Cell):
    def __init__(self, inp, oup, stride, expand):
        super().__init__()
        hidden = inp * expand
        self.use_res = stride == 1 and inp == oup
        layers = []
        if expand != 1:
            layers.append(ConvBnRelu(inp, hidden, 1))
        layers += [
            ConvBnRelu(hidden, hidden, 3, stride, hidden),
            nn.Conv2d(hidden, oup, 1, 1, has_bias=False),
            nn.BatchNorm2d(oup),
        ]
        self.layers = nn.SequentialCell(layers)

    def construct(self, x):
        identity = x
        x = self.layers(x)
        if self.use_res:
            return ops.add(identity, x)
        return x


class MobileNetV2(nn.Cell):
    def __init__(self, classes=10):
        super().__init__()
        features = [ConvBnRelu(3, 8, 3, 2)]
        inp = 8
        for t, c, n, s in [(1, 8, 1, 1), (4, 12, 2, 2)]:
            for i in range(n):
                features.append(InvertedResidual(inp, c, s if i == 0 else 1, t))
                inp = c
        features.append(ConvBnRelu(inp, 24, 1))
        self.features = nn.SequentialCell(features)
        self.head = nn.Dense(24, classes)

    def construct(self, x):
        x = self.features(x)
        x = ops.mean(x, (2, 3))
        return self.head(x)


class DenseLayer(nn.Cell):
    def __init__(self, channels, growth):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU()
        self.conv1 = nn.Conv2d(channels, 2 * growth, kernel_size=1, stride=1)
        self.norm2 = nn.BatchNorm2d(2 * growth)
        self.relu2 = nn.ReLU()
        self.conv2 = nn.Conv2d(2 * growth, growth, kernel_size=3, pad_mode="pad", padding=1)

    def construct(self, features):
        x = self.conv1(self.relu1(self.norm1(features)))
        return self.conv2(self.relu2(self.norm2(x)))


class DenseBlock(nn.Cell):
    """mindcv's: layers in a CellList, features concatenated as they come."""

    def __init__(self, layers, channels, growth):
        super().__init__()
        self.cell_list = nn.CellList()
        for i in range(layers):
            self.cell_list.append(DenseLayer(channels + i * growth, growth))

    def construct(self, init_features):
        features = init_features
        for layer in self.cell_list:
            new_features = layer(features)
            features = ops.concat((features, new_features), 1)
        return features


class Transition(nn.Cell):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.features = nn.SequentialCell(
            [
                nn.BatchNorm2d(inputs),
                nn.ReLU(),
                nn.Conv2d(inputs, outputs, 1),
                nn.AvgPool2d(kernel_size=2, stride=2),
            ]
        )

    def construct(self, x):
        return self.features(x)


class DenseNet(nn.Cell):
    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.SequentialCell(
            [
                nn.Conv2d(3, 8, 3),
                DenseBlock(2, 8, 4),
                Transition(16, 8),
                DenseBlock(2, 8, 4),
                nn.BatchNorm2d(16),
                nn.ReLU(),
            ]
        )
        self.classifier = nn.Dense(16, classes)

    def construct(self, x):
        x = self.features(x)
        x = x.mean(axis=(2, 3))
        return self.classifier(x)


class LeNet5(nn.Cell):
    """The tutorial's LeNet-5: 'valid' convolutions, Dense heads, on (N, 1, 32, 32)."""

    def __init__(self, num_class=10, num_channel=1):
        super().__init__()
        self.conv1 = nn.Conv2d(num_channel, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.fc1 = nn.Dense(16 * 5 * 5, 120)
        self.fc2 = nn.Dense(120, 84)
        self.fc3 = nn.Dense(84, num_class)
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()

    def construct(self, x):
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


class Mlp(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.dense_relu_sequential = nn.SequentialCell(
            nn.Dense(64, 32, activation="relu"),
            nn.Dropout(p=0.2),
            nn.Dense(32, 16),
            nn.ReLU(),
            nn.Dense(16, 10),
        )

    def construct(self, x):
        return ops.softmax(self.dense_relu_sequential(self.flatten(x)), axis=-1)


class SamePadding(nn.Cell):
    """'same' over even kernels, dilation and strides, with pools of each mode, on (N, 2, 13, 16)."""

    def __init__(self):
        super().__init__()
        self.even = nn.Conv2d(2, 4, 4, has_bias=True)
        self.dilated = nn.Conv2d(4, 4, 3, dilation=2)
        self.strided = nn.Conv2d(4, 8, (3, 2), stride=(2, 3))
        self.depthwise = nn.Conv2d(8, 8, 3, group=8, pad_mode="pad", padding=(1, 0, 2, 1))
        self.max_same = nn.MaxPool2d(3, 2, pad_mode="same")
        self.avg_same = nn.AvgPool2d(3, 2, pad_mode="same")
        self.avg_valid = nn.AvgPool2d(2)
        self.max_pad = nn.MaxPool2d(3, 2, pad_mode="pad", padding=1)
        self.avg_pad = nn.AvgPool2d(3, 2, pad_mode="pad", padding=1, count_include_pad=False)

    def construct(self, x):
        x = self.dilated(self.even(x))
        a, b, c, d, e = (
            self.max_same(x),
            self.avg_same(x),
            self.avg_valid(x),
            self.max_pad(x),
            self.avg_pad(x),
        )
        x = self.depthwise(self.strided(x))
        return x, ops.concat((a, b), 1), c, d - e


class Transposed(nn.Cell):
    """Transposed convolutions of each padding, GroupNorm, LeakyReLU with MindSpore's slope of 0.2."""

    def __init__(self):
        super().__init__()
        self.up1 = nn.Conv2dTranspose(4, 8, 4, stride=2, pad_mode="pad", padding=1, has_bias=True)
        self.norm = nn.GroupNorm(2, 8)
        self.act = nn.LeakyReLU()
        self.up2 = nn.Conv2dTranspose(8, 4, 3, stride=2)
        self.up3 = nn.Conv2dTranspose(4, 2, 3, stride=1, pad_mode="valid")

    def construct(self, x):
        x = self.act(self.norm(self.up1(x)))
        return ops.tanh(self.up3(self.up2(x)))


class Activations(nn.Cell):
    """Activations, with MindSpore's own defaults."""

    def __init__(self):
        super().__init__()
        self.gelu = nn.GELU()
        self.gelu_erf = nn.GELU(approximate=False)
        self.leaky = nn.LeakyReLU()
        self.prelu = nn.PReLU(channel=3)
        self.elu = nn.ELU()
        self.hswish = nn.HSwish()
        self.hsigmoid = nn.HSigmoid()
        self.silu = nn.SiLU()
        self.sigmoid = nn.Sigmoid()
        self.log_softmax = nn.LogSoftmax()

    def construct(self, x):
        y = self.gelu(x) + self.gelu_erf(x) * self.leaky(x)
        y = y + self.prelu(x) - self.elu(x) * self.hswish(x) + self.hsigmoid(x)
        return self.log_softmax(self.silu(y) * self.sigmoid(x) + ops.softplus(x))


class NormAxes(nn.Cell):
    """LayerNorm's MindSpore epsilon of 1e-7, over one and over three axes; BatchNorm1d."""

    def __init__(self):
        super().__init__()
        self.last = nn.LayerNorm((6,))
        self.three = nn.LayerNorm((2, 5, 6), begin_norm_axis=1, begin_params_axis=1)
        self.dense = nn.Dense(60, 8)
        self.batch = nn.BatchNorm1d(8, momentum=0.95, eps=1e-3)

    def construct(self, x):
        x = self.three(self.last(x * 1e-3))
        return self.batch(self.dense(x.reshape(x.shape[0], -1)))


class Segmentation(nn.Cell):
    """An encoder and a decoder with a skip, resized by interpolation; two outputs."""

    def __init__(self):
        super().__init__()
        self.down = nn.SequentialCell(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU())
        self.deep = nn.SequentialCell(nn.Conv2d(8, 16, 3, 2), nn.BatchNorm2d(16), nn.ReLU())
        self.lateral = nn.Conv2d(16, 8, 1, has_bias=True)
        self.out = nn.Conv2d(8, 2, 1, has_bias=True)

    def construct(self, x):
        a = self.down(x)
        b = self.lateral(self.deep(a))
        b = ops.interpolate(b, size=(8, 8), mode="bilinear", align_corners=True)
        y = self.out(a + b)
        return y, ops.argmax(y, 1).astype(ms.int32)


class AlignedCorners(nn.Cell):
    """Volumes by scales that are no whole numbers, with aligned corners."""

    def construct(self, x):
        scales = (1.7, 1.4, 0.6)
        return ops.interpolate(x, scale_factor=scales, mode="trilinear", align_corners=True)
