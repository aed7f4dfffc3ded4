"""PyTorch nets in which sharing, signatures, state or in-place operators are the point, not the layers."""

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            OrderedDict(
                [
                    ("flatten", nn.Flatten()),
                    ("fc1", nn.Linear(48, 32)),
                    ("relu1", nn.ReLU()),
                    ("drop1", nn.Dropout(p=0.2)),
                    ("fc2", nn.Linear(32, 16)),
                    ("relu2", nn.ReLU()),
                    ("fc3", nn.Linear(16, 10)),
                ]
            )
        )

    def forward(self, x):
        return self.net(x)


class Siamese(nn.Module):
    """One encoder, called on two inputs; the distance of the embeddings."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 8)
        )

    def forward(self, left, right):
        a, b = self.encoder(left), self.encoder(right)
        return F.pairwise_distance(a, b), torch.cosine_similarity(a, b, dim=1)


class SharedLayers(nn.Module):
    """One Linear called three times (once by another name), one activation object everywhere."""

    def __init__(self):
        super().__init__()
        self.act = nn.Tanh()
        self.first = nn.Linear(8, 8)
        self.again = self.first
        self.body = nn.Sequential(nn.Linear(8, 8), self.act, self.first, self.act)

    def forward(self, x):
        return self.body(self.act(self.again(self.first(x))))


class TiedAutoencoder(nn.Module):
    """The decoder multiplies by the encoder's own weight, transposed."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(12, 5)
        self.bias = nn.Parameter(torch.zeros(12))

    def forward(self, x):
        return F.linear(torch.relu(self.encoder(x)), self.encoder.weight.t(), self.bias)


class Containers(nn.Module):
    """ModuleList by index, ModuleDict by key, ParameterList, ParameterDict."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.activations = nn.ModuleDict({"lrelu": nn.LeakyReLU(), "prelu": nn.PReLU(6)})
        self.scales = nn.ParameterList([nn.Parameter(torch.rand(6)) for _ in range(2)])
        self.shifts = nn.ParameterDict({"a": nn.Parameter(torch.rand(6)), "b": nn.Parameter(torch.rand(6))})

    def forward(self, x):
        for layer, scale, (name, shift) in zip(self.layers, self.scales, self.shifts.items(), strict=True):
            x = self.activations["lrelu" if name == "a" else "prelu"](layer(x) * scale + shift)
        return x


class Functional(nn.Module):
    """Everything through torch.nn.functional with bare Parameters."""

    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(6, 3, 3, 3) * 0.2)
        self.b1 = nn.Parameter(torch.zeros(6))
        self.w2 = nn.Parameter(torch.randn(6 * 16, 5) * 0.1)
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, x):
        x = F.conv2d(x, self.w1, self.b1, padding=1)
        x = F.max_pool2d(F.relu(x), 2)
        x = torch.matmul(x.flatten(1), self.w2)
        return F.softmax(x * self.gain, dim=-1)


class InPlace(nn.Module):
    """relu_, add_, mul_ and an assignment to a slice."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        y = self.conv(x)
        y.relu_()
        y.add_(1.0).mul_(0.5)
        z = y.mean((2, 3))
        z = self.fc(z).clamp_(min=-1.0, max=1.0)
        z[:, 0] = z[:, 1] * 2
        z[:, 2:4] += 1
        return z


class TwoOutputs(nn.Module):
    """Deep supervision: logits and an auxiliary head."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 6, 3, 2, 1)
        self.main = nn.Linear(6, 4)
        self.aux = nn.Linear(6, 2)

    def forward(self, x):
        x = F.relu(self.body(x)).mean((2, 3))
        return self.main(x), self.aux(x)


class DictOutput(nn.Module):
    """A segmentation-like dict of outputs."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Conv2d(3, 6, 3, 2, 1)
        self.classifier = nn.Conv2d(6, 2, 1)
        self.aux_classifier = nn.Conv2d(6, 2, 1)

    def forward(self, x):
        size = x.shape[-2:]
        y = F.relu(self.backbone(x))
        result = OrderedDict()
        result["out"] = F.interpolate(self.classifier(y), size=size, mode="bilinear", align_corners=False)
        result["aux"] = self.aux_classifier(y)
        return result


class AlignedCorners(nn.Module):
    """Sizes by scales that are no whole numbers, with aligned corners."""

    def forward(self, x):
        y = F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True)
        return F.interpolate(y, scale_factor=(0.6, 1.3), mode="bicubic", align_corners=True)


class Normalisations(nn.Module):
    """LayerNorm over two axes, GroupNorm, InstanceNorm, LayerNorm and BatchNorm without affine."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.group = nn.GroupNorm(2, 8, eps=1e-6)
        self.instance = nn.InstanceNorm2d(8, affine=True)
        self.batch = nn.BatchNorm2d(8, affine=False)
        self.layer = nn.LayerNorm([6, 6])
        self.plain = nn.LayerNorm(6, elementwise_affine=False)
        self.bare = nn.InstanceNorm2d(8)

    def forward(self, x):
        x = self.group(self.conv(x))
        x = self.batch(self.instance(x))
        return self.bare(self.layer(x)) + self.plain(x)


class Activations(nn.Module):
    """Activations whose defaults differ between frameworks."""

    def __init__(self):
        super().__init__()
        self.acts = nn.ModuleList(
            [
                nn.LeakyReLU(),
                nn.LeakyReLU(0.3),
                nn.GELU(),
                nn.GELU(approximate="tanh"),
                nn.SiLU(),
                nn.Hardswish(),
                nn.Hardsigmoid(),
                nn.PReLU(),
                nn.ELU(alpha=0.7),
                nn.SELU(),
                nn.Softplus(),
                nn.Mish(),
                nn.ReLU6(),
                nn.Hardtanh(-0.5, 0.8),
                nn.Sigmoid(),
                nn.LogSigmoid(),
                nn.Softsign(),
            ]
        )

    def forward(self, x):
        return torch.stack([act(x) for act in self.acts], dim=1)


class Buffers(nn.Module):
    """Buffers that are saved, that are not, that share a Parameter's shape; a frozen trunk."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.2, 0.3, 0.25]).view(1, 3, 1, 1), persistent=False)
        self.trunk = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU())
        for p in self.trunk.parameters():
            p.requires_grad = False
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = (x - self.mean) / self.std
        x = self.trunk(x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class OneBatched(nn.Module):
    """Two inputs: images with the batch, and one bank of prototypes that everyone is compared with."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(10, 6)

    def forward(self, x, prototypes):
        return self.encode(x) @ prototypes.t()


class KeywordInputs(nn.Module):
    """Keyword arguments, an optional mask that is left out."""

    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(20, 6)
        self.item = nn.Embedding(30, 6)
        self.bias = nn.Embedding(30, 1)

    def forward(self, user, item, mask=None):
        score = (self.user(user) * self.item(item)).sum(-1) + self.bias(item).squeeze(-1)
        if mask is not None:
            score = score * mask
        return torch.sigmoid(score)


class Reserved(nn.Module):
    """Attribute names that mean something to MindSpore's Cell, to Python or to nobody."""

    def __init__(self):
        super().__init__()
        self.phase = nn.Linear(6, 6)
        self.cells = nn.Linear(6, 6)
        self.construct = nn.Linear(6, 6)
        self.compile_cache = nn.Linear(6, 6)
        self.add_module("1x1", nn.Linear(6, 6))
        self.add_module("class", nn.Linear(6, 6))
        self.grad = nn.Parameter(torch.ones(6))

    def forward(self, x):
        x = torch.relu(self.cells(self.phase(x)))
        x = torch.relu(self.compile_cache(self.construct(x)))
        return getattr(self, "class")(getattr(self, "1x1")(x)) * self.grad


class Gated(nn.Module):
    """Arithmetic, comparisons, where, clamp, pow, min, max, split, stack, einsum, argmax."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 16)
        self.core = nn.Parameter(torch.randn(2, 4, 5))

    def forward(self, x):
        a, b = self.proj(x).split(8, dim=-1)
        y = a * torch.sigmoid(b)
        y = torch.where(y > 0, y**2, -y.abs())
        y = torch.maximum(y, x - 1).clamp(-3, 3)
        z = torch.einsum("nhd,hde->nhe", y.view(-1, 2, 4), self.core)
        top = z.amax(dim=-1, keepdim=True) - z.std(dim=-1, keepdim=True)
        return z / (1 + z.exp()) + top.rsqrt().nan_to_num(0.0), z.argmax(-1)


class StatefulDepth(nn.Module):
    """Two instances of one class that differ in a constructor's literal and in their shapes."""

    class Scaled(nn.Module):
        def __init__(self, dim, out, factor):
            super().__init__()
            self.factor = factor
            self.fc = nn.Linear(dim, out)

        def forward(self, x):
            return self.fc(x) * self.factor

    def __init__(self):
        super().__init__()
        self.a = self.Scaled(6, 8, 0.5)
        self.b = self.Scaled(8, 8, 2.0)
        self.c = self.Scaled(8, 6, 2.0)

    def forward(self, x):
        return self.c(self.b(self.a(x)))


class Unused(nn.Module):
    """A head that is registered and never called, a Parameter that is never read."""

    def __init__(self):
        super().__init__()
        self.used = nn.Linear(5, 4)
        self.pretraining_head = nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 2))
        self.temperature = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.used(x)
